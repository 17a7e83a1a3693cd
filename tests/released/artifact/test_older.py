"""An older artifact: release-1.zip was written by privcube 0.1.0.dev0, before pages, words and codebooks."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import privcube as pc
from privcube.errors import ArtifactError
from privcube.released.artifact.folder import CHECKSUMS, checksums_text
from privcube.released.artifact.manifest import FORMAT
from privcube.released.artifact.store import MANIFEST
from privcube.released.explorer.release_site import release_site


@pytest.fixture
def older(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("release-1.zip")) as stored:
        stored.extractall(tmp_path / "out")
    return tmp_path / "out"


def relabeled(folder: Path, name: str) -> None:
    """Write another format into the manifest, and its checksum into the list."""
    import hashlib

    stated = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**stated, "format": name}))
    lines = [line.split("  ") for line in (folder / CHECKSUMS).read_text().splitlines()]
    digests = {name: digest for digest, name in lines}
    digests[MANIFEST] = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    (folder / CHECKSUMS).write_text(checksums_text(digests))


def test_verify_says_what_it_is_and_checks_what_is_the_same(older: Path) -> None:
    checks = {check.name: check for check in pc.verify(older)}
    assert list(checks) == ["format", "checksums", "plan", "budget", "noise", "ledger head"]
    assert all(check.passed for check in checks.values())
    assert [name for name, check in checks.items() if check.partial] == ["format"]
    assert "older format 'privcube release 1'" in checks["format"].detail
    assert "privcube 0.1.0.dev0" in checks["format"].detail
    assert not all(check.passed for check in pc.verify(older, strict=True))


def test_it_is_read_and_its_tables_follow_from_the_measurements(older: Path) -> None:
    release = pc.Release.open(older)
    assert release.table("sex")["estimate"].sum() == pytest.approx(release.query({}).estimate)
    assert release.words == pc.Words()


def test_explore_says_what_to_do(older: Path) -> None:
    with pytest.raises(ArtifactError, match="save it"):
        release_site(older)


def test_a_changed_measurement_is_noticed(older: Path) -> None:
    content = bytearray((older / "measurements.parquet").read_bytes())
    content[20] ^= 1
    (older / "measurements.parquet").write_bytes(content)
    assert not all(check.passed for check in pc.verify(older))
    with pytest.raises(ArtifactError, match="SHA-256"):
        pc.Release.open(older)


def test_a_release_of_today_cannot_pass_as_an_older_one(older: Path, tmp_path: Path) -> None:
    """Who relabels it gets "in part", never "all checks passed"; an unknown format is refused."""
    pc.Release.open(older).save(tmp_path / "new")
    assert all(check.passed and not check.partial for check in pc.verify(tmp_path / "new"))
    assert json.loads((tmp_path / "new" / MANIFEST).read_text())["format"] == FORMAT
    relabeled(tmp_path / "new", "privcube release 1")
    assert any(check.partial for check in pc.verify(tmp_path / "new"))
    relabeled(tmp_path / "new", "privcube release 3")
    assert not all(check.passed for check in pc.verify(tmp_path / "new"))
    with pytest.raises(ArtifactError, match="privcube release 2"):
        pc.Release.open(tmp_path / "new")
