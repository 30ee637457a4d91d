"""`tf.train.Server`: one task of a cluster in this process.

    server = Server({"ps": ["localhost:2222"], "worker": ["localhost:2223"]}, "ps", 0)
    server.join()

A server is NEW, then STARTED, then STOPPED, and never goes back.
Source: tensorflow/python/training/server_lib.py; grpc_server_lib.cc (Start, Stop, Join)
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import Any, Protocol

from tideflow.cluster import local_servers
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.server_config import ServerOptions, make_server_def
from tideflow.cluster.services import MasterService
from tideflow.cluster.task_server import TaskServer
from tideflow.cluster.worker import Worker
from tideflow.ops.export import export
from tideflow.platform import waits
from tideflow.platform.settings import Settings, process_settings
from tideflow.runtime.loop import run_sync
from tideflow.wire import errors
from tideflow.wire import messages as pb


class ServerState(enum.Enum):
    """Where a server is in its life."""

    NEW = "new"
    STARTED = "started"
    STOPPED = "stopped"


class ServerRuntime(Protocol):
    """What a protocol's factory makes; used on the event loop."""

    server_pb: pb.ServerDef

    @property
    def target(self) -> str:
        """The server as clients name it."""

    @property
    def master(self) -> MasterService:
        """The master of this task."""

    @property
    def worker(self) -> Worker:
        """The worker of this task."""

    async def start(self) -> None:
        """Begin to answer."""

    async def stop(self) -> None:
        """Stop within five seconds."""


ServerFactory = Callable[[pb.ServerDef, ServerOptions], ServerRuntime]

_factories: dict[str, ServerFactory] = {}


def register_server_factory(protocol: str, factory: ServerFactory) -> None:
    """Let servers of a protocol be made by `factory(server_def, options)`.

    Raises: ValueError for a protocol that has a factory.
    """
    if protocol in _factories:
        raise ValueError(f"protocol {protocol!r} has a server factory already")
    _factories[protocol] = factory


register_server_factory("grpc", TaskServer)


@export("train.Server", "distribute.Server")
class Server:
    """A task that runs parts of graphs for sessions, and through which clients open sessions.

    Args:
      server_or_cluster_def: the cluster (a dict, ClusterSpec or ClusterDef), or a whole ServerDef.
      job_name, task_index: which task this is; may be left out where there is but one.
      protocol: "grpc" by default.
      config: default options of sessions; device_count["CPU"] is the number of CPU devices.
      start: whether to start at once.
      listen_all: listen on every interface instead of the address that the cluster names.
      session_gc_s: close sessions that no client used for so long, as those of a client that died;
        0 keeps them until they are closed, but for those whose client's connection has ended: they
        go after a day, and the ones unused for longest once there are more than 100.
      settings: of this server and the sessions on it (see `tideflow settings`); None for the
        process's.
      peer_extensions: short for settings that differ in `peer` alone.
      insecure: short for settings that differ in `insecure` alone: whether the server answers
        whoever reaches it.
      tls: the same for `tls`: a folder of certificates, or three files.
      allow_local_users: the same for `local_users`: whether it answers other users of its host.
    Raises: ValueError for a bad cluster or place in it; InvalidArgumentError for an unknown
    protocol; what `start` raises.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: pb.ConfigProto | None = None,
        start: bool = True,
        *,
        listen_all: bool = False,
        session_gc_s: float = 0.0,
        settings: Settings | None = None,
        peer_extensions: bool | None = None,
        tls: str | None = None,
        insecure: bool | None = None,
        allow_local_users: bool | None = None,
    ) -> None:
        server_pb = make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        factory = _factories.get(server_pb.protocol)
        if factory is None:
            raise errors.InvalidArgumentError(
                f"no server for protocol {server_pb.protocol!r}; there is: "
                f"{', '.join(sorted(_factories))}"
            )
        given = {
            "peer": peer_extensions,
            "tls": tls,
            "insecure": insecure,
            "local_users": allow_local_users,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if changes:
            settings = (settings or process_settings()).replace(**changes)
        options = ServerOptions(listen_all, session_gc_s, settings)
        self._runtime = factory(server_pb, options)
        self._state = ServerState.NEW
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        if start:
            self.start()

    @staticmethod
    def create_local_server(config: pb.ConfigProto | None = None, start: bool = True) -> Server:
        """Return a server that is a cluster of its own: job "localhost", on a free port."""
        return Server({"localhost": ["localhost:0"]}, config=config, start=start)

    @property
    def state(self) -> ServerState:
        """Where the server is in its life."""
        return self._state

    @property
    def server_def(self) -> pb.ServerDef:
        """What the server is."""
        return self._runtime.server_pb

    @property
    def target(self) -> str:
        """What a Session is given to use this server, `grpc://host:port`.

        Raises: FailedPreconditionError before the start when the port is still to be chosen.
        """
        target = self._runtime.target
        if target.endswith(":0"):
            raise errors.FailedPreconditionError(
                f"the server at {target} gets its port when it is started; call start() first"
            )
        return target

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The server's cluster."""
        return ClusterSpec(self.server_def.cluster)

    @property
    def master(self) -> MasterService:
        """The master, for clients in this process."""
        return self._runtime.master

    @property
    def worker(self) -> Worker:
        """The worker, for programs in this process that look into it."""
        return self._runtime.worker

    def start(self) -> None:
        """Begin to answer; nothing happens if the server is started.

        Raises: FailedPreconditionError for one that was stopped; AlreadyExistsError that names the
        address when its port is taken, after which it may be started again.
        """
        with self._lock:
            if self._state is ServerState.STARTED:
                return
            if self._state is ServerState.STOPPED:
                raise errors.FailedPreconditionError(
                    "the server was stopped and cannot be started again; make a new Server"
                )
            run_sync(self._runtime.start())
            self._state = ServerState.STARTED
            local_servers.add(self.target, self)

    def stop(self) -> None:
        """Stop: running steps fail, connections close, the port is free.  Ends within five
        seconds; a second stop does nothing."""
        with self._lock:
            was, self._state = self._state, ServerState.STOPPED
            try:
                if was is ServerState.STARTED:
                    local_servers.remove(self.target, self)
                    run_sync(self._runtime.stop())
            finally:
                self._stopped.set()

    def join(self) -> None:
        """Wait until the server has stopped, from another thread or by Ctrl-C.

        A server that was never started can afterwards not be started any more.
        """
        with self._lock:
            if self._state is ServerState.NEW:
                self._state = ServerState.STOPPED
                self._stopped.set()
        waits.until(self._stopped.wait)
