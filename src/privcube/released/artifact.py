"""The artifact: a folder that can be published as it is. Zone: RELEASED."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privcube.released.release import Release


def save(release: Release, folder: str | Path) -> None:
    """Write the artifact of a release."""
    raise NotImplementedError


def open_release(folder: str | Path) -> Release:
    """Read an artifact."""
    raise NotImplementedError
