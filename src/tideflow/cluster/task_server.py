"""What runs inside a server: devices, a worker, a master, and the services at one address.

Everything here is on the event loop; `tideflow.cluster.server` is the door for user threads.
"""

from __future__ import annotations

from collections.abc import Callable

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.collectives import CollectiveSteps
from tideflow.cluster.coordination import CoordinationServicer, coordination_config
from tideflow.cluster.eager import EagerWorker
from tideflow.cluster.master import Master
from tideflow.cluster.memory_limit import most_held_bytes
from tideflow.cluster.server_config import ServerOptions, listen_address, with_port
from tideflow.cluster.status import StatusPage
from tideflow.cluster.stopping import stop_in_turn
from tideflow.cluster.worker import Worker
from tideflow.platform.settings import Settings, process_settings
from tideflow.runtime.device import DeviceManager, make_devices
from tideflow.transport import Service, TransportServer, make_server, prepare
from tideflow.transport.credentials import find_files
from tideflow.wire import messages as pb
from tideflow.wire.device_name import worker_name
from tideflow.wire.room import limit_room

# A user is promised five seconds; on a busy machine the interpreter's own end takes one of them.
_STOP_S = 3.0


class TaskServer:
    """One task of a cluster.

    Args:
      server_pb: what to be (see server_config).
      options: where it listens, and how long its master keeps what nobody uses.
      devices: those of the task, where they are there already.
    """

    def __init__(
        self,
        server_pb: pb.ServerDef,
        options: ServerOptions,
        devices: DeviceManager | None = None,
    ) -> None:
        job, task = server_pb.job_name, server_pb.task_index
        config = server_pb.default_session_config
        self.server_pb = server_pb
        self.task = worker_name(job, task)
        self.address = listen_address(server_pb)
        settings = _with_own_certificate(options.settings or process_settings(), job, task)
        self.devices = devices or DeviceManager(make_devices(job, task, config, settings))
        self.worker = Worker(
            self.task,
            self.devices,
            ClusterSpec(server_pb.cluster),
            settings=settings,
            collective_leader=config.experimental.collective_group_leader,
        )
        collectives = self.worker.collectives
        self.master = Master(
            self.worker.workers,
            config,
            options.session_gc_s,
            CollectiveSteps(collectives.sequences, collectives.leader),
        )
        self.eager = EagerWorker(self.worker)
        self.coordinator = CoordinationServicer(
            self.worker.workers,
            coordination_config(server_pb, self.task),
            self.devices.client_device.incarnation,
            collectives.fail_all,
        )
        self._listen_all = options.listen_all
        self._transport: TransportServer | None = None
        self._lift_limit: Callable[[], None] = lambda: None
        self._is_stopping = False

    @property
    def target(self) -> str:
        """The server as clients name it, `grpc://host:port`."""
        return f"{self.server_pb.protocol}://{self.address}"

    async def start(self) -> None:
        """Begin to answer.

        Raises: AlreadyExistsError when the port is taken, or another error that names the address.
        """
        page = StatusPage(self.worker, self.master)
        services: list[Service] = [self.master, self.worker, self.eager, self.coordinator, page]
        peer = self.worker.peer()
        if peer is not None:
            services.append(peer)
        streams = self.worker.collectives.streams()
        if streams is not None:
            services.append(streams)
        settings = self.worker.settings
        # Beside the loop, which the other servers of the process need.
        await run_blocking(GRAPHS, lambda _: prepare(self.server_pb.protocol, settings))
        transport = make_server(
            self.server_pb.protocol,
            services,
            self.address,
            listen_all=self._listen_all,
            settings=settings,
        )
        port = await transport.start()
        self._transport = transport
        most = most_held_bytes(settings.memory)
        if most:
            self._lift_limit = limit_room(most)
        self.address = with_port(self.address, port)
        self.worker.workers.set_own_address(self.address)

    async def stop(self) -> None:
        """Answer no more, fail what runs, and let all connections go; ends within five seconds
        whatever the peers do."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._lift_limit()
        transport = self._transport
        await stop_in_turn(
            _STOP_S,
            {
                **({} if transport is None else {"the calls in flight": transport.stop}),
                "the master's sessions": self.master.close,
                "the coordination service": self.coordinator.close,
                "the eager contexts": self.eager.close,
                "the worker's sessions": self.worker.close,
            },
        )


def _with_own_certificate(settings: Settings, job: str, task: int) -> Settings:
    """Return settings whose TLS is the task's own, where they name a folder for all tasks."""
    if not settings.tls:
        return settings
    return settings.replace(tls=find_files(settings.tls, f"{job}-{task}").as_setting)
