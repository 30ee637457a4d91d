"""What a server is to be: from the arguments of `tf.train.Server` to a checked ServerDef.

Source: tensorflow/python/training/server_lib.py (_make_server_def)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.platform.settings import Settings
from tideflow.wire import messages as pb


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a server is told beyond its ServerDef.

    Attributes:
      listen_all: listen on every interface, not on the address that the cluster gives the task.
      session_gc_s: its master closes sessions that nobody used for so long; 0: never.
      settings: its own; None for the process's.
    """

    listen_all: bool = False
    session_gc_s: float = 0.0
    settings: Settings | None = None


def make_server_def(
    server_or_cluster_def: Any,
    job_name: str | None,
    task_index: int | None,
    protocol: str | None,
    config: pb.ConfigProto | None,
) -> pb.ServerDef:
    """Return the ServerDef that the arguments mean; those given stand before those of a ServerDef.

    Raises: TypeError for something that is neither a ServerDef nor a cluster; ValueError for a
    malformed cluster, or a job or task that it lacks or that must be given.
    """
    name = getattr(getattr(server_or_cluster_def, "DESCRIPTOR", None), "name", "")
    if name == "ServerDef":
        server_pb = pb.ServerDef.FromString(server_or_cluster_def.SerializeToString())
    elif isinstance(server_or_cluster_def, (ClusterSpec, Mapping)) or name == "ClusterDef":
        server_pb = pb.ServerDef(cluster=ClusterSpec(server_or_cluster_def).as_cluster_def())
    else:
        raise TypeError(
            "a server is made from a cluster (a dict, ClusterSpec or ClusterDef) or a ServerDef; "
            f"found {type(server_or_cluster_def).__name__}"
        )
    cluster = ClusterSpec(server_pb.cluster)
    server_pb.job_name = job_name or server_pb.job_name or _only_job(cluster)
    if task_index is not None:
        server_pb.task_index = task_index
    elif name != "ServerDef":
        server_pb.task_index = _only_task(cluster, server_pb.job_name)
    cluster.task_address(server_pb.job_name, server_pb.task_index)
    server_pb.protocol = protocol or server_pb.protocol or "grpc"
    if config is not None:
        server_pb.default_session_config.ParseFromString(config.SerializeToString())
    return server_pb


def _only_job(cluster: ClusterSpec) -> str:
    if len(cluster.jobs) != 1:
        known = ", ".join(map(repr, cluster.jobs)) or "none"
        raise ValueError(f"say which job the server is of (job_name); the cluster has {known}")
    return cluster.jobs[0]


def _only_task(cluster: ClusterSpec, job: str) -> int:
    indices = cluster.task_indices(job)
    if len(indices) != 1:
        raise ValueError(
            f"say which task of job {job!r} the server is (task_index); it has "
            f"{', '.join(map(str, indices)) or 'none'}"
        )
    return indices[0]


def listen_address(server_pb: pb.ServerDef) -> str:
    """Return the `host:port` that a server is to listen at: its task's, or the port given."""
    address = ClusterSpec(server_pb.cluster).task_address(server_pb.job_name, server_pb.task_index)
    return with_port(address, server_pb.port) if server_pb.port else address


def with_port(address: str, port: int) -> str:
    """Return an address with another port."""
    if address.startswith("unix:"):
        return address
    return f"{address.rpartition(':')[0]}:{port}"
