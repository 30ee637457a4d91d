"""The workers of the tf.data service that run in this process, by their addresses."""

from __future__ import annotations

from tideflow.data_service.services import DataWorkerService

_workers: dict[str, DataWorkerService] = {}


def add_local_worker(address: str, worker: DataWorkerService) -> None:
    """Enter a worker."""
    _workers[address] = worker


def remove_local_worker(address: str) -> None:
    """Forget a worker."""
    _workers.pop(address, None)


def find_local_worker(address: str) -> DataWorkerService | None:
    """Return a worker, None for one of another process."""
    return _workers.get(address)


def has_local_workers() -> bool:
    """Return whether any worker runs in this process."""
    return bool(_workers)
