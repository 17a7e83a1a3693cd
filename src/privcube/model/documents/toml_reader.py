"""Typed access to a section of a TOML document; unknown keys and wrong types are refused. Zone: PUBLIC."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Final, TypeVar, overload

from privcube.errors import Plain, SpecError, quoted
from privcube.model.amounts import Amount

_REQUIRED: Final = object()
_LONGEST_KEY: Final = 80  # characters of an unknown key that a message shows as it is
_Default = TypeVar("_Default")

_REMARKS: Final = {
    "seed": "noise comes from the operating system and cannot be seeded",
    "random_state": "noise comes from the operating system and cannot be seeded",
}


class Section:
    """A table of the document, with its path for error messages."""

    def __init__(self, path: str, table: dict[str, Any], known: Iterable[str]) -> None:
        self._path = path
        self._table = table
        names = tuple(known)
        for key in table:
            if key not in names:
                remark = _REMARKS.get(key) or _suggestion(key, names)
                shown = key if key.isprintable() and len(key) <= _LONGEST_KEY else quoted(key)
                all_of_them = ", ".join(names)  # a key is easily misspelled: none is left out of the message
                raise SpecError(self.path(shown), expected=f"a known key ({remark})", available=[all_of_them])

    def path(self, key: str) -> str:
        """The full name of a key, such as privacy.epsilon."""
        return f"{self._path}.{key}" if self._path else key

    @property
    def given(self) -> tuple[str, ...]:
        """The keys that are present."""
        return tuple(self._table)

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """A value of any type."""
        if key in self._table:
            return self._table[key]
        if default is _REQUIRED:
            raise SpecError(self.path(key), expected="a value", given=Plain("nothing"))
        return default

    @overload
    def text(self, key: str) -> str: ...
    @overload
    def text(self, key: str, default: _Default) -> str | _Default: ...
    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """A non-empty text."""
        value = self.raw(key, default)
        if key in self._table and (not isinstance(value, str) or not value.strip()):
            raise SpecError(self.path(key), expected="non-empty text", given=value)
        return value

    @overload
    def integer(self, key: str) -> int: ...
    @overload
    def integer(self, key: str, default: _Default) -> int | _Default: ...
    def integer(self, key: str, default: Any = _REQUIRED) -> Any:
        """A whole number."""
        value = self.raw(key, default)
        if key in self._table and (isinstance(value, bool) or not isinstance(value, int)):
            raise SpecError(self.path(key), expected="a whole number", given=value)
        return value

    def flag(self, key: str, default: _Default) -> bool | _Default:
        """A boolean."""
        value = self.raw(key, default)
        if key in self._table and not isinstance(value, bool):
            raise SpecError(self.path(key), expected="true or false", given=value)
        return value  # type: ignore[no-any-return]

    def array(self, key: str) -> list[Any]:
        """A list, empty if the key is absent."""
        value = self.raw(key, [])
        if not isinstance(value, list):
            raise SpecError(self.path(key), expected="a list", given=value)
        return value

    def amounts(self, keys: Iterable[str]) -> dict[str, Amount]:
        """The amounts that are present, as written."""
        return {key: self._table[key] for key in keys if key in self._table}

    def section(self, key: str, known: Iterable[str], *, required: bool = True) -> Section:
        """A table inside this one."""
        value = self.raw(key, _REQUIRED if required else {})
        if not isinstance(value, dict):
            raise SpecError(self.path(key), expected=f"a table, [{self.path(key)}]", given=value)
        return Section(self.path(key), value, known)

    def sections(self, key: str, known: Iterable[str], *, required: bool = True) -> list[Section]:
        """A list of tables inside this one."""
        value = self.raw(key, _REQUIRED if required else [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise SpecError(self.path(key), expected=f"tables, [[{self.path(key)}]]", given=value)
        names = tuple(known)
        return [Section(f"{self.path(key)}[{index}]", item, names) for index, item in enumerate(value)]


def _suggestion(key: str, names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "no similar key exists here"
