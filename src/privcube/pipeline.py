"""Composes the stages; the only module that may call into the sensitive zone."""

from __future__ import annotations

from pathlib import Path

from privcube.model.guarantee import PureDP
from privcube.model.request import WorkloadRequest
from privcube.model.spec import DataSource, Spec
from privcube.sensitive.drafting import draft_schema


def draft_spec(source: str | Path) -> Spec:
    """A spec for a CSV file with its attributes drafted from the data; refused for release until confirmed."""
    return Spec(
        data=DataSource(source=str(source)),
        guarantee=PureDP(1),
        schema=draft_schema(source),
        request=WorkloadRequest(all_kway=(1,)),
    )
