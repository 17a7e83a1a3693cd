# The command alone, for those who cannot install Python packages: not root, no shell history, nothing listens.
#   docker build -t privcube .
#   docker run --rm --network none -v "$PWD:/work" --user "$(id -u):$(id -g)" privcube release spec.toml
FROM python:3.13-slim AS built
COPY . /source
RUN python -m venv /opt/privcube \
 && /opt/privcube/bin/pip install --no-cache-dir --no-compile --constraint /source/constraints.txt /source

FROM python:3.13-slim
COPY --from=built /opt/privcube /opt/privcube
RUN useradd --no-create-home --uid 10001 custodian
USER custodian
WORKDIR /work
ENTRYPOINT ["/opt/privcube/bin/privcube"]
CMD ["--help"]
