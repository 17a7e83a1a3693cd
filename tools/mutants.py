"""Mutation testing of the privacy core: change one thing in a module, and see that a test fails.

The changes are Cosmic Ray's (operators turned around, numbers off by one, conditions negated, loops that never run).
Cosmic Ray itself writes each mutant over the source and starts a new interpreter for it. Here the working tree stays as
it is, and a mutant is tried in one or two forked processes.

First, where only the body of a function changed: a process that has collected the tests already is forked, the
function gets its new code, and tests run until one fails. Only tests run that call the function (this is noted once,
with all caches empty), those first that killed most mutants of it so far. So a mutant costs as much as the test that
kills it. Test modules may have called the function before, while they were collected: they hold what the true code
made. Then a mutant that survives is tried a second time, and so is each fiftieth that was killed, with the test that
killed it. The second time, and the only time where something else changed (a constant, a decorator, a field), the
mutant is handed to the import system of a process that has loaded nothing of privcube and of its tests.

    python tools/mutants.py                 # all modules; PRIVCUBE_MUTANTS=10 tries one mutant in ten,
                                            # PRIVCUBE_JOBS=2 tries two at a time
    PRIVCUBE_MUTANTS=3/10 python tools/mutants.py   # another tenth: 0/10 to 9/10 have no mutant in common
    python tools/mutants.py slices zcdp     # modules whose path has one of these words
    PRIVCUBE_MUTANT_NOTES=notes python tools/mutants.py   # goes on where the last run with these notes ended

A mutant that no test kills is printed, and so is one that is killed because a test never ends: its process has used
five times the time of the processor that the test takes, and two seconds. What else runs on the machine does not
count. Those that nobody could tell from the module are listed with reasons in
tools/equivalent_mutants.toml, each by its module and by the line before and after. The exit code is 1 if fewer than
95 % of the others are killed, or if a line of the list is wrong.
"""

from __future__ import annotations

import ast
import builtins
import gc
import hashlib
import importlib.machinery
import inspect
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import _lru_cache_wrapper, partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar, cast

import cosmic_ray.ast
import cosmic_ray.mutating
import cosmic_ray.plugins

if TYPE_CHECKING:
    import pytest

_Test = TypeVar("_Test")

PROJECT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = PROJECT / "src" / "privcube"
WANTED: Final = 0.95  # of the mutants that are not equivalent
_SLOW: Final = 1.0  # seconds: a test that takes longer is for the suite, not for thousands of mutants
_ENOUGH: Final = 6.0  # seconds of tests for a mutant, the likely killers and the quick ones first
_STUCK: Final = 120.0  # seconds in which a process of tests uses some time of the processor

