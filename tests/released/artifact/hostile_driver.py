"""Hostile documents, tried in a process of their own with a limit on its memory: prints what went wrong, as JSON.

    python hostile_driver.py SEED MUTANTS

First come documents that ask for any amount of memory in a few bytes, then mutants of sensible ones: values of
plan.json, release.json, tables.json, words.json and spec.toml are replaced by others, of every type and size, removed,
repeated and exchanged. A forger makes all digests and checksums fit. Whatever is then asked of the artifact or of the
plan may raise a PrivcubeError and nothing else, and memory must stay in proportion.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import resource
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import tomli_w

from privcube import ZCDP, Attribute, Axis, Level, Measure, Plan, PureDP, Release, Schema, Workload, plan, release
from privcube.accuracy.privacy import verify_privacy
from privcube.errors import PrivcubeError
from privcube.model.documents.plans import digest_of
from privcube.model.documents.spec import Spec
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup
from privcube.model.measurements import Measurements
from privcube.model.noise.bundles import Gram, Law
from privcube.model.options import PlanOptions
from privcube.model.publication.words import AttributeWords, Words
from privcube.planning.steps import plan_of, with_bundles
from privcube.planning.targets import std_errors
from privcube.planning.trees import bundles_by_weight
from privcube.released.artifact.folder import checksums_text
from privcube.released.artifact.verification import verify
from privcube.released.exports.export import FORMATS, export
from privcube.released.whole import facts
from privcube.released.whole.facts import Facts
from privcube.released.whole.release import WholeRelease
from privcube.strategies.proposal import Proposal

MOST_MEMORY = 8 * 2**30  # bytes of addresses, so that a mistake does not take the machine down
EXPORTS = [kind for kind in FORMATS if kind != "report-pdf"]  # which takes seconds
FEW = 100  # mutants, which are made of some plans only
SOME = (1, 3, 4, 7, 10, 13)  # a Gram bundle, crossing levels, marginals, ranges, a sketch, measures
MOST_GROWTH = 300 * 2**20  # bytes by which one document may raise the peak: all of them are small

SCHEMA = Schema(
    [
        Attribute("age", bins=[0, 5, 10, 20], missing="category", levels=[Level("ten", bins=[0, 10, 20])]),
        Attribute("sex", values=["F", "M"]),
        Attribute("code", size=3, levels=[Level("two", width=2)]),
    ]
)
CELLS = Workload.tables(SCHEMA, [(), ("age", "sex"), (Axis("age", "ten"), "code"), ("code",)])
RANGES = Workload.tables(SCHEMA, [(Axis("age", queries="ranges"), "sex"), (Axis("code", queries="prefixes"),)])


DIVIDED = Schema(
    [
        Attribute("sex", values=["F", "M"]),
        Measure("days", low=0, high=8, step=2, knots=[2], missing="category", overflow="category"),
        Measure("pay", low=-1, high=1, step="0.5"),
    ]
)
SUMS = Workload.tables(DIVIDED, ["sex", "sex x days", "pay", ()])
WORDS = Words(
    title="Stays",
    publisher="Anybody",
    unit="stays",
    decimals=1,
    registry={"name": "stays"},
    attributes={"sex": AttributeWords(title="Sex", labels={"F": "women"})},
    tables={("sex",): "By sex"},
)


def bundled() -> Plan:
    made = plan(CELLS, PureDP("0.7"), "fourier")
    return with_bundles(made, bundles_by_weight(made))


SMALL = Workload.all_kway(Schema.from_sizes({"a": 2, "b": 4}), 1)
CROSSING = Schema(
    [
        Attribute(
            "code",
            size=4,
            levels=[
                Level("halves", groups={"x": [0, 1], "y": [2, 3]}),
                Level("ends", groups={"x": [0, 3], "y": [1, 2]}, of="code"),
            ],
        ),
        Attribute("sex", values=["F", "M"]),
    ]
)
CROSSED = Workload.tables(CROSSING, [(Axis("code", "halves"), "sex"), (Axis("code", "ends"),), ("code",)])


def of_law(law: Law, *groups: QueryGroup) -> Plan:
    """One bundle of a law, and the whole table beside it."""
    frame, whole = Frame.natural(SMALL), (GroupPart(0, 1), GroupPart(1, 1))
    proposal = Proposal.of_bundles(frame, [groups, [whole]], laws=[law, "max_norm"])
    return plan_of(SMALL, PureDP(1), PlanOptions(strategy="search", budgets="iterated"), proposal)


HELMERT = [(GroupPart(0, 1, "helmert"),), (GroupPart(1, 1, "helmert"),)]
PLANS: list[Callable[[], Plan]] = [
    lambda: of_law("section", (), (GroupPart(0, 1),), (GroupPart(1, 1),)),
    lambda: of_law(Gram((3, 2, 5)), (), *HELMERT, HELMERT[0] + HELMERT[1], (GroupPart(1, 1, "squares"),)),
    lambda: plan(SMALL, ZCDP("0.5", neighbors="replace_one"), "residual"),
    lambda: plan(CROSSED, PureDP(1, neighbors="replace_one"), "marginals"),
    lambda: plan(CELLS, PureDP(1), "marginals"),
    bundled,
    lambda: plan(CELLS, ZCDP("0.5"), "residual"),
    lambda: plan(RANGES, PureDP(1), "hierarchy"),
    lambda: plan(RANGES, PureDP(1), "hierarchy", recovery="direct"),
    lambda: plan(CELLS, PureDP(1), "marginals", recovery="direct"),
    lambda: plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 4}), 1), PureDP(1), "sketch"),
    lambda: plan(RANGES, PureDP(1, neighbors="replace_one"), "matrix"),
    lambda: plan(SUMS, PureDP(1), "marginals"),
    lambda: plan(SUMS, ZCDP("0.5", neighbors="replace_one", max_rows_per_person=2), "residual"),
]

SPEC = """
[about]
title = "People"
licence = "CC0"
unit = "people"
[data]
source = "people.csv"
dataset = "people"
person = "id"
max_rows_per_person = 3
where = { status = ["in", "out"] }
[privacy]
epsilon = "0.5"
neighbors = "replace_one"
expected_records = 1000
ledger = "ledger.db"
total_epsilon = "3"
[known]
records = 90
[output]
path = "out"
whole_numbers = true
records = true
decimals = 1
[registry]
name = "people"
[[impossible]]
age = ["[0, 5)"]
code = 2
[[measures]]
name = "days"
low = 0
high = 8
step = 2
knots = [2]
missing = "category"
title = "Days"
[[attributes]]
name = "age"
bins = [0, 5, 10, 20]
missing = "category"
title = "Age"
description = "in years"
labels = { "[0, 5)" = "young" }
raw = { "(missing)" = ["?", "NA"] }
levels = [{name = "ten", bins = [0, 10, 20], title = "Decade"}]
[[attributes]]
name = "code"
size = 3
other = "category"
levels = [{name = "two", width = 2}, {name = "all", groups = {x = ["[0, 2)", "[2, 3)"]}}]
[workload]
all_kway = [1]
full_cube = true
closure = [["age", {attribute = "code", level = "two"}]]
prefixes = [["age"]]
tables = [{attributes = ["age", "code"], weight = 2.5, title = "Age by code"}, ["code", "days"]]
measures = ["days"]
[plan]
strategy = "marginals"
"""

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 7, 1_000, 10**5, 10**6, 10**8, 10**9, 2**31, 2**63, 10**18, 10**400),
    *(0.5, -0.5, 0.0, -0.0, 1e308, 5e-324, 1.0, 1e18),
    *("", " ", "x", "age", "code", "ten", "cells", "contrast", "helmert", "ranges", "natural", "binary", "tree"),
    *("1e999999999", "1/0", "-1", "nan", "9" * 5000, "\x00", "\ud800", "\ufffe", "category", "=1", "a" * 2_000),
    *([], {}, [[]], [0], [1, 2], ["age"], [None], [[0, 1, "cells"]], [[0, 1, "helmert"]], {"x": 1}, DEEP, [0] * 5_000),
    *({"partition": 0, "buckets": 10**7}, {"attributes": ["sex"], "cells": 2, "rows": [[0, 1]]}),
    *({"attributes": ["sex"], "cells": 10**12, "rows": [[0, 1]]}, {"name": "z", "size": 10**8, "missing": "category"}),
    *("section", "max_norm", "squares", {"gram": [1, 1, 1]}, {"gram": [2**32] * 3}, {"gram": [2**33, -1, 0]}),
    *({"gram": [1] * 5_000}, {"gram": [0.5, 1e308, 1]}, {"gram": {}}, [[0, 1, "squares"]], [[0, 1], [1, 2]], [[]]),
    *({"halves": "x"}, {"of": "code"}, [{"sex": "F"}], [{"sex": ["F", "M"]}], [{"code": {"two": [0]}}]),
    *([{"name": "y", "width": 2}], [{"name": "y", "bins": [0, 20]}], {"epsilon": "1e-12"}, {"epsilon": 10**400}),
    *("days", "sums", "<script>", "\u202e", "a\nb", "drop", "exact", "0.1", {"low": 0, "high": 8, "step": "1/3"}),
    *(
        {"F": "x"},
        {"F": None},
        {"title": 1},
        {"title": "x", "levels": {"ten": 1}},
        [["sex", None, "cells"]],
        ["sex", 1],
    ),
    *({"axes": [["sex", None, "cells"]], "title": "x"}, {"axes": [], "title": "x"}, {"axes": [["z", "z", "z"]]}),
    *([{"name": "v", "low": 0, "high": 1, "step": 1}], ["days", "days"], {"days": [0, 1]}, {"(missing)": ["a"]}),
]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from places(item, (*place, key))


def at(document: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        document = document[step]
    return document


def mutated(document: Any, random: Random) -> Any:
    """A document with one to three changes."""
    changed = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        spots = list(places(changed))
        if not spots:
            return changed
        *above, last = random.choice(spots)
        inside = at(changed, tuple(above))
        kind = random.randrange(10)
        if kind == 0:
            del inside[last]
        elif kind == 1 and isinstance(inside, list):
            inside.insert(last, copy.deepcopy(inside[last]))
        elif kind == 2 and isinstance(inside, list):
            inside.reverse()
        elif kind == 3 and isinstance(inside, dict):
            inside[random.choice(("note", "size", "levels", "name", "x"))] = random.choice(JUNK)
        elif kind == 4 and isinstance(inside[last], int):
            inside[last] = inside[last] * random.choice((2, 10, 10**6, 10**12)) + random.choice((-1, 0, 1))
        elif kind <= 6:
            inside[last] = copy.deepcopy(at(document, random.choice(list(places(document)))))
        else:
            inside[last] = copy.deepcopy(random.choice(JUNK))
    return changed


class Artifact:
    """An artifact to forge: its files are changed, used, and put back."""

    def __init__(self, made: Plan, folder: Path, whole: bool = False) -> None:
        answers = np.arange(made.rows) * 7 - 5
        self.plan, self.folder = made, folder
        words = WORDS if made.workload.schema == DIVIDED else Words()
        release = Release(Measurements(made, answers), {"entry": 3, "head": "0123456789abcdef" * 4}, words)
        if whole:
            vars(facts)["FAR"] = math.inf  # answers are made up, and facts have nothing to do with them
            first = made.workload.schema.attributes[0]
            release = release.whole(records=90, impossible=[{first.name: [first.labels[0]]}])
        release.save(folder)
        self.files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
        self.used: set[str] = set()

    def forge(self, name: str, random: Random) -> None:
        document = json.loads(self.files[name])
        if name == "plan.json":
            del document["digest"]
        self.write(name, mutated(document, random))

    def write(self, name: str, document: Any) -> None:
        """The artifact with another document, and with digests and checksums that fit."""
        files = dict(self.files)
        if name == "plan.json" and isinstance(document, dict):
            digest = _digest(document)
            document = {**document, "digest": digest}
            files["release.json"] = files["release.json"].replace(self.plan.digest.encode(), digest.encode())
        files[name] = (json.dumps(document, indent=1) + "\n").encode()
        for each, content in files.items():
            (self.folder / each).write_bytes(content)
        digests = {each: hashlib.sha256(content).hexdigest() for each, content in files.items()}
        (self.folder / "SHA256SUMS").write_text(checksums_text(digests))

    def use(self, random: Random) -> None:
        """Everything that is done with an artifact, and some of the exports."""
        checks = verify(self.folder)
        broken = [check for check in checks if "the artifact is broken" in check.detail]
        if broken:
            raise AssertionError(f"{broken[0].name}: {broken[0].detail}")
        try:
            found = Release.open(self.folder)
            if self._seen(found):
                return
            std_errors(found.plan, list(found.workload))
            found.query({})
            if isinstance(found, WholeRelease):
                found.counts(())
                found.records(form="pyarrow")
            for table in found.workload:
                found.table(table, form="pyarrow")
            attribute = found.workload.schema.attributes[0]
            found.query({attribute.name: attribute.labels[0]})
            found.to_xarray(next(iter(found.workload)))
        except PrivcubeError:
            return
        label = {attribute.name: attribute.labels[0]}
        asked: list[Callable[[], object]] = [
            lambda: found.share(label),
            lambda: found.quantile(attribute.name),
            *(partial(found.mean, measure, label) for measure in found.workload.schema.measures),
            *(partial(found.query, label, measure=measure) for measure in found.workload.schema.measures),
            *(partial(self._export, found, kind) for kind in random.sample(EXPORTS, 3)),
        ]
        for one in asked:
            with suppress(PrivcubeError):
                one()

    def _export(self, found: Release, kind: str) -> None:
        target = self.folder.parent / "export"
        export(found, target, format=kind)
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    def _seen(self, found: Release) -> bool:
        """Whether a release with the same content was used before: a change to another file leads to the same."""
        content = f"{found.plan.to_json()} {dict(found.provenance)} {found.measurements.answers.tolist()}"
        seen = content in self.used
        self.used.add(content)
        return seen


def _digest(document: dict[str, Any]) -> str:
    try:
        return digest_of(document)
    except (UnicodeEncodeError, RecursionError):
        return "0" * 64


def as_plan(made: Plan, random: Random) -> None:
    """`release --plan` with a forged plan."""
    document = json.loads(made.to_json())
    del document["digest"]
    spared = {key: document.pop(key) for key in ("attributes", "tables", "weights", "guarantee")}
    document = {**mutated(document, random), **spared}
    found = Plan.from_json(json.dumps({**document, "digest": _digest(document)}))
    verify_privacy(found)
    person = None if found.guarantee.max_rows_per_person == 1 else "a"
    release(found, RECORDS, person=person)


RECORDS = pa.table(
    {"age": [1, 7], "sex": ["F", "M"], "code": [0, 2], "a": [0, 1], "b": [3, 1], "days": [2.5, None], "pay": [0.1, 5]}
)


def as_spec(random: Random) -> None:
    document = mutated(tomllib.loads(SPEC), random)
    try:
        text = tomli_w.dumps(document)
    except (TypeError, ValueError, RecursionError):  # null, lone surrogates, or too deep: no TOML
        return
    used(Spec.from_toml(text))


def used(spec: Spec) -> None:
    """What is done with a spec."""
    if spec.workload.cells < 10_000:
        made = plan(spec.workload, spec.guarantee, spec.options.strategy)
        spec.words.require_fits(made.workload)
        if made.rows < 1_000:
            answers = Measurements(made, np.arange(made.rows) * 7 - 5)
            Release(answers, words=spec.words, facts=Facts(spec.known.records, spec.known.impossible)).values(())
    Spec.from_toml(spec.to_toml())


# Small documents that ask for much


def with_attribute(**declared: Any) -> Callable[[dict[str, Any]], object]:
    whole = {"name": "z", "ordered": True, "missing": "refuse", "other": "refuse", **declared}
    return lambda document: document["attributes"].append(whole)


def with_parts(size: int, kind: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        document["attributes"][2] = {
            "name": "code",
            "size": size,
            "ordered": True,
            "missing": "refuse",
            "other": "refuse",
        }
        document["tables"] = [["code"]]
        document["weights"], document["predicted_variance_per_cell"] = [1.0], [1.0]
        document["groups"], document["shares"] = [[[2, 1, kind]], []], [1, 1]
        document["frame"]["leveled"] = []

    return change


TWO = [{"name": "two", "width": 2}]
PLAN_BOMBS: list[Callable[[dict[str, Any]], object]] = [
    with_attribute(size=10**8, missing="category"),
    with_attribute(size=10**8, levels=TWO),
    lambda document: document["attributes"].extend(
        {"name": f"z{i}", "size": 10**6, "ordered": True, "missing": "category", "other": "refuse"} for i in range(300)
    ),
    with_parts(10**8, "cells"),
    with_parts(10**8, "helmert"),
    with_parts(10**7, "helmert"),
    lambda document: document["groups"].extend([{"partition": 0, "buckets": 10**9}] * 9),
    lambda document: document["groups"].append({"attributes": ["sex"], "cells": 10**12, "rows": [[0, 1]]}),
    lambda document: document["groups"].append({"attributes": ["sex"], "cells": 2, "rows": [[10**12, 1]]}),
    lambda document: document.update(frame={"kind": "tree", "branching": 10**12, "leveled": ["age", "sex", "code"]}),
    lambda document: document.update(tables=[["age", "sex", "code"]] * 10**4),
    lambda document: document.update(denominator=10**4000, shares=[10**3999] * len(document["shares"])),
    lambda document: document.update(attributes=DEEP),
]
SPEC_BOMBS = [
    SPEC.replace("size = 3", "size = 100_000_000"),
    SPEC.replace("bins = [0, 5, 10, 20]\n", "bins = [0, 5, 10, 1e999999999]\n"),
    SPEC.replace("bins = [0, 5, 10, 20]\n", 'bins = [0, 5, 10, "1e999999999"]\n'),
    SPEC.replace('epsilon = "0.5"', "epsilon = 1e999999999"),
    SPEC.replace('epsilon = "0.5"', 'epsilon = "1e-999999999"'),
    SPEC.replace('epsilon = "0.5"', f"epsilon = {'9' * 4_000}"),
    SPEC.replace("weight = 2.5", "weight = 1e999999999"),
    SPEC.replace("width = 2", f"width = {10**30}"),
    SPEC.replace("[1]", "[1" + ", 50" * 1_000 + "]"),
    SPEC.replace("[1]", "[" * 10_000 + "]" * 10_000),
    SPEC.replace("[workload]", "".join(f'[[attributes]]\nname = "a{i}"\nsize = 9\n' for i in range(100)) + "[workload]")
    .replace("full_cube = true", "")
    .replace("all_kway = [1]", "all_kway = [50]"),
    SPEC.replace(
        "[workload]", "".join(f'[[attributes]]\nname = "a{i}"\nsize = 9\n' for i in range(100)) + "[workload]"
    ),
]


def bombs(artifact: Artifact) -> Iterator[tuple[str, Callable[[], None]]]:
    for number, change in enumerate(PLAN_BOMBS):
        document = json.loads(artifact.files["plan.json"])
        del document["digest"]
        change(document)

        def explode(document: dict[str, Any] = document) -> None:
            artifact.write("plan.json", document)
            artifact.use(Random(0))
            Plan.from_json(json.dumps({**document, "digest": _digest(document)}))

        yield f"plan {number}", explode
    for number, text in enumerate(SPEC_BOMBS):

        def refused(text: str = text) -> None:
            Spec.from_toml(text)
            raise AssertionError("a spec beyond all limits was read")

        yield f"spec {number}", refused


def main(seed: str, mutants: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    random, failures = Random(seed), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as place:
        plans = {number: PLANS[number]() for number in (SOME if mutants <= FEW else range(len(PLANS)))}
        in_tables = {number: Artifact(made, Path(place) / str(number)) for number, made in plans.items()}
        artifacts = list(in_tables.values())
        artifacts += [
            Artifact(plans[number], Path(place) / f"whole {number}", whole=True) for number in {0, 1, 4} & set(plans)
        ]
        for artifact in artifacts:
            artifact.use(random)
            artifact.used.clear()
        used(Spec.from_toml(SPEC))  # what is mutated must be sensible
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for what, attempt in [*bombs(in_tables[4]), *mutants_of(artifacts, random, mutants)]:
            try:
                attempt()
            except PrivcubeError:
                pass
            except BaseException as problem:
                frames = traceback.extract_tb(problem.__traceback__)
                where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-4:]]
                failures.append({"what": what, "error": repr(problem)[:300], "where": where})
            before, peak = peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if peak - before > MOST_GROWTH // 1024:
                failures.append({"what": what, "error": f"{(peak - before) // 1024} MiB", "where": []})
    print(json.dumps({"mutants": mutants, "failures": failures}))  # noqa: T201


def mutants_of(artifacts: list[Artifact], random: Random, count: int) -> Iterator[tuple[str, Callable[[], None]]]:
    for number in range(count):
        artifact = random.choice(artifacts)
        kind = random.choice(("plan", "plan", "plan", "release", "index", "words", "--plan", "--plan", "spec", "spec"))
        yield f"mutant {number}, {kind}", partial(attempted, kind, artifact, random)


def attempted(kind: str, artifact: Artifact, random: Random) -> None:
    if kind == "spec":
        as_spec(random)
    elif kind == "--plan":
        as_plan(artifact.plan, random)
    else:
        artifact.forge({"index": "tables.json"}.get(kind, f"{kind}.json"), random)
        artifact.use(random)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
