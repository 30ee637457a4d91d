"""A cluster of tasks: who they are, their servers, masters and workers."""

from __future__ import annotations

from tideflow.cluster.cluster_spec import ClusterSpec, TaskConfig
from tideflow.cluster.server import Server
from tideflow.data_service import ServiceClient

__all__ = ["ClusterSpec", "Server", "ServiceClient", "TaskConfig"]
