"""Operations and functions on the tasks of a cluster, called from an eager client."""

from __future__ import annotations

from tideflow.eager.remote.cluster import Cluster
from tideflow.eager.remote.tensor import RemoteTensor

__all__ = [
    "Cluster",
    "RemoteTensor",
]
