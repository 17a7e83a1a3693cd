"""How a text file is written: its characters, its separator, its decimal mark. Zone: PUBLIC."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from privcube.errors import Plain, SpecError

SEPARATORS: Final = ",;\t|"
_DECIMALS: Final = (".", ",")
_KNOWN: Final = ("utf-8", "utf-16", "latin-1", "windows-1252", "iso-8859-15", "mac-roman", "shift-jis", "gb18030")
_TRIED: Final = 'a,b;c|d\t"e"\\x41\\u0041+AGE-&\r\n'  # codecs for programs or mail make something else of it


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """How text files of a source are written; without a separator, the header tells it.

    >>> TextFile(encoding="windows-1252").encoding, TextFile(separator="tab").separator
    ('cp1252', '\\t')
    """

    encoding: str = "utf-8"
    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", _checked_encoding(self.encoding))
        if self.separator is not None:
            separator = "\t" if self.separator == "tab" else self.separator
            if not isinstance(separator, str) or len(separator) != 1 or separator not in SEPARATORS:
                known = [*",;|", "tab"]
                raise SpecError("separator", expected="one that is known", given=self.separator, available=known)
            object.__setattr__(self, "separator", separator)
        if self.decimal not in _DECIMALS:
            raise SpecError("decimal", expected="a point or a comma", given=self.decimal, available=_DECIMALS)

    @property
    def document(self) -> dict[str, str]:
        """What differs from a plain text file, as a spec writes it."""
        told = {"encoding": self.encoding, "separator": self.separator, "decimal": self.decimal}
        if self.separator == "\t":
            told["separator"] = "tab"
        plain = TextFile()
        return {key: value for key, value in told.items() if value is not None and value != getattr(plain, key)}


def _checked_encoding(encoding: object) -> str:
    """The name by which Python knows an encoding of text."""
    try:
        name = codecs.lookup(str(encoding)).name
        codecs.getincrementaldecoder(name)
        if name.startswith("utf-8"):
            return "utf-8"
        if name.startswith(("utf-16", "utf-32")) or (name != "utf-7" and _TRIED.encode().decode(name) == _TRIED):
            return name
    except (LookupError, ValueError, TypeError):
        pass
    raise SpecError(
        "encoding",
        expected="an encoding of text that Python knows",
        given=encoding if isinstance(encoding, str) else Plain("no text"),
        available=_KNOWN,
    )
