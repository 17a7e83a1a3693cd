"""How a text file is written: its characters, its separator, its decimal mark. Zone: PUBLIC."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from privcube.errors import Plain, SpecError

SEPARATORS: Final = ",;\t|"
_DECIMALS: Final = (".", ",")
_WIDE: Final = ("utf-8", "utf-16")
_KNOWN: Final = ("utf-8", "utf-16", "latin-1", "windows-1252", "iso-8859-15", "mac-roman")
_NAMED: Final = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """How text files of a source are written; without a separator, the header tells it.

    >>> TextFile(encoding="cp1252").encoding, TextFile(separator="tab").separator
    ('cp1252', '\\t')
    """

    encoding: str = "utf-8"
    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", _checked_encoding(self.encoding))
        if self.separator is not None:
            separator = _NAMED.get(self.separator, self.separator)
            if separator not in tuple(SEPARATORS):
                raise SpecError(
                    "separator", expected="one that is known", given=self.separator, available=[*",;|", "tab"]
                )
            object.__setattr__(self, "separator", separator)
        if self.decimal not in _DECIMALS:
            raise SpecError("decimal", expected="a point or a comma", given=self.decimal, available=_DECIMALS)
        if self.decimal == self.separator:
            raise SpecError("decimal", expected="another sign than the separator", given=self.decimal)

    @property
    def document(self) -> dict[str, str]:
        """What differs from a plain text file, as a spec writes it."""
        plain = TextFile()
        separator = "tab" if self.separator == "\t" else self.separator
        told = {"encoding": self.encoding, "separator": separator, "decimal": self.decimal}
        return {key: value for key, value in told.items() if value is not None and value != getattr(plain, key)}

    @property
    def upper_half(self) -> str:
        """What the bytes 128 to 255 stand for, where one byte is one character; empty for UTF-8 and UTF-16.

        A byte that stands for nothing stays what Latin-1 makes of it, a control character, which no value has.

        >>> TextFile(encoding="windows-1252").upper_half[0], len(TextFile(encoding="iso-8859-2").upper_half)
        ('€', 128)
        """
        return "" if self.encoding in _WIDE else _upper_half(self.encoding)


def _upper_half(encoding: str) -> str:
    return "".join(
        char if (char := bytes([byte]).decode(encoding, errors="replace")) != "\ufffd" else chr(byte)
        for byte in range(128, 256)
    )


def _checked_encoding(encoding: object) -> str:
    """The name of an encoding that can be read: UTF-8, UTF-16, or one byte per character with ASCII below 128."""
    try:
        name = codecs.lookup(str(encoding)).name
        if name in ("utf-8", "utf-8-sig"):
            return "utf-8"
        if name == "utf-16":
            return name
        below = bytes(range(128)) + rb"\x41\u0041"  # what some codecs for programs take for other letters
        ascii_below = below.decode(name) == "".join(map(chr, below))
        if ascii_below and len(_upper_half(name)) == 128 and len(bytes(range(160, 255)).decode(name, "replace")) == 95:
            return name
    except (LookupError, ValueError, TypeError):
        pass
    raise SpecError(
        "encoding",
        expected="UTF-8, UTF-16 or an encoding with one byte per character (convert others to UTF-8, as by iconv)",
        given=encoding if isinstance(encoding, str) else Plain("no text"),
        available=_KNOWN,
    )
