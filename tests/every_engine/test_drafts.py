"""`init --from` drafts alike from every source that can be asked, and leaves awkward columns out with the reason."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from canaries import WORD
from factories import Columns
from holders import Holder

from privcube import Spec
from privcube.errors import DataError, DraftError
from privcube.model.documents.draft_text import draft_text
from privcube.sensitive.reading.drafting import draft_of

CHANCE = random.Random(3)
ROWS = 300
COLUMNS: Columns = {
    "patient_id": ("text", [f"P{CHANCE.randrange(250)}" for _ in range(ROWS)]),
    "sex": ("text", [CHANCE.choice(["F", "M", None]) for _ in range(ROWS)]),
    "rooms": ("integer", [CHANCE.randrange(4) for _ in range(ROWS)]),
    "income": ("float", [CHANCE.randrange(90_000) + 0.5 for _ in range(ROWS)]),
    "smokes": ("boolean", [CHANCE.random() < 0.3 for _ in range(ROWS)]),
    "note": ("text", [f"{WORD} {number}" for number in range(ROWS)]),
    "nothing": ("text", [None] * ROWS),
    "admitted": ("timestamp", [datetime(2023, 3, 1) + timedelta(days=number) for number in range(ROWS)]),
    "born": ("text", [f"{1 + number % 28}.{1 + number % 12}.{1950 + number % 50}" for number in range(ROWS)]),
}


def test_a_draft_of_every_source(inquired: Holder, tmp_path: Path) -> None:
    engine = inquired.engine(COLUMNS, tmp_path)
    if inquired.name == "spark":
        with pytest.raises(DataError, match="limit"):
            draft_of(engine)
        return
    draft = draft_of(engine)
    drafted = {attribute.name: attribute for attribute in draft.attributes}
    assert sorted(drafted) == ["admitted", "born", "income", "rooms", "sex", "smokes"]
    assert drafted["sex"].values == ("F", "M")
    assert drafted["sex"].missing == "category"
    assert drafted["rooms"].values == (0, 1, 2, 3)
    assert [float(edge) for edge in drafted["income"].bins or ()][:2] == [0, 10_000]
    assert set(drafted["smokes"].values or ()) in ({False, True}, {"False", "True"})
    assert drafted["admitted"].labels[0] == "2023-01"
    assert drafted["born"].dates is not None
    assert drafted["born"].dates.format == "day first"
    assert dict(draft.left_out).keys() == {"patient_id", "note", "nothing"}
    assert draft.person == "patient_id"
    text = draft_text({"source": "people"}, draft.attributes, draft.left_out, draft.person)
    assert WORD not in text
    spec = Spec.from_toml(text)
    assert spec.data.person == "patient_id"
    assert spec.ledger is not None
    with pytest.raises(DraftError):
        spec.schema.require_confirmed()
