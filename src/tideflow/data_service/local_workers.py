"""The workers of the tf.data service that run in this process, by their addresses."""

from __future__ import annotations

from tideflow.data_service.worker import DataWorker
from tideflow.ops.control_flow import python_functions_of
from tideflow.wire import messages as pb

_workers: dict[str, DataWorker] = {}


def add_local_worker(address: str, worker: DataWorker) -> None:
    """Enter a worker."""
    _workers[address] = worker


def remove_local_worker(address: str) -> None:
    """Forget a worker."""
    _workers.pop(address, None)


def find_local_worker(address: str) -> DataWorker | None:
    """Return a worker, None for one of another process."""
    return _workers.get(address)


def has_local_workers() -> bool:
    """Return whether any worker runs in this process."""
    return bool(_workers)


def hold_functions(address: str, name: str, graph_pb: pb.GraphDef) -> None:
    """Have the workers of this process hold the Python functions of a dataset that was given to a
    dispatcher (see DataWorker.hold_functions)."""
    for worker in _workers.values():
        worker.hold_functions(address, name, python_functions_of(graph_pb))
