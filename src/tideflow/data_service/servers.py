"""`tf.data.experimental.service`: the servers of the tf.data service in this process.

Source: tensorflow/python/data/experimental/service/server_lib.py.
"""

from __future__ import annotations

import abc
import asyncio
import threading
from collections.abc import Sequence
from typing import NamedTuple

from tideflow.data_service.dispatcher import Dispatcher
from tideflow.data_service.journal import Journal
from tideflow.data_service.local_workers import add_local_worker, remove_local_worker
from tideflow.data_service.services import DispatcherService
from tideflow.data_service.worker import DataWorker
from tideflow.ops.export import export, export_v2
from tideflow.platform import waits
from tideflow.runtime.loop import get_loop, run_sync
from tideflow.transport import Channel, Service, TransportServer, make_channel, make_server, stub
from tideflow.wire import errors

_CHECK_MS = 10 * 60 * 1000
_IDLE_MS = 5 * 60 * 1000
_CLIENT_MS = 2 * 60 * 1000
_HEARTBEAT_MS = 30 * 1000


@export("data.experimental.service.DispatcherConfig")
class DispatcherConfig(NamedTuple):
    """What a dispatcher is to be.

    Attributes:
      port: 0 for one that is free.
      protocol: "grpc"; None for that.
      work_dir: a directory where it keeps what it knows, in fault_tolerant_mode.
      fault_tolerant_mode: whether a dispatcher that is started with the same work_dir, at the same
        port, goes on where this one ended.
      worker_addresses: the workers among which elements are shared out by their places in this
        list, as "host", "host:port" or "host:%port%".
      job_gc_check_interval_ms, job_gc_timeout_ms: how often what nobody reads is looked for, and
        how long it is kept, -1 for ever; 0 or None for 10 and 5 minutes.
      worker_timeout_ms: accepted.
      worker_max_concurrent_snapshots: how many snapshots a worker writes at once; 0 for 10.
    """

    port: int = 0
    protocol: str | None = None
    work_dir: str | None = None
    fault_tolerant_mode: bool = False
    worker_addresses: Sequence[str] | None = None
    job_gc_check_interval_ms: int | None = None
    job_gc_timeout_ms: int | None = None
    worker_timeout_ms: int | None = None
    worker_max_concurrent_snapshots: int = 0


@export("data.experimental.service.WorkerConfig")
class WorkerConfig(NamedTuple):
    """What a worker is to be.

    Attributes:
      dispatcher_address: HOST:PORT of its dispatcher.
      worker_address: where clients find it; "%port%" stands for the port that it gets.
      port: 0 for one that is free.
      protocol: "grpc"; None for that.
      heartbeat_interval_ms: how often it asks for tasks; 0 or None for half a minute.
      dispatcher_timeout_ms: accepted; the dispatcher is waited for as long as it takes.
      data_transfer_protocol: "grpc"; None for that.
      data_transfer_address: accepted; elements are given at the worker's own address.
    """

    dispatcher_address: str
    worker_address: str | None = None
    port: int = 0
    protocol: str | None = None
    heartbeat_interval_ms: int | None = None
    dispatcher_timeout_ms: int | None = None
    data_transfer_protocol: str | None = None
    data_transfer_address: str | None = None


class _Server(abc.ABC):
    """One service at one port, from start to stop."""

    def __init__(self, port: int, protocol: str | None) -> None:
        if protocol not in (None, "grpc"):
            raise errors.UnimplementedError(
                f"a server of the tf.data service speaks 'grpc', not {protocol!r}"
            )
        self._wanted_port = port
        self._port = 0
        self._transport: TransportServer | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    async def _listen(self, services: list[Service]) -> int:
        transport = make_server("grpc", services, f"localhost:{self._wanted_port}")
        self._port = await transport.start()
        self._transport = transport
        return self._port

    @abc.abstractmethod
    async def _open(self) -> None:
        """Make and start what answers."""

    @abc.abstractmethod
    async def _close(self) -> None:
        """Stop what answers."""

    def start(self) -> None:
        """Begin to answer; nothing happens if it has begun.

        Raises: FailedPreconditionError for a server that was stopped; AlreadyExistsError for a port
        that is taken.
        """
        with self._lock:
            if self._stopped.is_set():
                raise errors.FailedPreconditionError(
                    "Server cannot be started after it has been stopped"
                )
            if self._transport is None:
                run_sync(self._open())

    def join(self) -> None:
        """Wait until the server has stopped, from another thread or by Ctrl-C."""
        waits.until(self._stopped.wait)

    def stop(self) -> None:
        """Answer no more; a second stop does nothing."""
        with self._lock:
            try:
                if self._transport is not None:
                    run_sync(self._close())
            finally:
                self._transport = None
                self._stopped.set()

    @property
    def _address(self) -> str:
        return f"localhost:{self._port}"

    def __del__(self) -> None:
        # A finaliser must not wait.
        if getattr(self, "_transport", None) is not None:
            asyncio.run_coroutine_threadsafe(self._close(), get_loop())


