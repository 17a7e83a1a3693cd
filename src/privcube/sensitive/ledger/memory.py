"""A ledger that lives as long as the process: for notebooks and tests. Zone: SENSITIVE."""

from __future__ import annotations

from fractions import Fraction
from threading import Lock

from privcube.model.privacy.composition import remaining
from privcube.model.privacy.guarantee import Guarantee


class MemoryLedger:
    """Releases under one total, in exact fractions; a release that does not fit is refused and changes nothing."""

    def __init__(self, total: Guarantee) -> None:
        self._total = total
        self._charges: list[tuple[str, Guarantee]] = []
        self._deciding = Lock()  # two threads must not both decide on the same charges

    @property
    def remaining(self) -> Fraction:
        """What is left, in the account with the largest part left (`privcube.model.privacy.composition`)."""
        return remaining(self._total, [guarantee for _, guarantee in self._charges])

    def charge(self, digest: str, guarantee: Guarantee) -> None:
        """Take a release out of the total."""
        with self._deciding:
            self.afford(digest, guarantee)
            self._charges.append((digest, guarantee))

    def afford(self, digest: str, guarantee: Guarantee) -> None:
        """Refuse what `charge` would refuse by now; nothing changes."""
        remaining(self._total, [*(spent for _, spent in self._charges), guarantee])
