"""The schema: the attributes of the data, and the cells of each. Zone: PUBLIC.

A schema is declared, never silently inferred from the data: the set of values that occur is itself sensitive. A draft
made from data (`privcube init --from`) marks its attributes as drafts, and `require_confirmed` refuses them until a
person has confirmed that what they declare is public knowledge.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, TypeVar

from privcube.errors import DraftError, Plain, SchemaError
from privcube.model.attribute import Attribute, attribute_sizes
from privcube.model.columns.where import Condition, conditions

_MOST_SHOWN: Final = 50  # attributes shown in a notebook, to keep its output short
_FEW: Final = 6  # labels of an attribute shown in a notebook, to keep its output short
_MOST_INSIDE: Final = 50  # pieces of a name that contains separators; keeps long texts from taking long

Known = TypeVar("Known")


@dataclass(frozen=True, init=False)
class Schema:
    """Attributes in a fixed order, which also determines the order of a workload's tables; and which records count.

    >>> schema = Schema.from_sizes({"sex": 2, "race": 5})
    >>> schema.names, schema.shape, schema.domain_size
    (('sex', 'race'), (2, 5), 10)
    >>> schema["race"].cells
    5
    >>> adults = Schema([Attribute("sex", values=["F", "M"])], where={"age": {"from": 18}})
    >>> [attribute.name for attribute in adults.filters]
    ['age']
    """

    attributes: tuple[Attribute, ...]
    where: tuple[Condition, ...]
    _positions: Mapping[str, int] = field(repr=False, compare=False)

    def __init__(self, attributes: Iterable[Attribute], *, where: Mapping[str, object] | None = None) -> None:
        given = tuple(attributes)
        if not given:
            raise SchemaError("schema", expected="at least one attribute", given=Plain("none"))
        positions: dict[str, int] = {}
        for position, attribute in enumerate(given):
            if not isinstance(attribute, Attribute):
                raise SchemaError("schema", expected="privcube.Attribute objects", given=attribute)
            if attribute.name in positions:
                raise SchemaError(
                    "schema", expected="distinct attribute names", given=Plain(f"{attribute.name!r} twice")
                )
            positions[attribute.name] = position
        object.__setattr__(self, "attributes", given)
        object.__setattr__(self, "_positions", positions)
        object.__setattr__(self, "where", conditions({} if where is None else where))
        _ = self.filters  # refuses conditions that no record can be asked

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> Schema:
        """A schema of attributes known only by size, with codes 0 to size-1."""
        if not isinstance(sizes, Mapping):
            raise SchemaError("sizes", expected='a mapping such as {"sex": 2}', given=sizes)
        return cls(attribute_sizes(sizes))

    @classmethod
    def from_domain_json(cls, text: str) -> Schema:
        """Read private-pgm's domain JSON, an object that maps names to sizes.

        >>> Schema.from_domain_json('{"age": 85, "sex": 2}').shape
        (85, 2)
        """
        try:
            sizes = json.loads(text, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as problem:
            if isinstance(problem, SchemaError):
                raise
            raise SchemaError("domain JSON", expected='an object such as {"age": 85}', given=text) from None
        if not isinstance(sizes, dict):
            raise SchemaError("domain JSON", expected='an object such as {"age": 85}', given=sizes)
        return cls.from_sizes(sizes)

    def to_domain_json(self) -> str:
        """Write private-pgm's domain JSON; labels, bins and levels are not part of that format.

        >>> Schema.from_sizes({"age": 85, "sex": 2}).to_domain_json()
        '{"age": 85, "sex": 2}'
        """
        return json.dumps({attribute.name: attribute.cells for attribute in self.attributes}, ensure_ascii=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names in schema order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the attributes that are no measures: what records are counted by."""
        return tuple(attribute.name for attribute in self.attributes if not attribute.is_measure)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures: what is added up."""
        return tuple(attribute.name for attribute in self.attributes if attribute.is_measure)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells each attribute has."""
        return tuple(attribute.cells for attribute in self.attributes)

    @property
    def domain_size(self) -> int:
        """The paper's N: how many combinations of cells there are, a whole number of any size."""
        return prod(self.shape)

    def position(self, name: str) -> int:
        """The position of an attribute in the schema."""
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise SchemaError("attribute", expected="a name in the schema", given=name, available=self.names) from None

    def attribute_and_level(self, text: str) -> tuple[Attribute, str | None] | None:
        """The attribute and level that `sex`, `age.stage` or "age by stage" names, or None."""
        if text in self:
            return self[text], None
        for attribute in self:
            for level in attribute.level_names:
                if text in (f"{attribute.name}.{level}", f"{attribute.name} by {level}"):
                    return attribute, level
        return None

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.position(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def filters(self) -> tuple[Attribute, ...]:
        """What can leave a record out of the release: the conditions, and attributes with a policy that drops."""
        known = {attribute.name: attribute for attribute in self.attributes}
        asked = (condition.as_attribute(known) for condition in self.where)
        return (*asked, *(attribute for attribute in self.attributes if attribute.drops))

    @property
    def drafts(self) -> tuple[str, ...]:
        """The attributes that were drafted from data and are not yet confirmed."""
        return tuple(attribute.name for attribute in self.attributes if attribute.draft)

    def confirmed(self) -> Schema:
        """The schema without draft marks, once a person has checked that every declared value is public knowledge."""
        where = {condition.name: condition.document for condition in self.where}
        return Schema((replace(attribute, draft=False) for attribute in self.attributes), where=where)

    def require_confirmed(self) -> None:
        """Refuse a schema with drafts in it.

        >>> Schema([Attribute("sex", values=["F", "M"], draft=True)]).require_confirmed()
        Traceback (most recent call last):
        ...
        privcube.errors.DraftError: schema: expected every attribute confirmed by a person (remove `draft = true` ...
        """
        if self.drafts:
            raise DraftError(
                "schema",
                expected="every attribute confirmed by a person (remove `draft = true` from the spec, or call "
                "schema.confirmed(), once its values are known to be public)",
                given=Plain("drafts of " + ", ".join(self.drafts)),
            )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(own.name)}</td><td>{own.cells:,}</td>"
            f"<td>{html.escape(', '.join(map(str, own.labels[:_FEW])))}{', ...' * (own.cells > _FEW)}</td></tr>"
            for own in self.attributes[:_MOST_SHOWN]
        )
        return (
            f"<p><b>privcube schema</b>: {len(self):,} attributes</p><table><thead><tr><th>attribute</th><th>cells</th>"
            f"<th>labels</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def parts_of(text: str, separator: str, known: Callable[[str], Known | None]) -> list[Known | str]:
    """Split a text at separators, but not inside known names; the longest known name is taken first, from the left.

    >>> parts_of("[0, 15),[15, 65), x", ",", {"[0, 15)": 1, "[15, 65)": 2}.get)
    [1, 2, 'x']
    """
    pieces, found = text.split(separator), []
    start = 0
    while start < len(pieces):
        for end in range(min(len(pieces), start + _MOST_INSIDE), start, -1):
            part = known(separator.join(pieces[start:end]).strip())
            if part is not None:
                break
        found.append(pieces[start].strip() if part is None else part)
        start = end
    return found


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    seen = dict(pairs)
    if len(seen) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise SchemaError("domain JSON", expected="distinct attribute names", given=Plain(f"{twice!r} twice"))
    return seen
