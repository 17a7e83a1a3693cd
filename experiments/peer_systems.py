"""The systems that are compared: what to install, how they are run, what is said of them, and on which workloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CASES: Final = (("Adult", "Q1*"), ("Adult", "Q2"), ("NLTCS", "Q1*"), ("NLTCS", "Q2"), ("NLTCS", "Q3"))


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A system: its script, what to install, and what is said of it."""

    name: str
    script: str
    versions: tuple[str, ...] = ()  # none: the Python that runs this study
    setting: str
    error_bars: str = ""
    better: str = ""
    repetitions: int = 2
    cases: tuple[tuple[str, str], ...] = CASES  # of the others the study would take too long
    why: str = ""


PRIVCUBE: Final = Peer(
    name="privcube",
    script="run_privcube.py",
    setting="`strategy = auto`; the seconds include planning, which needs no data and is done once",
    error_bars="every count",
)
WHOLE: Final = Peer(
    name="privcube, whole numbers",
    script="run_whole.py",
    setting="the same, with `release.whole()`: counts of records that are found to fit",
    error_bars="every count, of the estimate beside it",
)
OURS: Final = (PRIVCUBE, WHOLE)
EVEN: Final = Peer(
    name="even split",
    script="run_even.py",
    setting="no system: noise on every cell in numpy",
    error_bars="noise scale",
    better="a few lines, at once",
)
OTHERS: Final = (
    Peer(
        name="diffprivlib",
        script="run_diffprivlib.py",
        versions=("diffprivlib==0.6.6", "scikit-learn==1.6.1"),  # newer ones break its import
        setting="`histogramdd` per table, budget split by its accountant",
        error_bars="none",
        better="one line per table; whole numbers, none below 0; machine learning models as well",
    ),
    Peer(
        name="SmartNoise SQL",
        script="run_smartnoise.py",
        versions=("smartnoise-sql==1.0.10",),
        setting="`GROUP BY` per table, all cells handed in; with a delta composed by its odometer",
        error_bars="every column",
        better="answers SQL queries that are not known in advance; sums and means",
        repetitions=1,
        cases=(("Adult", "Q1*"), ("Adult", "Q2"), ("NLTCS", "Q2")),
        why="a table takes a quarter of a second, and there are many",
    ),
    Peer(
        name="Tumult Analytics",
        script="run_tumult.py",
        versions=("tmlt.analytics==0.21.0", "pyspark==3.5.9"),
        setting="`count` per table over a set of keys, budget split evenly, on a local Spark",
        error_bars="none",
        better="joins, sums, quantiles; data of any size on a cluster; queries not known in advance",
        repetitions=1,
        cases=(("Adult", "Q1*"),),
        why="a table takes seconds on a local Spark",
    ),
    Peer(
        name="OpenDP",
        script="run_opendp.py",
        versions=("opendp[mbi]==0.16.0", "mbi==1.1.0", "jax==0.10.2"),
        setting="`contingency_table` with `Fixed`: noise on every table, then one model",
        error_bars="every table",
        better="a model that synthetic records are drawn from, nothing below 0; a vetted library of mechanisms",
        repetitions=1,
        cases=(("Adult", "Q1*"),),
        why="fitting its model takes minutes",
    ),
    Peer(
        name="mbi",
        script="run_mbi.py",
        versions=("mbi==2.0.0", "jax==0.10.2"),
        setting="`MirrorDescent` on the noisy answers that privcube measured; the seconds are those of the fit alone",
        error_bars="none",
        better="a model that synthetic records are drawn from, nothing below 0",
        cases=(("Adult", "Q1*"), ("NLTCS", "Q1*")),
        why="its model of these tables is the table of all attributes, and fitting it takes minutes",
    ),
)
SYSTEMS: Final = (*OURS, EVEN, *OTHERS)
