"""Random command lines and random CSV files: every end is one of ours, and no record shows.

PRIVCUBE_ATTACK scales how many are tried: 200 in `make test`, 100,000 in `make attack`. Commands run in this process.
An exit code of 70 is an error that escaped. The most memory that was ever taken must not grow by a gigabyte.

As a script it goes on for some minutes with other seeds, and prints how many inputs have ended well:

    python tests/attack/test_fuzz_inputs.py commands 10 2026
    python tests/attack/test_fuzz_inputs.py files 10 2026
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from privcube.cli.main import main
from privcube.planning.search import annealing

ATTACK = int(os.environ.get("PRIVCUBE_ATTACK", "1"))
SEED = int(os.environ.get("PRIVCUBE_SEED", "0"))
CHUNKS = 4
CANARY = "canary7f3a"  # in the records
TYPED = "typed5c1e"  # on the command line: messages may repeat it
MOST_MEMORY = 1 << 20  # kilobytes beyond those that were taken before

SPEC = """
[data]
source = "people.csv"
dataset = "people"

[privacy]
epsilon = "1"
ledger = "ledger.db"
total_epsilon = "1000000"

[[attributes]]
name = "sex"
values = ["F", "M"]
{policy}

[[attributes]]
name = "age"
bins = [0, 5, 15, 65]
{policy}
{bins}

[workload]
all_kway = [1, 2]

