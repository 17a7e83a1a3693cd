"""The server of `privcube explore`: read-only, for this machine, and for nothing but what it serves."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from privcube import ZCDP, ApproxDP, PureDP, Release, Schema, Workload, plan
from privcube.errors import ArtifactError, PrivcubeError
from privcube.model.documents.spec import Spec
from privcube.model.measurements import Measurements
from privcube.model.privacy.composition import Spending
from privcube.released.explorer.plan_site import plan_site
from privcube.released.explorer.release_site import release_site
from privcube.released.explorer.server import Server
from privcube.released.page.html import document_in

SPEC = """
[data]
source = "nowhere.csv"
[privacy]
{privacy}
[[attributes]]
name = "a"
size = 2
[[attributes]]
name = "b"
size = 3
[workload]
all_kway = [1, 2]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 3}), 2), PureDP("0.1"), "marginals")
    place = tmp_path_factory.mktemp("server") / "out"
    Release(Measurements(made, np.arange(made.rows) * 100)).save(place)
    return place


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with Server(release_site(folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def asked(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    reply = connection.getresponse()
    found = reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    connection.close()
    return found


def test_the_page_its_document_and_its_tables(port: int, folder: Path) -> None:
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        status, headers, content = asked(port, path)
        assert (status, headers["content-type"].split(";")[0]) == (200, kind)
        assert content
    served = json.loads(asked(port, "/document.json")[2])
    carried = document_in((folder / "index.html").read_bytes())
    assert {**served, "numbers": carried["numbers"]} == carried
    assert json.loads(asked(port, "/tables/0.json")[2]) == carried["numbers"]["0"]


def test_scripts_come_from_here_and_nothing_is_inline(port: int) -> None:
    _, headers, content = asked(port, "/")
    assert "unsafe" not in headers["content-security-policy"]
    assert "sha256" not in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert b"<style" not in content
    assert b"<script>" not in content


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1", "127.0.0.1:1", "localhost.example.com:{}", "", "127.0.0.1:{}@evil"]
)
def test_another_host_is_refused(port: int, host: str) -> None:
    status, _, content = asked(port, "/document.json", Host=host.format(port))
    assert status == 421
    assert b"attributes" not in content


def test_this_machine_by_name_is_answered(port: int) -> None:
    assert asked(port, "/", Host=f"localhost:{port}")[0] == 200


def test_a_request_without_a_host_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
        stream.sendall(b"GET /document.json HTTP/1.0\r\n\r\n")
        assert b" 421 " in stream.recv(4096)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(port: int, method: str) -> None:
    assert asked(port, "/document.json", method)[0] == 501


def test_a_head_has_no_body(port: int) -> None:
    status, headers, content = asked(port, "/", "HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["content-length"]) > 500


@pytest.mark.parametrize("path", ["/../plan.json", "/plan.json", "/tables/../a", "/index.html", "*", "/page.js/"])
@pytest.mark.parametrize("end", ["", "?x", "/tables/9.json", "/%2e%2e/%2e%2e/etc/passwd"])
def test_no_other_path_leads_anywhere(port: int, path: str, end: str) -> None:
    status, _, content = asked(port, path + end)
    assert status == 404
    assert content == b"There is nothing here."


@pytest.mark.parametrize("name", ["9.json", "-1.json", "00.json", "0.parquet", "0.json/", "0", "1e0.json", "%30.json"])
def test_only_numbers_of_tables_are_tables(port: int, name: str) -> None:
    assert asked(port, f"/tables/{name}")[0] == 404


def test_a_changed_table_is_refused(folder: Path, tmp_path: Path) -> None:
    import shutil

    out = Path(shutil.copytree(folder, tmp_path / "out"))
    site = release_site(out)
    (table,) = (out / "tables").glob("*.parquet")
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="SHA-256"):
        site.made("/tables/0.json")
    (out / "plan.json").write_text("{}")
    with pytest.raises(PrivcubeError):
        release_site(out)


def test_a_folder_that_is_none_and_a_port_that_is_taken(folder: Path, tmp_path: Path, port: int) -> None:
    with pytest.raises(PrivcubeError):
        release_site(tmp_path / "nothing")
    with pytest.raises(PrivcubeError):
        release_site(tmp_path)
    with pytest.raises(ArtifactError, match="a port that is free"):
        Server(release_site(folder), port)


# Plans


@pytest.mark.parametrize(
    ("privacy", "kinds"),
    [
        ('epsilon = "1"', ["pure", "approx"]),
        ('epsilon = "0.5"\ndelta = "1e-7"', ["approx", "pure"]),
        ('rho = "0.1"', ["zcdp", "pure", "approx"]),
        ('epsilon = "1e-11"', ["pure", "approx"]),
        ('epsilon = "1e8"', ["pure", "approx"]),
    ],
)
def test_plans_of_every_kind_of_guarantee(privacy: str, kinds: list[str]) -> None:
    spec = Spec.from_toml(SPEC.format(privacy=privacy))
    site = plan_site(spec, "spec.toml", Spending.of(spec.guarantee))
    document = site.made("/document.json")
    assert [kind["kind"] for kind in document["kinds"]] == kinds
    for kind in document["kinds"]:
        at = kind["budgets"].index(kind["amount"])
        assert kind["factors"][at] == 1.0
        assert sorted(kind["factors"], reverse=True) == kind["factors"]
        assert len(kind["left"]) == len(kind["budgets"])
        lines = site.made(f"/strategies/{kind['kind']}.json")
        assert all(len(line["errors"]) == 3 for line in lines if "errors" in line)
        assert json.dumps(lines, allow_nan=False)
    assert document["kinds"][0]["left"][at_own(document["kinds"][0])] == 0.0
    assert site.made(f"/chosen/{kinds[0]}.json")["errors"]
    assert site.made("/chosen/other.json") is None
    assert site.made("/strategies/../spec.toml") is None


def at_own(kind: dict[str, list[float]]) -> int:
    return kind["budgets"].index(kind["amount"])  # type: ignore[arg-type]


@pytest.mark.parametrize("guarantee", [PureDP("0.5"), ZCDP("0.02"), ApproxDP("0.5", "1e-6")])
def test_scaled_errors_are_those_of_a_plan_made_for_the_budget(guarantee: PureDP | ZCDP | ApproxDP) -> None:
    """What the page scales from one plan is what planning anew gives."""
    amounts = "\n".join(f'{name} = "{float(amount)}"' for name, amount in guarantee.amounts.items())
    spec = Spec.from_toml(SPEC.format(privacy=amounts) + '[plan]\nstrategy = "marginals"\n')
    kind = plan_site(spec, "spec.toml").made("/document.json")["kinds"][0]
    base = plan(spec.workload, spec.guarantee, "marginals")
    for at in (0, 5, 20, len(kind["budgets"]) - 1):
        again = plan(spec.workload, spec.guarantee.with_amount(str(kind["budgets"][at])), "marginals")
        expected = np.sqrt(base.table_variances) * kind["factors"][at]
        np.testing.assert_allclose(np.sqrt(again.table_variances), expected, rtol=1e-4)