@export_v2("data.experimental.service.DispatchServer")
class DispatchServer(_Server):
    """The dispatcher of a tf.data service, in this process.

    Workers register with it, and datasets that are distributed name it.

    Args:
      config: what it is to be; None for a free port.
      start: whether it begins to answer at once.
    Raises: ValueError for fault_tolerant_mode without a work_dir.
    Example:
      >>> service = tf.data.experimental.service
      >>> dispatcher = service.DispatchServer()
      >>> address = dispatcher.target.split("://")[1]
      >>> worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
      >>> dataset = tf.data.Dataset.range(3).apply(
      ...     service.distribute("distributed_epoch", dispatcher.target)
      ... )
      >>> sorted(int(x) for x in dataset)
      [0, 1, 2]
      >>> worker.stop()
      >>> dispatcher.stop()
    """

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True) -> None:
        config = config or DispatcherConfig()
        if config.fault_tolerant_mode and not config.work_dir:
            raise ValueError(
                "Cannot enable fault tolerant mode without configuring a work dir. Make sure to "
                "set `work_dir` in the `config` object passed to `DispatcherServer`."
            )
        super().__init__(config.port, config.protocol)
        self._config = config
        self._dispatcher: Dispatcher | None = None
        if start:
            self.start()

    @property
    def target(self) -> str:
        """The dispatcher as `distribute` takes it, `grpc://localhost:PORT`."""
        return f"grpc://{self._address}"

    def _num_workers(self) -> int:
        return 0 if self._dispatcher is None else self._dispatcher.worker_count

    async def _open(self) -> None:
        config = self._config
        dispatcher = Dispatcher(
            config.worker_addresses or (),
            (config.job_gc_check_interval_ms or _CHECK_MS) / 1000,
            (config.job_gc_timeout_ms or _IDLE_MS) / 1000,
            _CLIENT_MS / 1000,
            Journal(config.work_dir) if config.fault_tolerant_mode and config.work_dir else None,
            config.worker_max_concurrent_snapshots,
        )
        await dispatcher.resume()
        await self._listen([dispatcher])
        dispatcher.start()
        self._dispatcher = dispatcher

    async def _close(self) -> None:
        assert self._transport is not None
        await self._transport.stop()
        assert self._dispatcher is not None
        await self._dispatcher.close()


@export_v2("data.experimental.service.WorkerServer")
class WorkerServer(_Server):
    """A worker of a tf.data service, in this process.

    Args:
      config: what it is to be.
      start: whether it registers with its dispatcher, once that is there, and begins to answer.
    Raises: ValueError without a dispatcher's address; UnimplementedError for another protocol.
    """

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        if config.dispatcher_address is None:
            raise ValueError(
                "Must specify a `dispatcher_address` in the `config` passed to `WorkerServer`."
            )
        if config.data_transfer_protocol not in (None, "grpc"):
            raise errors.UnimplementedError(
                "a worker of the tf.data service gives elements by 'grpc', not by "
                f"{config.data_transfer_protocol!r}"
            )
        super().__init__(config.port, config.protocol)
        self._config = config
        self._channel: Channel | None = None
        self._worker: DataWorker | None = None
        self._known_as = ""
        if start:
            self.start()

    async def _open(self) -> None:
        config = self._config
        channel = self._channel = make_channel(config.dispatcher_address)
        heartbeat_s = (config.heartbeat_interval_ms or _HEARTBEAT_MS) / 1000
        worker = DataWorker(stub(DispatcherService, channel), (), heartbeat_s)
        port = await self._listen([worker])
        self._worker = worker
        self._known_as = (config.worker_address or "localhost:%port%").replace("%port%", str(port))
        add_local_worker(self._known_as, worker)
        await worker.start(self._known_as)

    async def _close(self) -> None:
        remove_local_worker(self._known_as)
        if self._worker is not None:
            await self._worker.close()
        assert self._transport is not None
        await self._transport.stop()
        if self._channel is not None:
            await self._channel.close()

    def _num_tasks(self) -> int:
        return 0 if self._worker is None else self._worker.task_count
