"""The tf.data service: a dispatcher and workers that make the elements of datasets for others.

Start reading at `services`; `dispatcher_state` decides, `dispatcher` carries out, `worker` makes
elements, and `reader` is a client's way to them."""

from __future__ import annotations

from tideflow.data_service.client import ServiceClient
from tideflow.data_service.servers import (
    DispatcherConfig,
    DispatchServer,
    WorkerConfig,
    WorkerServer,
)

__all__ = [
    "DispatchServer",
    "DispatcherConfig",
    "ServiceClient",
    "WorkerConfig",
    "WorkerServer",
]
