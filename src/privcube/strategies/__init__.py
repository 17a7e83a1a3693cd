"""One file per strategy: each turns a workload into query groups and a first recovery (step 1). Zone: PUBLIC."""

from __future__ import annotations

from typing import Final, Protocol

from privcube.model.options import Strategy
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies import base_counts, clusters, fourier, hierarchy, marginals, matrix, residual, sketch, wavelet
from privcube.strategies.proposal import Proposal


class StrategyModule(Protocol):
    """What the module of a strategy defines."""

    NAME: Strategy
    SYMBOL: str

    def propose(self, workload: Workload, guarantee: Guarantee) -> Proposal:
        """The groups to measure and the recovery of step 2."""


STRATEGIES: Final[dict[Strategy, StrategyModule]] = {
    module.NAME: module
    for module in (base_counts, marginals, fourier, clusters, hierarchy, wavelet, residual, sketch, matrix)
}