PRICES: Final = (
    *("attack/test_prices.py", "attack/test_as_drawn.py", "model/test_pairs.py", "accuracy/test_laws.py"),
    *("sensitive/test_gate.py", "sensitive/test_measures.py", "sensitive/test_brute_force.py"),
    *("strategies/test_matrix.py", "accuracy/test_pricing.py"),
)
BLOCKS: Final = ("strategies/test_blocks.py", "strategies/test_matrix.py", "accuracy/test_pricing.py")
MEASURES: Final = ("model/test_measures.py", "sensitive/test_measures.py")
NOISE: Final = tuple(
    f"noise/test_{name}.py"
    for name in (
        *("refusals", "sources", "bounds", "coins", "tables"),
        *("distributions", "wide_gaussian", "rounded_gaussian", "max_norm"),
    )
)
NORMAL: Final = ("algebra/test_normal.py", "model/privacy/test_gaussian_profile.py")
# Tests that run in the process. Modules with the same tests are tried together.
KILLERS: Final[dict[str, tuple[str, ...]]] = {
    "model/privacy/composition.py": ("model/privacy/test_composition.py",),
    "sensitive/ledger/memory.py": ("model/privacy/test_composition.py",),
    "model/privacy/guarantee.py": ("model/privacy/test_guarantee.py", "model/documents/test_spec.py"),
    "model/privacy/zcdp.py": ("model/privacy/test_zcdp.py",),
    "model/privacy/gaussian_profile.py": NORMAL,
    "algebra/normal.py": NORMAL,
    "algebra/directed.py": NORMAL,
    "model/slices.py": (*PRICES, "model/test_groups.py", "model/test_slices.py"),
    "model/sensitivity.py": (*PRICES, "model/test_groups.py", "model/test_slices.py"),
    "accuracy/privacy.py": PRICES,
    "accuracy/pricing/bundles.py": PRICES,
    "accuracy/pricing/columns.py": PRICES,
    "accuracy/pricing/pairs.py": PRICES,
    "model/noise/bundles.py": PRICES,
    "model/noise/pairs.py": PRICES,
    "model/noise/drawable.py": ("model/test_drawable.py", "attack/test_measures.py"),
    "sensitive/brute_force.py": PRICES,
    "accuracy/pricing/measures.py": PRICES,
    "model/matrices/block_price.py": BLOCKS,
    "accuracy/blocks/price.py": BLOCKS,
    "model/measures/grid.py": MEASURES,
    "model/measures/units.py": MEASURES,
    "sensitive/measures/dividing.py": MEASURES,
    "sensitive/gate.py": PRICES,
    **{
        f"sensitive/noise/section/{module}.py": ("noise/test_section.py", "algebra/test_section.py")
        for module in ("__init__", "arrangement", "crossings", "lazy_exponential")
    },
    "sensitive/noise/section/rounded.py": ("noise/test_rounded_max_norm.py",),
    "sensitive/noise/section/sums.py": ("noise/test_section.py", "noise/test_rounded_max_norm.py"),
    "algebra/section.py": ("noise/test_section.py", "algebra/test_section.py"),
    "sensitive/noise/gram.py": ("noise/test_gram.py",),
    **{
        f"sensitive/noise/{module}.py": NOISE
        for module in (
            *("bits", "coins", "fixed", "gaussian", "gaussian_tails", "laplace", "lazy_normal", "max_norm"),
            *("normal_tails", "rounded_gaussian", "tables", "weights", "wide_gaussian"),
        )
    },
    **{
        f"sensitive/ledger/{module}.py": (
            *(f"ledger/test_{name}.py" for name in ("account", "names", "stores", "files")),
            "cli/test_python_ledger.py",
        )
        for module in ("account", "durable", "names", "sqlite")
    },
    "sensitive/ledger/postgresql.py": ("ledger/test_databases.py", "ledger/test_stores.py", "ledger/test_names.py"),
}
SERVED: Final = "sensitive/ledger/postgresql.py"  # its tests need a server, which is started once for all mutants

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
    """A changed module: where, by what, the line as it was and as it is, and the statement that has the line."""

    module: str
    line: int
    operator: str
    before: str
    after: str
    statement: str  # of the module itself, not of a function: mostly a whole function or class
    changed: str

    @property
    def source(self) -> str:
        """The whole module."""
        whole = (SOURCE / self.module).read_text(encoding="utf-8")
        return whole.replace(self.statement, self.changed, 1)

    @property
    def key(self) -> tuple[str, str, str]:
        """How the list of equivalent mutants names it."""
        return self.module, self.before, self.after

    @property
    def title(self) -> str:
        """In one line."""
        return f"{self.before}  ->  {self.after}   ({self.operator}, line {self.line})"

    @property
    def mark(self) -> str:
        """Names it in a file of notes."""
        return f"{_hashed(self.module, self.statement, self.changed):x}"[:20]


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


def _hashed(*words: str) -> int:
    return int(hashlib.sha256("\0".join(words).encode()).hexdigest(), 16)


def _meaning(source: str) -> str:
    return ast.dump(_Bare().visit(ast.parse(source)))


def mutants(module: str, every: int = 1, part: int = 0) -> Iterator[Mutant]:
    """All mutants of a module that mean something else than it, and than each other; or one in so many.

    Statement by statement, as Cosmic Ray reads all of a text for every mutant. Which ones are in a sample is decided by
    a hash, so that it is as good as random. Two parts have no mutant in common, nor have samples of several sizes whose
    parts differ by the smaller size.
    """
    source = (SOURCE / module).read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        statement = "".join(lines[first - 1 : node.end_lineno])
        if source.count(statement) != 1:
            raise SystemExit(f"{module}: {statement!r} is there twice")
        seen, tree = {_meaning(statement)}, cosmic_ray.ast.get_ast(statement)
        for name in OPERATORS:
            operator = cosmic_ray.plugins.get_operator(f"core/{name}")()
            nodes = cosmic_ray.ast.ast_nodes(tree)
            for occurrence in range(sum(len(list(operator.mutation_positions(node))) for node in nodes)):
                if _hashed(module, statement, name, str(occurrence)) % every != part:
                    continue
                changed = cosmic_ray.mutating.mutate_code(statement, operator, occurrence)
                try:
                    meaning = _meaning(changed)
                except SyntaxError:
                    continue
                if meaning in seen:
                    continue
                seen.add(meaning)
                old, new = statement.splitlines(), changed.splitlines()
                at = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
                before, after = (next(line.strip() for line in text[at:] if line.strip()) for text in (old, new))
                yield Mutant(module, first + at, name, before, after, statement, changed)


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


