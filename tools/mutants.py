"""Mutation testing of the privacy core: change one thing in a module, and see that a test fails.

The changes are Cosmic Ray's (operators turned around, numbers off by one, conditions negated, loops that never run).
Cosmic Ray itself writes each mutant over the source and starts a new interpreter for it. Here the working tree stays as
it is, and a mutant is tried in one or two forked processes.

First, where only the body of a function changed: a process that has collected the tests already is forked, the
function gets its new code, and tests run until one fails, those first that killed most mutants so far. This costs as
much as the test that kills. Test modules may have called the function before, while they were collected: they hold what
the true code made. Then a mutant that survives is tried a second time, and so is each tenth that was killed, with the
test that killed it. The second time, and the only time where something else changed (a constant, a decorator, a field),
the mutant is handed to the import system of a process that has loaded nothing of privcube and of its tests.

    python tools/mutants.py                 # all modules; PRIVCUBE_MUTANTS=10 tries one mutant in ten
    python tools/mutants.py slices zcdp     # modules whose path has one of these words

A mutant that no test kills is printed. Those that nobody could tell from the module are listed with reasons in
tools/equivalent_mutants.toml, each by its module and by the line before and after. The exit code is 1 if fewer than
95 % of the others are killed, or if a line of the list is wrong.
"""

from __future__ import annotations

import ast
import gc
import importlib.machinery
import inspect
import json
import os
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import cosmic_ray.mutating
import cosmic_ray.plugins

if TYPE_CHECKING:
    import pytest

PROJECT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = PROJECT / "src" / "privcube"
WANTED: Final = 0.95  # of the mutants that are not equivalent
_SLOW: Final = 1.0  # seconds: a test that takes longer is for the suite, not for thousands of mutants

NOISE: Final = ("test_refusals", "test_sources", "test_bounds", "test_coins", "test_tables")
# Tests that run in the process, quick ones first.
KILLERS: Final[dict[str, tuple[str, ...]]] = {
    "model/privacy/composition.py": ("model/privacy/test_composition.py",),
    "sensitive/ledger/memory.py": ("model/privacy/test_composition.py",),
    "model/privacy/guarantee.py": ("model/privacy/test_guarantee.py", "model/documents/test_spec.py"),
    "model/privacy/zcdp.py": ("model/privacy/test_zcdp.py",),
    "model/slices.py": ("attack/test_prices.py", "model/test_slices.py"),
    "model/sensitivity.py": (
        "attack/test_prices.py",
        "model/test_groups.py",
        "sensitive/test_gate.py",
        "model/test_slices.py",
    ),
    "accuracy/privacy.py": ("attack/test_prices.py", "sensitive/test_gate.py", "strategies/test_matrix.py"),
    "sensitive/gate.py": ("attack/test_prices.py", "sensitive/test_gate.py", "model/test_slices.py"),
    **{
        f"sensitive/noise/{module}.py": tuple(f"noise/{name}.py" for name in (*NOISE, *more))
        for module, more in {
            "bits": (),
            "coins": ("test_distributions",),
            "fixed": (),
            "gaussian": ("test_distributions", "test_wide_gaussian"),
            "gaussian_tails": ("test_distributions", "test_wide_gaussian"),
            "laplace": ("test_distributions",),
            "max_norm": ("test_max_norm",),
            "tables": ("test_distributions",),
            "weights": ("test_distributions", "test_max_norm"),
            "wide_gaussian": ("test_wide_gaussian",),
        }.items()
    },
    **{
        f"sensitive/ledger/{module}.py": tuple(
            f"ledger/test_{name}.py" for name in ("account", "names", "stores", "files")
        )
        for module in ("account", "durable", "names", "sqlite")
    },
}

