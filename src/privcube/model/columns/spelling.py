"""How the data spells declared values. Zone: PUBLIC.

Cleaning is declared, and it looks at one value at a time: what a record is counted as never depends on other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from privcube.errors import SchemaError
from privcube.model.levels import check_name

Case = Literal["exact", "fold"]

MISSING: Final = "(missing)"
MEANS_MISSING: Final = frozenset(
    ("na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "--", ".", "unknown")
)  # what files say, in any letters, where there is no value
BLANKS: Final = " \t\n\r\f\v\u00a0"  # what `trim` removes; the last is invisible, and common in exports


def folded(text: str) -> str:
    """A text in lower case, letter by letter, where a capital has one small letter and that one has this capital.

    Other letters stay as they are. So a small letter stands for itself and one capital, which any database can say.

    >>> folded("STRASSE Été"), folded("İ") == "İ"
    ('strasse été', True)
    """
    return "".join(map(_small, text))


def capitals(texts: Iterable[str]) -> dict[str, str]:
    """The capitals that `folded` makes into letters of these texts, which are folded, each with its small letter.

    >>> capitals(["été", "a1"])
    {'A': 'a', 'T': 't', 'É': 'é'}
    """
    letters = sorted({letter for text in texts for letter in text})
    return {letter.upper(): letter for letter in letters if _is_pair(letter.upper(), letter)}


def _small(letter: str) -> str:
    return small if _is_pair(letter, small := letter.lower()) else letter


def _is_pair(capital: str, small: str) -> bool:
    if capital == small or len(capital) != 1 or len(small) != 1:
        return False
    return capital.lower() == small and small.upper() == capital


def cleaned(text: str, *, trim: bool, case: Case) -> str:
    """A text as cleaning leaves it, which is how declared texts and those of the data are compared."""
    trimmed = text.strip(BLANKS) if trim else text
    return folded(trimmed) if case == "fold" else trimmed


def checked_raw(subject: str, raw: object, labels: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Spellings in the data, by label; (missing) may have some, too."""
    try:
        spelled = dict(raw)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        spelled = {"": None}
    if not all(isinstance(spellings, list | tuple) for spellings in spelled.values()):
        raise SchemaError(subject, expected='a table of lists, value = ["a spelling", ...]', given=raw)
    allowed = (*labels, MISSING)
    known = set(allowed)
    for label, spellings in spelled.items():
        if label not in known:
            raise SchemaError(subject, expected="spellings of declared values", given=label, available=allowed)
        for spelling in spellings:
            check_name(f"{subject}, spelling of {label!r}", spelling)
    return tuple((label, tuple(spellings)) for label, spellings in spelled.items())