[plan]
strategy = "marginals"
"""
ROWS = [f"{'FM'[number % 2]},{number * 7 % 65},{CANARY}{number}" for number in range(40)]
PEOPLE = "\n".join(["sex,age,note", *ROWS]) + "\n"


class End:
    """How a command ended: its exit code, and all that it said."""

    def __init__(self, *words: str) -> None:
        before, said = (sys.argv, sys.stdin), io.StringIO()
        sys.argv, sys.stdin = ["privcube", *words], io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                main()
        except SystemExit as end:
            self.code = end.code
        finally:
            sys.argv, sys.stdin = before
            self.said = said.getvalue()


@pytest.fixture(autouse=True)
def _limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short searches, a folder of its own, and no more memory at any time than small tasks take."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(annealing._SECONDS, "fast", 0.02)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


def write_folder(folder: Path, policy: str = "", bins: str = "") -> None:
    """Records and a spec."""
    (folder / "spec.toml").write_text(SPEC.format(policy=policy, bins=bins), encoding="utf-8")
    (folder / "people.csv").write_text(PEOPLE, encoding="utf-8")


# Command lines

COMMANDS = (
    "init",
    "check",
    "plan",
    "release",
    "show",
    "query",
    "verify",
    "export",
    "ledger",
    "ledger check",
    "ledger recover",
)
LIKELY = {
    "plan": [["spec.toml"], ["spec.toml", "--accuracy"], ["spec.toml", "--count"], ["spec.toml", "--compare"]],
    "release": [["spec.toml"], ["spec.toml", "--output"], ["spec.toml", "--plan"]],
    "show": [["out"], ["out", "sex"], ["out", "sex", "age"]],
    "query": [["out"], ["out", "sex=F"], ["out", "age=5..15"], ["out", "sex=F", "age=0..65"]],
    "verify": [["out"], ["out", "--spec", "spec.toml"]],
    "export": [["out", "--format", "csv", "--to"], ["out", "--format"]],
    "init": [["people.csv"], ["people.csv", "--output"], ["new.toml"]],
}
# No zero bytes: no system passes them on. A byte that is no UTF-8 comes as a lone surrogate.
WORDS = [
    *("spec.toml", "people.csv", "out", "ledger.db", "nowhere", "out/plan.json", "out/tables", ".", "..", "", " ", "-"),
    *("sex", "age", "note", "sex=F", "sex=", "=F", "age=5..15", "age=15..5", "age=..", "age=5..", "sex=F,M", "--"),
    *("0", "1", "-1", "1e400", "nan", "inf", "200,1000", "50 at 95% on age", "20 on sex; 5 on age", "at", "% on ;"),
    *("--json", "--tables", "--save", "--output", "--plan", "--spec", "--format", "--to", "--explain", "--accuracy"),
    *("--count", "--compare", "--effort", "--help", "--version", "--unknown", "csv", "parquet", "xlsx", "plan.json"),
    *("\x07", "\x1b[31m", "é", "\udcff", "a\nb", "%s", "{}", "'; DROP TABLE t; --", "x" * 5000, "🙂", "../out", "out/"),
    *("--force", "fast", "9" * 50, "sex=" + TYPED),
]  # fmt: skip


def random_words(chance: random.Random) -> list[str]:
    """A command with likely arguments, some of them changed, and others added."""
    command = chance.choice(COMMANDS)
    words = list(chance.choice(LIKELY.get(command, [["spec.toml"]])))
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        at = chance.randrange(len(words) + 1)
        match chance.randrange(4):
            case 0:
                words[at : at + 1] = []
            case 1:
                words[at : at + 1] = [chance.choice(WORDS)]
            case 2 if at < len(words) and words[at]:
                cut = chance.randrange(len(words[at]))
                words[at] = words[at][:cut] + chance.choice(["", "\udcff", "=", "..", "é", "9"]) + words[at][cut + 1 :]
            case _:
                words.insert(at, chance.choice(WORDS))
    return [*command.split(), *words]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_any_command_line_ends_in_our_own_words(chunk: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    write_folder(whole)
    os.chdir(whole)
    assert End("release", "spec.toml").code == 0
    ended: set[object] = set()
    for number in range(40 * ATTACK):
        if number % 40 == 0:
            shutil.rmtree(tmp_path / "work", ignore_errors=True)
            shutil.copytree(whole, tmp_path / "work")
            os.chdir(tmp_path / "work")
        words = random_words(random.Random(f"{SEED} {chunk} {number}"))
        end = End(*words)
        assert end.code in (0, 1, 2, 3), (words, end.said)
        assert "Traceback" not in end.said, words
        assert CANARY not in end.said, (words, end.said)
        ended.add(end.code)
    assert ended >= {0, 2}


# CSV files

POLICY = 'missing = "category"\nother = "category"'
BINS = 'underflow = "category"\noverflow = "category"'
SCRAPS = [
    *(
        b"\x00",
        b'"',
        b"'",
        b",",
        b";",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xf0\x9f",
        b"1e999",
    ),
    *(b"nan", b"-0", b"9" * 400, b"=1+1", b"\\", b"#", b"sex", b"age", b"\n\n\n", b",,,,", b"\x1b[2J"),
]
SCRAPS += [CANARY.encode(), f'"{CANARY}'.encode(), f'{CANARY}"'.encode(), f"\n{CANARY},".encode()]


def random_file(chance: random.Random) -> bytes:
    """The good file after a few cuts, copies and insertions."""
    content = PEOPLE.encode()
    for _ in range(chance.randint(1, 5)):
        start = chance.randrange(len(content) + 1) if chance.random() < 0.8 else chance.randrange(20)
        length = chance.choice([0, 0, 0, 1, 1, 5, 200])
        middle = chance.choice(SCRAPS) if chance.random() < 0.8 else content[start : start + 60]
        content = content[:start] + middle + content[start + length :]
    return content


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_any_file_is_counted_or_refused_without_a_word_of_it(chunk: int, tmp_path: Path) -> None:
    write_folder(tmp_path, *((POLICY, BINS) if chunk % 2 else ("", "")))
    ended: set[object] = set()
    for number in range(10 * ATTACK):
        content = random_file(random.Random(f"{SEED} {chunk} {number}"))
        (tmp_path / "people.csv").write_bytes(content)
        if number % 40 == 0:  # all of a ledger is read with each release
            (tmp_path / "ledger.db").unlink(missing_ok=True)
        end = End("release", "spec.toml")
        assert end.code in (0, 2), (number, end.said)
        assert "Traceback" not in end.said, number
        assert CANARY not in end.said, (number, end.said)
        written = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
        assert bool(written) == (end.code == 0)
        assert not [file for file in written if CANARY.encode() in file.read_bytes()], number
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        ended.add(end.code)
    assert (0 if chunk % 2 else 2) in ended  # most are counted if every value has a cell


def test_an_error_that_escapes_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **named: object) -> None:
        raise RuntimeError(CANARY)

    write_folder(tmp_path)
    monkeypatch.setattr("privcube.cli.commands.release.publish_with_progress", broken)
    end = End("release", "spec.toml")
    assert end.code == 70
    assert CANARY not in end.said


def go_on(kind: str, minutes: float, seed: int) -> None:
    """Try one seed after another until the time is over; the first failure ends it."""
    attempt, inputs = {
        "commands": (test_any_command_line_ends_in_our_own_words, 40),
        "files": (test_any_file_is_counted_or_refused_without_a_word_of_it, 10),
    }[kind]
    globals().update(ATTACK=5)
    annealing._SECONDS["fast"] = 0.02
    tried, end, before = 0, time.monotonic() + 60 * minutes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while time.monotonic() < end:
        globals().update(SEED=seed + tried)
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
            os.chdir(place)
            attempt(tried // inputs // 5 % CHUNKS, Path(place))
            os.chdir("/")
        tried += inputs * 5
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
        print(f"{kind} from seed {seed}: {tried:,} inputs ended well", flush=True)  # noqa: T201


if __name__ == "__main__":
    go_on(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
