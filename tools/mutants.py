"""Mutation testing of the privacy core: change one thing in a module, and see that a test fails.

The changes are Cosmic Ray's (operators turned around, numbers off by one, conditions negated, loops that never run).
Cosmic Ray itself writes each mutant over the source and starts a new interpreter for it. Here a mutant is handed to the
import system of a forked process that has numpy, scipy and pytest loaded already. The working tree stays as it is, and
a mutant costs as much as the tests up to the first that fails.

    python tools/mutants.py                 # all modules; PRIVCUBE_MUTANTS=10 tries one mutant in ten
    python tools/mutants.py slices zcdp     # modules whose path has one of these words

A mutant that no test kills is printed. Those that nobody could tell from the module are named in EQUIVALENT, with the
reasons. The exit code is 1 if fewer than 95 % of the others are killed.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

import cosmic_ray.mutating
import cosmic_ray.plugins

PROJECT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = PROJECT / "src" / "privcube"
WANTED: Final = 0.95  # of the mutants that are not equivalent

NOISE: Final = ("test_refusals", "test_sources", "test_bounds", "test_coins", "test_tables")
# Tests that run in the process, quick ones first.
KILLERS: Final[dict[str, tuple[str, ...]]] = {
    "model/privacy/composition.py": ("model/privacy/test_composition.py",),
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
        f"sensitive/ledger/{module}.py": ("ledger/test_account.py", "ledger/test_stores.py", "ledger/test_files.py")
        for module in ("account", "durable", "memory", "sqlite")
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


# Changes that nobody could tell, by what they make of a line; `make attack` says if one of them is killed after all.
EQUIVALENT: Final = (
    # Memory only; and `init=True` adds nothing to a class that has an `__init__`.
    *("slots=False", "init=True"),
    # Both sides have the same length by construction: `strict` guards against changes to come.
    "strict=False",
    # numpy takes any negative size for "whatever is left".
    ".reshape(- 2)",
    # `_inner` multiplies entries of +1 and -1 here: a quotient is a product.
    "sum(left[row] // right[row] for row in shared)",
    # The delta is what is asked for, whatever the epsilon beside it.
    "ApproxDP( 2, delta).delta",
    # Of a single group, the slices by its own cells hold as much as the whole.
    "slicing = shared_cells(groups) if len(groups) >= 1 else ()",
    # A table of 12 attributes lists its margins only to save counting them twice.
    *("if len(table) < 12 else", "if len(table) <= 13 else", "if len(table) <= 11 else"),
    # 60 + 22 k is even, and 2,000,001 is not.
    "_MOST_WEIGHTS: Final = 2000001",
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
        """In one line, without its number, which changes with every edit above it."""
        return f"{self.module}: {self.before}  ->  {self.after}"


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


def survives(module: str, source: str, seconds: int) -> bool:
    """Whether all tests pass with this text in the place of the module, in a process of its own."""
    child = os.fork()
    if not child:
        _run(module, source, seconds)
    deadline = time.monotonic() + 20 * seconds + 60  # it may sleep, or the machine may be busy
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _run(module: str, source: str, seconds: int) -> None:
    """Run the tests and end the process: 0 if all pass. An endless loop or too much memory is a death."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    silent = os.open(os.devnull, os.O_WRONLY)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.meta_path.insert(0, _Finder(module, source))  # type: ignore[arg-type]  # a protocol it fulfills
    tests = [str(PROJECT / "tests" / name) for name in KILLERS[module]]
    # hypothesis is loaded already, which pytest warns of, and our warnings are errors.
    plain = ["-x", "-n0", "-pno:cacheprovider", "--hypothesis-seed=0", "-Wignore::pytest.PytestAssertRewriteWarning"]
    code = 1
    try:
        code = int(pytest.main([*tests, *plain]))
    finally:
        os._exit(code)


def _preload() -> None:
    """What all tests import, once for all mutants; nothing of privcube."""
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


def main(words: Sequence[str]) -> int:
    """Run the mutants of all modules with one of these words in their path; 0 if enough are killed."""
    every = int(os.environ.get("PRIVCUBE_MUTANTS", "1"))
    os.chdir(PROJECT)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _preload()
    tried = killed = excused = 0
    for module in KILLERS:
        if words and not any(word in module for word in words):
            continue
        start = os.times().children_user
        if not survives(module, (SOURCE / module).read_text(encoding="utf-8"), 600):
            print(f"{module}: the tests fail without any mutant", flush=True)
            return 2
        seconds = 10 + 4 * int(os.times().children_user - start)
        counts = [0, 0, 0]
        for number, mutant in enumerate(mutants(module)):
            if number % every:
                continue
            survived = survives(module, mutant.source, seconds)
            known = any(change in mutant.after for change in EQUIVALENT)
            counts[0] += 1
            counts[1] += not survived
            counts[2] += survived and known
            if survived and not known:
                print(f"  survived  {mutant.title}   ({mutant.operator}, line {mutant.line})", flush=True)
            if known and not survived:
                print(f"  killed, so not equivalent: {mutant.title}", flush=True)
        print(f"{module}: {counts[0]} mutants, {counts[1]} killed, {counts[2]} equivalent", flush=True)
        tried, killed, excused = tried + counts[0], killed + counts[1], excused + counts[2]
    share = killed / max(tried - excused, 1)
    print(f"{tried} mutants, {killed} killed, {excused} equivalent: {share:.1%} of the others killed", flush=True)
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
