"""privcube: data cubes, marginals and contingency tables with a differential-privacy guarantee.

Public names are loaded on first use, so that `import privcube` and `privcube --help` stay fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from privcube.version import __version__ as __version__

if TYPE_CHECKING:
    from privcube import errors as errors
    from privcube import linear as linear
    from privcube.model.attribute import Attribute as Attribute
    from privcube.model.columns.dates import Dates as Dates
    from privcube.model.documents.spec import Spec as Spec
    from privcube.model.levels import Level as Level
    from privcube.model.measures.measure import Measure as Measure
    from privcube.model.plan import Plan as Plan
    from privcube.model.privacy.guarantee import ZCDP as ZCDP
    from privcube.model.privacy.guarantee import ApproxDP as ApproxDP
    from privcube.model.privacy.guarantee import PureDP as PureDP
    from privcube.model.publication.words import AttributeWords as AttributeWords
    from privcube.model.publication.words import LevelWords as LevelWords
    from privcube.model.publication.words import Words as Words
    from privcube.model.schema import Schema as Schema
    from privcube.model.workload import Axis as Axis
    from privcube.model.workload import Workload as Workload
    from privcube.pipeline import Ledger as Ledger
    from privcube.pipeline import check as check
    from privcube.pipeline import release as release
    from privcube.planning.explanation import explain as explain
    from privcube.planning.planner import plan as plan
    from privcube.planning.targets import plan_for as plan_for
    from privcube.released.artifact.verification import verify as verify
    from privcube.released.exports.export import export as export
    from privcube.released.release import Release as Release

_HOME = {
    "Attribute": "model.attribute",
    "Dates": "model.columns.dates",
    "Level": "model.levels",
    "Measure": "model.measures.measure",
    "Schema": "model.schema",
    "Axis": "model.workload",
    "Workload": "model.workload",
    "PureDP": "model.privacy.guarantee",
    "ApproxDP": "model.privacy.guarantee",
    "ZCDP": "model.privacy.guarantee",
    "Words": "model.publication.words",
    "AttributeWords": "model.publication.words",
    "LevelWords": "model.publication.words",
    "Spec": "model.documents.spec",
    "Plan": "model.plan",
    "plan": "planning.planner",
    "plan_for": "planning.targets",
    "explain": "planning.explanation",
    "Ledger": "pipeline",
    "check": "pipeline",
    "release": "pipeline",
    "Release": "released.release",
    "verify": "released.artifact.verification",
    "export": "released.exports.export",
}

_MODULES = ("errors", "linear")

__all__ = ["__version__", *_MODULES, *_HOME]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"privcube.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'privcube' has no attribute {name!r}; it has {', '.join(sorted(__all__))}")
    value = getattr(importlib.import_module(f"privcube.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
