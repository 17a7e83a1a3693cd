"""What every export says about the release as a whole: source, guarantee, how to read the numbers. Zone: RELEASED."""

from __future__ import annotations

from privcube.released.artifact.manifest import CONFIDENCE
from privcube.released.artifact.statements import protected_unit, stated_budget
from privcube.released.presentation.numbers import percent_of_error as percent
from privcube.released.release import Release

_ABOUT = {
    "description": "Description",
    "publisher": "Publisher",
    "contact": "Contact",
    "period": "Period",
    "licence": "Licence",
    "unit": "Unit of count",
}


def title_of(release: Release) -> str:
    """The title of a release, or a plain one."""
    return release.words.title or "Tables with a differential-privacy guarantee"


def about(release: Release) -> dict[str, str]:
    """What the publisher says, by what it is about."""
    said = release.words.about
    return {title: said[key] for key, title in _ABOUT.items() if key in said}


def notes(release: Release) -> list[str]:
    """How to read the numbers, and what they promise."""
    guarantee, sure = release.plan.guarantee, f"{CONFIDENCE:.0%}"
    return [
        "The numbers have noise added to them, to protect those they are about. Each comes with its standard error, "
        f"and with an interval that contains the true number with a probability of {sure}. Columns called "
        '"all at once" have intervals that contain all true numbers of a table together with that probability.',
        f'A number is called "uncertain" if its standard error is above {percent(release.words)} of it, and "holds '
        'zero" if zero lies in its interval. Negative counts are small counts with noise; they are kept so that sums '
        "are right on average. Rounded numbers may not add up exactly.",
        protected_unit(guarantee),
        stated_budget(guarantee),
        f"Plan {release.plan.digest}.",
    ]
