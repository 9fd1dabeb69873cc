"""The processes of one job: rendezvous, failure detection and launching."""

from __future__ import annotations

from braces.cluster.start import Cluster as Cluster, start as start
from braces.runtime.devices.process_agreement import agree as agree

__all__ = ["Cluster", "agree", "start"]


def __dir__() -> list[str]:
    return sorted(__all__)
