"""How noise was added, in words, for every mechanism that a manifest names. Zone: RELEASED."""

from __future__ import annotations

from typing import Final

_DRAWN: Final = {
    "discrete Laplace": "Every count of a group received independent discrete Laplace noise of the group's scale.",
    "discrete Gaussian": "Every count of a group received independent discrete Gaussian noise of the group's variance; "
    "where rows are contrasts of many cells, the variance is multiplied by the squared length of the row.",
    "rounded Gaussian": "Every count of a group received independent Gaussian noise of the group's variance, rounded "
    "to the nearest whole number; where rows are contrasts of many cells, the variance is multiplied by the squared "
    "length of the row. Counts are whole numbers, so that rounding takes nothing from the guarantee.",
    "discrete max-norm": "The counts of a bundle of groups received joint noise, whose probability falls with the "
    "largest L1 norm among the groups of the bundle.",
    "rounded max-norm": "The counts of a rounded bundle of groups received joint noise in real numbers, whose "
    "probability falls with the largest L1 norm among the groups of the bundle; it was rounded to whole numbers, or to "
    "whole parts of a record where there are measures.",
    "rounded section": "The counts of a bundle on a section received joint noise in real numbers, whose probability "
    "falls with the largest L1 norm among its groups, with equal sums for all its groups of cells, as one record more "
    "or less changes all of these sums alike; it was rounded to whole numbers.",
    "rounded Gram": "A Gram bundle describes every record by a vector of fixed length and publishes the sum of the "
    "products of its entries; it received the difference of two random Wishart matrices, rounded to whole numbers.",
}
_SLICED: Final = (
    "If all groups of a bundle count some attributes, each cell of these received its own draw. Counts are whole "
    "numbers, so that rounding takes nothing from the guarantee."
)


def drawn_words(mechanism: str) -> str:
    """How noise was added, for every mechanism in turn."""
    names = mechanism.split(" and ")
    sentences = [_DRAWN[name] for name in names]
    if len(names) > 1 and names[0] == "discrete Laplace":
        sentences[0] = "Every count of a group outside bundles received independent discrete Laplace noise."
    if names[-1] in ("discrete max-norm", "rounded max-norm", "rounded section", "rounded Gram"):
        sentences.append(_SLICED)
    return " ".join(sentences)