def tried_alone(mutant: Mutant, tests: Sequence[str], seconds: int) -> int:
    """How tests end with a mutant in the place of its module, in a process of its own: 0 if all pass."""
    child = os.fork()
    if not child:
        _limit(seconds)
        sys.meta_path.insert(0, _Finder(mutant.module, mutant.source))
        _run_tests(tests)
    return _ended(child)


def _ended(child: int) -> int:
    """How a process ended. The machine may be busy, but a process that does nothing for long is stuck."""
    used, seen = "", time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > seen + _STUCK:
            now = " ".join(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13])  # time in ticks
            if now == used:
                os.kill(child, signal.SIGKILL)
            used, seen = now, time.monotonic()
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
        started = "PRIVCUBE_TEST_SERVER" in os.environ
        items[:] = [item for item in items if not self._needs_server(item, started)]

    @staticmethod
    def _needs_server(item: pytest.Item, started: bool) -> bool:
        fixtures = getattr(item, "fixturenames", ())
        if started:
            return "crash_server" in fixtures or "drive" in fixtures
        return "postgresql" in item.name or "_server" in fixtures


class _Calls:
    """Notes how long a test takes, and which functions of some modules it calls, with all caches empty.

    A call of a function is noted by a statement at its beginning, in a copy of its code.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = {str(SOURCE / module): module for module in modules}
        self._called: set[str] = set()
        self._caches: list[Any] = []
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)

    def watch_imports(self) -> None:
        """Note functions that are called while tests are collected."""
        sys.setprofile(self._seen)

    def collected(self) -> list[str]:
        """What was called, by module and qualified name; a function inside another counts as that one."""
        sys.setprofile(None)
        gc.unfreeze()  # our tests freeze what there is when they have been collected
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in self._modules:
                module = self._modules[each.__code__.co_filename]
                self.functions[f"{module}:{each.__code__.co_qualname}"].append(each)
            elif isinstance(each, _lru_cache_wrapper) and each.__module__.startswith("privcube"):
                self._caches.append(each)
        if not self.functions:
            raise SystemExit("no function of the modules was found: all mutants would seem to survive, or to be killed")
        return sorted(self._called)

    def watch(self) -> None:
        """Put the statement into all functions."""
        builtins.__dict__["__called__"] = self._called.add
        for module in self._modules.values():
            tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
            _Noting(module).visit(tree)
            for name, code in _codes(compile(ast.fix_missing_locations(tree), "", "exec")).items():
                for function in self.functions.get(f"{module}:{name}", ()):
                    if len(function.__code__.co_freevars) == len(code.co_freevars):
                        function.__code__ = code

    def forget(self) -> None:
        """Empty all caches."""
        for cache in self._caches:
            cache.cache_clear()

    def start(self) -> None:
        """Before a test."""
        self.forget()
        self._called.clear()
        self._start = time.process_time()

    def stop(self) -> list[Any]:
        """After a test: its seconds, and the functions that were called."""
        return [round(time.process_time() - self._start, 3), sorted(self._called)]

    def _seen(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in self._modules:
            name = frame.f_code.co_qualname.partition(".<locals>")[0]
            self._called.add(f"{self._modules[frame.f_code.co_filename]}:{name}")


class _Noting(ast.NodeTransformer):
    """Puts a statement at the beginning of every function of a module that says that it was called."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._between = prefix, ":"

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        inside = _Noting(f"{self._prefix}{self._between}{node.name}")
        inside._between = "."
        node.body = [inside.visit(each) for each in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        name = ast.Constant(f"{self._prefix}{self._between}{node.name}")
        node.body.insert(0, ast.Expr(ast.Call(ast.Name("__called__", ast.Load()), [name], [])))
        return node


class _Trials:
    """As a plugin of pytest: when tests are collected, try each mutant in a fork, and write which test killed it."""

    def __init__(self, tried: Sequence[Mutant], jobs: int, known: dict[str, Any], answers: int) -> None:
        self.tried, self.jobs, self.answers, self.known = tried, jobs, answers, known
        self.calls = _Calls(KILLERS)
        self.calls.watch_imports()

    def _answer(self, answer: object) -> None:
        os.write(self.answers, json.dumps(answer).encode() + b"\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of running the tests."""
        collected = self.calls.collected()
        functions = self.calls.functions
        new = [item for item in session.items if item.nodeid not in self.known]
        noted = dict(self._noted(session, new))
        self._answer(noted)
        if None in noted.values() or len(noted) < len(new):
            return True
        both = {item.nodeid: {**self.known, **noted}[item.nodeid] for item in session.items}
        items = [item for item in session.items if both[item.nodeid][0] < _SLOW]
        takes: dict[str, float] = {name: seconds for name, (seconds, _) in both.items()}
        calls: dict[str, list[str]] = {item.nodeid: both[item.nodeid][1] for item in items}
        kills: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)  # by the functions that changed

        def trial(mutant: Mutant) -> tuple[str | None, bool, bool]:
            changed = _changed_functions(mutant.module, mutant.statement, mutant.changed)
            users = _users_of_changed_constant(mutant) if changed is None else set(changed)
            if users is None or not all(functions.get(name) for name in users):
                return None, False, False
            killed = kills[tuple(sorted(users))]
            concerned = [item for item in items if not users.isdisjoint(calls[item.nodeid])]
            concerned.sort(key=lambda item: (-killed[item.nodeid], takes[item.nodeid]))
            concerned = _within(concerned, [takes[item.nodeid] for item in concerned])

            def change() -> None:
                if changed is None:  # the functions that use a constant look it up where their module has it
                    exec(mutant.changed, functions[min(users)][0].__globals__)  # noqa: S102
                else:
                    for name, code in changed.items():
                        for function in functions[name]:
                            function.__code__ = code

            status, said = _forked(partial(self._try, session, concerned, takes, change))
            killer = None if status == 0 else said[-1] if said else items[0].nodeid
            if killer is not None:
                killed[killer] += 1
            return killer, users.isdisjoint(collected), os.WIFSIGNALED(status)

        for number, (killer, sure, stopped) in _shared(trial, self.tried, self.jobs):
            self._answer([number, killer, sure, stopped])
        return True

    def _noted(self, session: pytest.Session, items: Sequence[pytest.Item]) -> list[Any]:
        """What is noted of each test; the list ends with the first that fails."""

        def run(writer: int) -> None:
            self.calls.watch()
            signal.signal(signal.SIGPROF, _give_up)
            for item, following in _with_next(items):
                self.calls.start()
                signal.setitimer(signal.ITIMER_PROF, _SLOW, _SLOW / 10)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                signal.setitimer(signal.ITIMER_PROF, 0)
                noted = self.calls.stop()
                if session.testsfailed and not _TooSlowError.raised:
                    os.write(writer, json.dumps([item.nodeid, None]).encode() + b"\n")
                    return
                noted[0] += _SLOW * _TooSlowError.raised
                session.testsfailed = _TooSlowError.raised = 0
                os.write(writer, json.dumps([item.nodeid, noted]).encode() + b"\n")

        return _forked(run)[1]

    def _try(
        self,
        session: pytest.Session,
        items: Sequence[pytest.Item],
        takes: dict[str, float],
        change: Callable[[], None],
        writer: int,
    ) -> None:
        """Run the tests up to the first failure, saying which one begins."""
        self.calls.forget()
        change()
        for item, following in _with_next(items):
            os.write(writer, json.dumps(item.nodeid).encode() + b"\n")
            seconds = int(time.process_time() + 2 + 5 * takes[item.nodeid])
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                os._exit(1)


def _within(tests: Sequence[_Test], seconds: Sequence[float]) -> list[_Test]:
    """The first tests, up to the seconds that a mutant is given."""
    return [test for test, end in zip(tests, accumulate(seconds), strict=True) if end <= _ENOUGH]


class _TooSlowError(BaseException):
    """Ends a test."""

    raised = 0


def _give_up(number: int, frame: FrameType | None) -> None:
    """End the test that runs, once; what pytest does around it is not disturbed."""
    while frame is not None and not _TooSlowError.raised:
        if frame.f_code.co_name == "pytest_pyfunc_call":
            _TooSlowError.raised = 1
            raise _TooSlowError
        frame = frame.f_back


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test and the one that follows it."""
    return zip(items, [*items[1:], None], strict=True) if items else iter(())


def _forked(work: Callable[[int], None]) -> tuple[int, list[Any]]:
    """Run something in a fork; how that ended, and the lines of JSON that it wrote to the pipe it was given."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            _limit(600)
            work(writer)
            os._exit(0)
        finally:
            os._exit(2)
    os.close(writer)
    with os.fdopen(reader) as pipe:  # ends with the child
        said = [json.loads(line) for line in pipe]
    return _ended(child), said


def _shared(work: Callable[[Any], object], items: Sequence[Any], jobs: int) -> Iterator[tuple[int, Any]]:
    """Do something with each item, by so many processes at once; its number and the result, as they come.

    The processes are forks of this one, and each takes one item in so many. Results must be short: a pipe keeps such
    lines whole.
    """
    reader, writer = os.pipe()
    children = []
    for job in range(jobs):
        child = os.fork()
        if not child:
            try:
                for number in range(job, len(items), jobs):
                    os.write(writer, json.dumps([number, work(items[number])]).encode() + b"\n")
                os._exit(0)
            finally:
                os._exit(2)
        children.append(child)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        for line in pipe:
            number, result = json.loads(line)
            yield number, result
    for child in children:
        os.waitpid(child, 0)


def _changed_functions(module: str, before: str, after: str) -> dict[str, CodeType] | None:
    """The code of functions that differ, by the module and their names; None if anything else differs."""
    (rest, old), (other, new) = _apart(before), _apart(after)
    if rest != other or old.keys() != new.keys():
        return None
    found = _codes(compile(after, "", "exec"))
    changed = [name for name in old if old[name] != new[name]]
    return {f"{module}:{name}": found[name] for name in changed} if all(name in found for name in changed) else None


def _users_of_changed_constant(mutant: Mutant) -> set[str] | None:
    """The functions that use a changed constant, if it is private, and nothing else of the module uses it."""
    (statement,) = ast.parse(mutant.statement).body
    target = statement.target if isinstance(statement, ast.AnnAssign) else None
    if not isinstance(target, ast.Name) or not target.id.startswith("_"):
        return None
    tree = _Bare().visit(ast.parse((SOURCE / mutant.module).read_text(encoding="utf-8")))
    users, elsewhere = set[str](), 0

    def visit(node: ast.AST, prefix: str, function: str | None) -> None:
        nonlocal elsewhere
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
            users.add(str(function))
            elsewhere += function is None
        body = getattr(node, "body", []) if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        inner = prefix + node.name + "." if isinstance(node, ast.FunctionDef | ast.ClassDef) else prefix
        for child in ast.iter_child_nodes(node):
            own = inner[:-1] if isinstance(node, ast.FunctionDef) and child in body and function is None else function
            visit(child, inner if child in body else prefix, own)

    visit(tree, "", None)
    return {f"{mutant.module}:{name}" for name in users} if users and not elsewhere else None


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


def killers(tests: Iterable[str], tried: Sequence[Mutant], jobs: int, known: dict[str, Any]) -> Iterator[Any]:
    """What is noted of tests; of each mutant its number, its killer, if that is sure, and if its time was over."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _run_tests([str(PROJECT / "tests" / name) for name in tests], _Trials(tried, jobs, known, writer))
    os.close(writer)
    answers = 0
    with os.fdopen(reader) as pipe:
        for line in pipe:
            answers += 1
            yield json.loads(line)
    os.waitpid(child, 0)
    if answers != 1 + len(tried):
        raise SystemExit(f"{', '.join(tests)}: their process failed")


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


class Excuses:
    """Why mutants cannot be told from their modules: by the module and the line before and after, or by a pattern."""

    def __init__(self) -> None:
        text = (PROJECT / "tools" / "equivalent_mutants.toml").read_text(encoding="utf-8")
        self.lines = {
            (module, before, after)
            for reason in tomllib.loads(text)["reasons"]
            for module, lines in reason["lines"].items()
            for before, after in lines
        }
        self._patterns = [re.compile(each["pattern"]) for each in tomllib.loads(text)["everywhere"]]

    def __contains__(self, key: object) -> bool:
        """Whether a mutant is listed, or differs only in what matches a pattern."""
        return key in self.lines or self.is_nothing(cast("tuple[str, str, str]", key))

    def is_nothing(self, key: tuple[str, str, str]) -> bool:
        """Whether a mutant differs only in what matches a pattern: it is not even tried."""
        _, before, after = key
        return any(one.sub("", before) == one.sub("", after) for one in self._patterns)


class Counts(NamedTuple):
    """Of one module: mutants, how many were killed, and survivors that are known to be equivalent."""

    tried: int
    killed: int
    equivalent: int


def survivors(tests: Sequence[str], made: Sequence[Mutant], excused: Excuses, jobs: int, notes: Notes) -> list[Mutant]:
    """Mutants that no test kills; those without an excuse are printed as soon as they are found."""
    known = [each for each in made if excused.is_nothing(each.key) or (each.key in excused and notes.survived(each))]
    found = list(known)
    unsure: list[tuple[Mutant, str | None]] = []
    often: Counter[tuple[str, str]] = Counter()  # tests that killed mutants of a module

    def survived(mutant: Mutant) -> None:
        found.append(mutant)
        notes.add(mutant, None)
        if mutant.key not in excused:
            print(f"  survived  {mutant.module}: {mutant.title}", flush=True)

    def stopped(mutant: Mutant, where: str) -> None:
        if mutant.key in excused:  # of those that change time alone some take too much of it
            survived(mutant)
            return
        print(f"  stopped   {mutant.module}: {mutant.title}   in {where}", flush=True)
        notes.add(mutant, f"time over in {where}")

    made = [mutant for mutant in made if not notes.killed(mutant) and mutant not in known]
    known_tests = notes.of_tests(tests)
    answers = killers(tests, made, jobs, known_tests) if made else iter(())
    noted: dict[str, Any] = next(answers, {})
    failed = [name for name, each in noted.items() if each is None]
    if failed:
        raise SystemExit(f"{failed[0]} fails without any mutant")
    notes.add_tests(noted)
    quick = {name: each for name, each in {**known_tests, **noted}.items() if each[0] < _SLOW}
    for number, killer, sure, over in answers:
        mutant = made[number]
        if killer is not None:
            often[mutant.module, killer] += 1
            if over:
                stopped(mutant, killer)
            else:
                notes.add(mutant, killer)
        if not sure:
            unsure.append((mutant, killer))
        elif killer is None:
            survived(mutant)
    killed = [killer is not None for _, killer in unsure]
    again = [each for at, each in enumerate(unsure) if not killed[at] or sum(killed[:at]) % 50 == 0]

    def trial(each: tuple[Mutant, str | None]) -> int:
        mutant, killer = each
        if killer is not None and (status := tried_alone(mutant, [killer], 120)):
            return status
        changed = _changed_functions(mutant.module, mutant.statement, mutant.changed)
        users = _users_of_changed_constant(mutant) if changed is None else set(changed)
        takes = {
            name: seconds
            for name, (seconds, called) in quick.items()
            if any(each.startswith(f"{mutant.module}:") if users is None else each in users for each in called)
        }
        names = sorted(takes, key=lambda name: (-often[mutant.module, name], takes[name]))
        tests = _within(names, [takes[name] for name in names])
        return tried_alone(mutant, tests, 120) if tests else 0  # pytest would take no names for the names of all

    for number, status in _shared(trial, again, jobs):
        mutant = again[number][0]
        if not status:
            survived(mutant)
        elif os.WIFSIGNALED(status):
            stopped(mutant, "a process of its own")
        else:
            notes.add(mutant, "in a process of its own")
    return found


class Notes:
    """What was found out before, in a file: a mutant that was killed is not tried again until its statement changes."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        lines = Path(path).read_text(encoding="utf-8").splitlines() if path and Path(path).exists() else []
        notes = list(map(json.loads, lines))
        self._killers: dict[str, str | None] = {note["mark"]: note["killer"] for note in notes if "mark" in note}
        self._tests = {note["test"]: note for note in notes if "test" in note}

    def of_tests(self, files: Iterable[str]) -> dict[str, Any]:
        """Seconds and calls of tests whose files have not changed since."""
        digests = {f"tests/{name}": self._digest(f"tests/{name}") for name in files}
        return {
            name: note["noted"]
            for name, note in self._tests.items()
            if digests.get(name.partition("::")[0]) == note["file"]
        }

    def add_tests(self, noted: dict[str, Any]) -> None:
        """Write down what was noted of tests."""
        for name, each in noted.items():
            self._write({"test": name, "file": self._digest(name.partition("::")[0]), "noted": each})

    def _digest(self, name: str) -> str:
        return f"{_hashed((PROJECT / name).read_text(encoding='utf-8')):x}"[:20]

    def _write(self, note: dict[str, Any]) -> None:
        if self._path:
            with Path(self._path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(note) + "\n")

    def killed(self, mutant: Mutant) -> bool:
        """Whether a test killed it."""
        return self._killers.get(mutant.mark) is not None

    def survived(self, mutant: Mutant) -> bool:
        """Whether no test killed it."""
        return self._killers.get(mutant.mark, "") is None

    def add(self, mutant: Mutant, killer: str | None) -> None:
        """Write down which test killed it, or that none did."""
        self._killers[mutant.mark] = killer
        self._write({"mark": mutant.mark, "killer": killer, "module": mutant.module, "title": mutant.title})


@contextmanager
def _server(modules: Iterable[str]) -> Iterator[None]:
    """The server of the tests of ledgers, for mutants of the module that asks it."""
    if SERVED not in modules:
        yield
        return
    sys.path[:0] = [str(PROJECT), str(PROJECT / "tests" / "every_engine")]
    from tests.ledger.postgresql_server import running

    with running() as (url, _):
        os.environ["PRIVCUBE_TEST_SERVER"] = url
        try:
            yield
        finally:
            del os.environ["PRIVCUBE_TEST_SERVER"]


def _sample(text: str) -> tuple[int, int]:
    """Which part of how many."""
    part, _, every = text.rpartition("/")
    return int(part or 0), int(every)


def main(words: Sequence[str]) -> int:
    """Run the mutants of all modules with one of these words in their path; 0 if enough are killed."""
    part, every = _sample(os.environ.get("PRIVCUBE_MUTANTS", "1"))
    jobs = int(os.environ.get("PRIVCUBE_JOBS", "1"))
    from scipy.stats import binomtest

    os.chdir(PROJECT)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _preload()
    excused, wrong, notes = Excuses(), 0, Notes(os.environ.get("PRIVCUBE_MUTANT_NOTES"))
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for module, tests in KILLERS.items():
        if not words or any(word in module for word in words):
            together[tests].append(module)
    all_of_them = Counts(0, 0, 0)
    for tests, modules in together.items():
        made = [mutant for module in modules for mutant in mutants(module, every, part)]
        with _server(modules):
            left = survivors(tests, made, excused, jobs, notes)
        for module, *lines in {key for key in excused.lines if key[0] in modules} - {mutant.key for mutant in made}:
            if every == 1 or lines[0] not in map(str.strip, (SOURCE / module).read_text(encoding="utf-8").splitlines()):
                print("  excused, but never made:", module, *lines, flush=True)
                wrong += 1
        for mutant in made:
            if mutant.key in excused.lines and mutant not in left:
                print(f"  excused, but killed: {mutant.module}: {mutant.title}", flush=True)
                wrong += 1
        for module in modules:
            tried, kept = (sum(mutant.module == module for mutant in each) for each in (made, left))
            equivalent = sum(mutant.module == module and mutant.key in excused for mutant in left)
            print(f"{module}: {tried} mutants, {tried - kept} killed, {equivalent} equivalent", flush=True)
            counts = Counts(tried, tried - kept, equivalent)
            all_of_them = Counts(*map(sum, zip(all_of_them, counts, strict=True)))
    tried, killed, equivalent = all_of_them
    share = killed / max(tried - equivalent, 1)
    low, high = binomtest(killed, max(tried - equivalent, 1)).proportion_ci(method="exact")
    between = f" ({low:.1%} to {high:.1%} with 95 % confidence)" if every > 1 else ""
    print(
        f"{tried} mutants, {killed} killed, {equivalent} equivalent: {share:.1%} of the others killed{between}",
        flush=True,
    )
    return 0 if share >= WANTED and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