_ARITHMETIC: Final = (
    *("Add_Sub", "Sub_Add", "Mul_FloorDiv", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul"),
    *("LShift_RShift", "RShift_LShift", "BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitAnd"),
)
_COMPARED: Final = (
    *("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt"),
    *("Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt", "Is_IsNot", "IsNot_Is"),
)
# Of the twelve operators that could stand for another, one is enough: what does not notice it notices none.
OPERATORS: Final = (
    *(f"ReplaceBinaryOperator_{change}" for change in _ARITHMETIC),
    *(f"ReplaceComparisonOperator_{change}" for change in _COMPARED),
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_Invert",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
    "ExceptionReplacer",
)


class Mutant(NamedTuple):
    """A changed module: where, by what, the line as it was and as it is, and the whole."""

    module: str
    line: int
    operator: str
    before: str
    after: str
    source: str

    @property
    def title(self) -> str:
        """In one line."""
        return f"{self.before}  ->  {self.after}   ({self.operator}, line {self.line})"


class _Bare(ast.NodeTransformer):
    """A tree without annotations, which are never evaluated."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant(0)
        self.generic_visit(node)
        return node


def _meaning(source: str) -> str:
    return ast.dump(_Bare().visit(ast.parse(source)))


def mutants(module: str) -> Iterator[Mutant]:
    """All mutants of a module that mean something else than it, and than each other."""
    source = (SOURCE / module).read_text(encoding="utf-8")
    seen = {_meaning(source)}
    for name in OPERATORS:
        operator, occurrence = cosmic_ray.plugins.get_operator(f"core/{name}")(), 0
        while (changed := cosmic_ray.mutating.mutate_code(source, operator, occurrence)) is not None:
            occurrence += 1
            try:
                meaning = _meaning(changed)
            except SyntaxError:
                continue
            if meaning in seen:
                continue
            seen.add(meaning)
            old, new = source.splitlines(), changed.splitlines()
            at = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
            before, after = (next(line.strip() for line in text[at:] if line.strip()) for text in (old, new))
            yield Mutant(module, at + 1, name, before, after, changed)


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from other text than its file's."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        """The code of the text."""
        return compile(self.source, self.path, "exec")


class _Finder:
    """Finds the mutant in the place of the module."""

    def __init__(self, module: str, source: str) -> None:
        self.name = "privcube." + module.removesuffix(".py").replace("/", ".")
        self.loader = _Changed(self.name, str(SOURCE / module), source)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of the mutant, and of nothing else."""
        if name != self.name:
            return None
        return importlib.machinery.ModuleSpec(name, self.loader, origin=self.loader.path)


def survives(module: str, source: str, tests: Sequence[str], seconds: int) -> bool:
    """Whether all tests pass with this text in the place of the module, in a process of its own."""
    child = os.fork()
    if not child:
        _limit(seconds)
        sys.meta_path.insert(0, _Finder(module, source))
        _run_tests(tests)
    return _ended(child, seconds) == 0


def _ended(child: int, seconds: int) -> int:
    """How a process ended. It may sleep, or the machine may be busy, but not forever."""
    deadline = time.monotonic() + 20 * seconds + 60
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def _limit(seconds: int) -> None:
    """An endless loop or too much memory ends a process."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def _run_tests(tests: Sequence[str], *plugins: object) -> NoReturn:
    """Run the tests in silence and end the process: 0 if all pass."""
    import pytest

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    # hypothesis is loaded already, which pytest warns of, and our warnings are errors.
    plain = [
        "-x",
        "-n0",
        "-pno:cacheprovider",
        "--hypothesis-seed=0",
        "-Wignore::pytest.PytestAssertRewriteWarning",
    ]
    code = 1
    try:
        code = int(pytest.main([*tests, *plain], plugins=[_NoServers(), *plugins]))
    finally:
        os._exit(code)


class _NoServers:
    """As a plugin of pytest: leave tests out that start a server, which a process that is killed could not stop."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """After collection."""
        items[:] = [
            item
            for item in items
            if "postgresql" not in item.name and "_server" not in getattr(item, "fixturenames", ())
        ]


class _Trials:
    """As a plugin of pytest: when tests are collected, try each mutant in a fork, and write which test killed it."""

    def __init__(self, module: str, tried: Sequence[Mutant], answers: int) -> None:
        self.module, self.tried, self.answers = module, tried, answers
        self.path = str(SOURCE / module)
        self.called: set[str] = set()
        sys.setprofile(self._seen)

    def _seen(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == self.path:
            self.called.add(frame.f_code.co_qualname)

    def _answer(self, answer: object) -> None:
        os.write(self.answers, json.dumps(answer).encode() + b"\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of running the tests."""
        sys.setprofile(None)
        functions: dict[str, list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename == self.path:
                functions[each.__code__.co_qualname].append(each)
        for each in gc.get_objects():
            if isinstance(each, _lru_cache_wrapper) and each.__module__.startswith("privcube"):
                each.cache_clear()
        items = list(session.items)
        takes = dict.fromkeys((item.nodeid for item in items), 0.0)
        kills = dict.fromkeys(takes, 0)
        before = (SOURCE / self.module).read_text(encoding="utf-8")
        for mutant in (None, *self.tried):
            changed = {} if mutant is None else _changed_functions(before, mutant.source)
            if changed is None or not all(functions.get(name) for name in changed):
                self._answer([None, False])
                continue
            items.sort(key=lambda item: (-kills[item.nodeid], takes[item.nodeid]))
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                for name, code in changed.items():
                    for function in functions[name]:
                        function.__code__ = code
                _limit(600)
                self._try(session, items, takes, writer, mutant is None)
            os.close(writer)
            with os.fdopen(reader) as pipe:  # ends with the child
                said = pipe.read().splitlines()
            status = _ended(child, 1)
            if mutant is None:
                if status:
                    break
                takes = dict(map(json.loads, said))
                slow = [name for name, taken in takes.items() if taken > _SLOW]
                items = [item for item in items if item.nodeid not in slow]
                self._answer(slow)
                continue
            killer = None if status == 0 else json.loads(said[-1])[0] if said else items[0].nodeid
            if killer is not None:
                kills[killer] += 1
            self._answer([killer, self.called.isdisjoint(changed)])
        return True

    def _try(
        self, session: pytest.Session, items: list[pytest.Item], takes: dict[str, float], writer: int, all_of_it: bool
    ) -> NoReturn:
        """Run the tests up to the first failure, saying which one begins or, at first, how long each takes."""
        start = time.process_time()
        try:
            for item, following in zip(items, [*items[1:], None], strict=True):
                if not all_of_it:
                    os.write(writer, json.dumps([item.nodeid, 0]).encode() + b"\n")
                    seconds = int(time.process_time() + 3 + 5 * takes[item.nodeid])
                    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    os._exit(1)
                if all_of_it:
                    taken, start = time.process_time() - start, time.process_time()
                    os.write(writer, json.dumps([item.nodeid, taken]).encode() + b"\n")
            os._exit(0)
        finally:
            os._exit(2)


def _changed_functions(before: str, after: str) -> dict[str, CodeType] | None:
    """The code of functions that differ, by their qualified names; None if anything else differs."""
    (rest, old), (other, new) = _apart(before), _apart(after)
    if rest != other or old.keys() != new.keys():
        return None
    found = _codes(compile(after, "", "exec"))
    changed = [name for name in old if old[name] != new[name]]
    return {name: found[name] for name in changed} if all(name in found for name in changed) else None


def _apart(source: str) -> tuple[str, dict[str, str]]:
    """A module without the bodies of its functions and methods, and those."""
    tree, bodies = _Bare().visit(ast.parse(source)), dict[str, str]()

    def visit(nodes: Sequence[ast.stmt], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                bodies[prefix + node.name] = bodies.get(prefix + node.name, "") + str([ast.dump(n) for n in node.body])
                node.body = []

    visit(tree.body, "")
    return ast.dump(tree), bodies


def _codes(code: CodeType) -> dict[str, CodeType]:
    """The code of all functions and methods, by their qualified names."""
    found: dict[str, CodeType] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            function = constant.co_flags & inspect.CO_OPTIMIZED
            found |= {constant.co_qualname: constant} if function else _codes(constant)
    return found


def killers(module: str, tried: Sequence[Mutant]) -> tuple[list[str], list[tuple[str | None, bool]]]:
    """Tests that are left out, as they take long; for each mutant the test that kills it, and if that is sure."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _run_tests([str(PROJECT / "tests" / name) for name in KILLERS[module]], _Trials(module, tried, writer))
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answers = [json.loads(line) for line in pipe]
    os.waitpid(child, 0)
    if len(answers) != 1 + len(tried):
        raise SystemExit(f"{module}: the tests fail without any mutant, or their process did")
    return answers[0], answers[1:]


def _preload() -> None:
    """What all tests import, once for all mutants; nothing of privcube."""
    import hypothesis
    import hypothesis.configuration
    import mpmath  # noqa: F401
    import numpy  # noqa: F401
    import opendp.prelude  # noqa: F401
    import pyarrow  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.sparse
    import scipy.stats  # noqa: F401

    hypothesis.configuration.set_hypothesis_home_dir(tempfile.mkdtemp())
    # A failure is enough: nobody reads the smallest one. The profile of our tests builds on this one.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", phases=phases, database=None)
    hypothesis.settings.load_profile("mutants")


def excuses() -> dict[tuple[str, str, str], str]:
    """Why a mutant cannot be told from its module, by the module and the line before and after."""
    text = (PROJECT / "tools" / "equivalent_mutants.toml").read_text(encoding="utf-8")
    return {
        (module, before, after): reason["why"]
        for reason in tomllib.loads(text)["reasons"]
        for module, lines in reason["lines"].items()
        for before, after in lines
    }


def main(words: Sequence[str]) -> int:
    """Run the mutants of all modules with one of these words in their path; 0 if enough are killed."""
    every = int(os.environ.get("PRIVCUBE_MUTANTS", "1"))
    os.chdir(PROJECT)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _preload()
    known = excuses()
    tried = killed = excused = wrong = 0
    for module in KILLERS:
        if words and not any(word in module for word in words):
            continue
        made = list(mutants(module))
        own = {(mutant.before, mutant.after) for mutant in made}
        for name, before, after in known:
            if name == module and (before, after) not in own:
                print(f"  {module}: excused but never made: {before}  ->  {after}", flush=True)
                wrong += 1
        made = made[::every]
        tests = [str(PROJECT / "tests" / name) for name in KILLERS[module]]
        counts = [len(made), 0, 0]
        kills = 0
        slow, found = killers(module, made)
        tests += [f"--deselect={name}" for name in slow]
        for mutant, (killer, sure) in zip(made, found, strict=True):
            survived = killer is None
            if not sure:
                kills += not survived
                if survived or (kills % 10 == 1 and survives(module, mutant.source, [str(killer)], 120)):
                    survived = survives(module, mutant.source, tests, 120)
            excuse = (module, mutant.before, mutant.after) in known
            counts[1] += not survived
            counts[2] += survived and excuse
            if survived and not excuse:
                print(f"  survived  {mutant.title}", flush=True)
            if excuse and not survived:
                print(f"  excused, but killed: {mutant.title}", flush=True)
                wrong += 1
        print(f"{module}: {counts[0]} mutants, {counts[1]} killed, {counts[2]} equivalent", flush=True)
        tried, killed, excused = tried + counts[0], killed + counts[1], excused + counts[2]
    share = killed / max(tried - excused, 1)
    print(f"{tried} mutants, {killed} killed, {excused} equivalent: {share:.1%} of the others killed", flush=True)
    return 0 if share >= WANTED and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
