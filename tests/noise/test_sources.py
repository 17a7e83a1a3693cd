"""Where randomness comes from: the operating system, by one function; no floating point near it."""

from __future__ import annotations

import ast
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import privcube.sensitive.noise
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, max_norm_noise
from privcube.sensitive.noise.bits import system_words

MODULES = sorted(Path(privcube.sensitive.noise.__file__).parent.glob("*.py"))
FORBIDDEN_MODULES = {"random", "secrets", "numpy.random", "cmath", "scipy", "time", "uuid", "hashlib"}
FORBIDDEN_NAMES = {"float", "log", "log2", "log10", "exp2", "expm1", "log1p", "pow", "random", "default_rng", "float64"}
FORBIDDEN_MATH = {"exp", "log", "sqrt", "pow"}  # of math and numpy; a decimal context has its own


def faults(tree: ast.AST) -> list[str]:
    """What of a module's code is not allowed."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [name.name for name in names if name.name in FORBIDDEN_MODULES | {"math"}]
            case ast.ImportFrom(module=str(module), names=names):
                full = {module, *(f"{module}.{name.name}" for name in names)}
                found += sorted(full & FORBIDDEN_MODULES)
                if module in ("math", "numpy"):
                    found += [name.name for name in names if name.name in FORBIDDEN_MATH | FORBIDDEN_NAMES]
            case ast.Constant(value=float() | complex()):
                found.append(f"literal {node.value}")
            case ast.Name(id=name) if name in FORBIDDEN_NAMES:
                found.append(name)
            case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=name) if (
                name in FORBIDDEN_MATH | FORBIDDEN_NAMES | {"divide", "true_divide"}
            ):
                found.append(name)
            case ast.Attribute(attr=("random" | "default_rng" | "astype") as name):
                if name != "astype":
                    found.append(name)
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                names = {part.id for side in (left, right) for part in ast.walk(side) if isinstance(part, ast.Name)}
                if not names & {"scale", "variance", "least", "most"}:  # fractions, and decimals rounded on purpose
                    found.append(f"true division of {sorted(names)}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_unsafe_numbers(path: Path) -> None:
    """No other generator, no float, no float logarithm or exponential; divisions are of fractions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert faults(tree) == []
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "urandom"]
    assert len(asked) == (path.name == "bits.py")


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "import numpy.random",
        "from numpy import random",
        "from secrets import token_bytes",
        "import math",
        "from math import exp",
        "np.exp(x)",
        "np.random.laplace()",
        "float(x)",
        "x.astype(np.float64)",
        "0.5",
        "words / total",
    ],
)
def test_the_check_finds(code: str) -> None:
    """Each of these is found."""
    assert faults(ast.parse(code))


def test_whole_numbers() -> None:
    """All noise is int64."""
    drawn = [
        discrete_laplace(Fraction(3), 9),
        discrete_laplace(Fraction(10**5), 9),
        discrete_gaussian(Fraction(9), 9),
        discrete_gaussian(Fraction(10**8), 9),
        *max_norm_noise(Fraction(3), [1, 2, 9]),
        *max_norm_noise(Fraction(3), [4]),
    ]
    assert {group.dtype for group in drawn} == {np.dtype(np.int64)}


def test_words_never_repeat() -> None:
    """Blocks of words are new each time; every bit is set half of the time; neighbors are not correlated."""
    blocks = [system_words(1000) for _ in range(200)]
    words = np.concatenate(blocks)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == len(words)  # two equal ones have probability 1e-9
    bits = np.unpackbits(words.view(np.uint8)).reshape(len(words), 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 7 * 0.5 / np.sqrt(len(words))
    share = words / 2**64
    assert abs(np.corrcoef(share[1:], share[:-1])[0, 1]) < 6 / np.sqrt(len(words))


FORK = """
import os
from fractions import Fraction
from privcube.sensitive.noise import discrete_laplace
from privcube.sensitive.noise.bits import system_words
discrete_laplace(Fraction(10**9), 100)  # whatever state there is, the children inherit it
for _ in range(8):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        noise = discrete_laplace(Fraction(10**9), 4).tolist()
        os.write(writing, f"{system_words(2).tolist()} {noise}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    print(os.read(reading, 1000).decode())
print(system_words(2).tolist(), discrete_laplace(Fraction(10**9), 4).tolist())
"""


def test_forked_processes_never_repeat() -> None:
    """Parent and children draw different words and different noise."""
    lines = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 9
    words, noise = zip(*(line.split("] ") for line in lines), strict=True)
    assert all(words + noise)
    assert len(set(words)) == len(set(noise)) == 9
