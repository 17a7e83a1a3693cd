"""`privcube verify`: check everything about a release that can be checked without the data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from privcube.cli.output import count_of, say, say_json
from privcube.cli.progress import Progress

if TYPE_CHECKING:
    from privcube.released.artifact.verification import Check


NOT_ALL: Final = 3  # the exit code if nothing fails, but something could not be checked


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--spec", type=click.Path(), help="Also compare with the ledger of this spec.toml.")
@click.option("--strict", is_flag=True, help="Fail if something in DIR is not covered or cannot be checked.")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def verify(folder: str, spec: str | None, strict: bool, as_json: bool) -> None:
    """Check a release without its data.

    Checks every byte in DIR, the budget, the noise, and whether the tables agree.

    Files that the publisher added, such as a README, are named as not covered. A check that can be made only in
    part says "part", and names what it leaves out: what another version of privcube is said to have written. With
    --strict, both fail.

    The exit code is 0 if everything of the release was checked and is right, 3 if nothing is wrong but something
    could not be checked, 1 if a check fails, 2 if DIR is not a release at all.

    \b
    Example:
      privcube verify out
      privcube verify out --spec spec.toml
    """
    from privcube.released.artifact.verification import Check
    from privcube.released.artifact.verification import verify as checks_of

    _require_release(folder)
    with Progress() as progress:
        checks = checks_of(folder, strict=strict, progress=progress)
        if spec is not None:
            objection, detail, unchecked = _in_ledger(folder, spec, progress)
            if objection is not None:
                checks.append(Check("ledger", False, objection))
            elif unchecked is not None:
                checks.append(Check("ledger", not strict, f"{detail}; NOT CHECKED: {unchecked}", partial=True))
            else:
                checks.append(Check("ledger", True, detail))
    failed = sum(not check.passed for check in checks)
    in_part, beside = sum(check.partial for check in checks), any(check.beside for check in checks)
    if as_json:
        found = [
            {"check": check.name, "passed": check.passed, "partial": check.partial, "detail": check.detail}
            for check in checks
        ]
        passed = not failed and not in_part
        say_json({"passed": passed, "partial": in_part > 0, "files_not_covered": beside, "checks": found})
    else:
        for check in checks:
            say(f"{_verdict(check)}  {check.name}: {check.detail}")
        say(f"{folder}: {_summary(failed, in_part, beside)}")
    if failed or in_part:
        sys.exit(1 if failed else NOT_ALL)


def _verdict(check: Check) -> str:
    if not check.passed:
        return "FAIL"
    return "part" if check.partial else "pass"


def _summary(failed: int, in_part: int, beside: bool) -> str:
    if failed:
        return f"{count_of(failed, 'check')} failed"
    if in_part:
        return f"NOT ALL CHECKED: no check failed, but {count_of(in_part, 'check')} could be made only in part"
    return "all checks passed; files beside the release are not covered" if beside else "all checks passed"


def _require_release(folder: str) -> None:
    """Refuse a folder with no file of a release; one that lacks some files is checked, and fails."""
    from privcube.errors import ArtifactError, Plain
    from privcube.released.artifact.folder import CHECKSUMS, Contents
    from privcube.released.artifact.store import MANIFEST, PLAN

    if not {CHECKSUMS, MANIFEST, PLAN} & set(Contents.of(Path(folder)).sizes):
        raise ArtifactError(folder, expected="the folder of a release", given=Plain("another folder"))


def _in_ledger(folder: str, spec: str, progress: Progress) -> tuple[str | None, str, str | None]:
    """What the ledger recorded otherwise, if anything; what it committed to; and what was added that it cannot know.

    Whole numbers that were added later are looked for again: anybody could have added others.
    """
    from privcube.errors import PrivcubeError
    from privcube.model.documents.spec import Spec
    from privcube.pipeline import ledger_objection, ledger_status
    from privcube.released.artifact.store import is_unchanged
    from privcube.released.release import Release
    from privcube.released.whole.release import WholeRelease

    declared, place = Spec.read(spec), Path(spec).parent
    try:
        made = Release.open(folder)
    except PrivcubeError:
        return "the release cannot be read", "", None
    objection = ledger_objection(declared, made, Path(folder), folder=place)
    said = "the ledger charged this plan and guarantee, and committed to these bytes"
    heads = {entry.head: entry for entry in ledger_status(declared, folder=place).entries} if objection is None else {}
    if objection is not None or is_unchanged(Path(folder), heads[made.provenance["head"]].artifact):
        return objection, said, None
    if not isinstance(made, WholeRelease):
        return None, f"{said} before facts of the spec were added", None
    said += " before whole numbers were added"
    if made.is_found_again(progress):
        return None, f"{said}, which are found again", None
    unchecked = "the whole numbers: others are found here, so rely on them only if you know who added them"
    return None, said, unchecked
