"""The ops of the tf.data service: they register datasets, and read what its workers make.

How the service is reached is said by what `provide_data_service` was given; see
tideflow.data_service.

Source: tensorflow/core/ops/experimental_dataset_ops.cc,
core/kernels/data/experimental/data_service_dataset_op.cc.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.to_graph import graph_of
from tideflow.ops.data.values import Iterator, as_dataset, dims_of, fail, scalar, text
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType


@dataclass(frozen=True, slots=True)
class Reading:
    """What an iterator asks of the service.

    Attributes:
      address: of the dispatcher, HOST:PORT.
      job_name: "" for a job that nobody else reads from.
      consumer_index, num_consumers: of a coordinated read; -1 where it is none.
      max_outstanding_requests: the most elements that are asked for or waiting; -1 for one for
        each worker.
      refresh_interval_s: how long until the dispatcher is asked for other workers.
      data_transfer_protocol: "" for that of the service.
      uncompress: whether compressed elements are taken apart.
    """

    address: str
    dataset_id: str
    processing_mode: pb.ProcessingModeDef
    job_name: str
    consumer_index: int
    num_consumers: int
    max_outstanding_requests: int
    refresh_interval_s: float
    data_transfer_protocol: str
    target_workers: int
    trainer_id: str
    uncompress: bool


class DataService(Protocol):
    """The way to the dispatchers and workers of the service."""

    async def register(self, address: str, request: pb.GetOrRegisterDatasetRequest) -> str:
        """Register a dataset with a dispatcher; return its id."""

    def metadata(self, address: str, dataset_id: str) -> pb.DataServiceMetadata:
        """Return what a dispatcher knows of a dataset; called in threads of users."""

    async def save(self, address: str, request: pb.SnapshotRequest) -> None:
        """Have a dispatcher's workers write a dataset to a directory."""

    def iterator(self, reading: Reading, repetition: int) -> Iterator:
        """Return an iterator over the elements of one repetition of a job."""


_provided: list[DataService] = []


def provide_data_service(service: DataService) -> None:
    """Say by what the service is reached in this process, in place of what was said before."""
    _provided[:] = [service]


def data_service() -> DataService:
    """Return by what the service is reached.

    Raises: UnimplementedError in a process that has no way to it.
    """
    if not _provided:
        raise errors.UnimplementedError("the tf.data service cannot be reached: no transport")
    return _provided[0]


# ---- registering


@op(
    """
    RegisterDatasetV2(dataset: variant, address: string, protocol: string) -> dataset_id: string
    external_state_policy: int
    element_spec: string = ''
    requested_dataset_id: string = ''
    metadata: string = ''
    """,
    shape=scalar_shape,
)
async def register_dataset_v2(
    ctx: KernelContext,
    dataset: object,
    address: Any,
    protocol: Any,
    *,
    element_spec: str,
    requested_dataset_id: str,
    metadata: str,
) -> Any:
    """Return the id under which a dispatcher knows the dataset."""
    found = await _register(
        dataset, address, protocol, element_spec, metadata, requested_dataset_id
    )
    return text(found.encode())


@op(
    """
    RegisterDataset(dataset: variant, address: string, protocol: string) -> dataset_id: int64
    external_state_policy: int
    element_spec: string = ''
    metadata: string = ''
    """,
    shape=scalar_shape,
)
async def register_dataset(
    ctx: KernelContext,
    dataset: object,
    address: Any,
    protocol: Any,
    *,
    element_spec: str,
    metadata: str,
) -> Any:
    """Return the id under which a dispatcher knows the dataset, as a number.

    Raises: UnimplementedError for an id that is none.
    """
    found = await _register(dataset, address, protocol, element_spec, metadata, "")
    try:
        return np.int64(found)
    except ValueError:
        raise errors.UnimplementedError(
            f"the dispatcher calls the dataset {found!r}, which is no number; RegisterDatasetV2 "
            "gives such ids"
        ) from None


async def _register(
    dataset: object, address: Any, protocol: Any, element_spec: str, metadata: str, wanted_id: str
) -> str:
    found = as_dataset(dataset)
    where = _address(address, protocol)
    metadata_pb = pb.DataServiceMetadata()
    try:
        metadata_pb.ParseFromString(_bytes(metadata))
    except DecodeError:
        raise fail("metadata is no serialized DataServiceMetadata") from None
    if element_spec:
        metadata_pb.element_spec = _bytes(element_spec)
    metadata_pb.cardinality = found.cardinality()
    request = pb.GetOrRegisterDatasetRequest(metadata=metadata_pb)
    graph_pb = await graph_of(found)
    await run_blocking(GRAPHS, lambda _: request.dataset.graph.CopyFrom(graph_pb))
    if wanted_id:
        request.dataset_id = wanted_id
    return await data_service().register(where, request)


def _bytes(attr: str) -> bytes:
    return attr.encode("utf-8", "surrogateescape")


def _address(address: Any, protocol: Any) -> str:
    """Return the address of a dispatcher.

    Raises: InvalidArgumentError for an empty address; UnimplementedError for another protocol.
    """
    where: str = scalar(address, "address").decode()
    how: str = scalar(protocol, "protocol").decode()
    if not where:
        raise fail("address must be non-empty.")
    if not how:
        raise fail("protocol must be non-empty.")
    if how != "grpc":
        raise errors.UnimplementedError(
            f"the tf.data service is reached by the protocol 'grpc', not by {how!r}"
        )
    return where


# ---- reading

_TARGETS = {
    "AUTO": pb.TargetWorkers.TARGET_WORKERS_AUTO,
    "ANY": pb.TargetWorkers.TARGET_WORKERS_ANY,
    "LOCAL": pb.TargetWorkers.TARGET_WORKERS_LOCAL,
}

_REFRESH_MS = 1000


_INPUTS = """
        processing_mode: string, address: string, protocol: string, job_name: string{consumers},
        max_outstanding_requests: int64, iteration_counter: resource
    )
    task_refresh_interval_hint_ms: int = -1
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    data_transfer_protocol: string = ''
    target_workers: string = 'AUTO'
"""
_CONSUMERS = ", consumer_index: int64, num_consumers: int64"
_UNCOMPRESS = """
    uncompress: bool = false
    uncompress_fn: func
"""
_CACHE = """
    cross_trainer_cache_options: string = ''
"""
_V1 = _INPUTS.format(consumers="")
_V2 = _INPUTS.format(consumers=_CONSUMERS)


@dataset_op(
    "DataServiceDataset(dataset_id: int64," + _V1 + _CACHE,
    "DataServiceDatasetV2(dataset_id: int64," + _V2 + _CACHE,
    "DataServiceDatasetV3(dataset_id: int64," + _V2 + _UNCOMPRESS + _CACHE,
    "DataServiceDatasetV4(dataset_id: string," + _V2 + _UNCOMPRESS + _CACHE,
    metadata=False,
    stateful=True,
)
def data_service_dataset(
    dataset_id: Any,
    processing_mode: bytes,
    address: Any,
    protocol: Any,
    job_name: bytes,
    max_outstanding_requests: int,
    task_refresh_interval_hint_ms: int,
    data_transfer_protocol: str,
    target_workers: str,
    cross_trainer_cache_options: str,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    consumer_index: int = -1,
    num_consumers: int = -1,
    uncompress: bool = False,
) -> Elements:
    """Return the dataset of what the workers of the service make of a registered one."""
    found_id = scalar(dataset_id, "dataset_id")
    mode = pb.ProcessingModeDef()
    cache = pb.CrossTrainerCacheOptions()
    try:
        mode.ParseFromString(processing_mode)
    except DecodeError:
        raise fail("processing_mode is no serialized ProcessingModeDef") from None
    try:
        cache.ParseFromString(_bytes(cross_trainer_cache_options))
    except DecodeError:
        raise fail("cross_trainer_cache_options is no serialized message") from None
    _check_consumers(consumer_index, num_consumers, max_outstanding_requests, job_name)
    if target_workers.upper() not in _TARGETS:
        raise fail(f"target_workers must be AUTO, ANY or LOCAL; it is {target_workers!r}")
    refresh_ms = task_refresh_interval_hint_ms
    reading = Reading(
        _address(address, protocol),
        found_id.decode() if isinstance(found_id, bytes) else str(found_id),
        mode,
        job_name.decode(),
        consumer_index,
        num_consumers,
        max_outstanding_requests,
        (_REFRESH_MS if refresh_ms <= 0 else refresh_ms) / 1000,
        data_transfer_protocol,
        _TARGETS[target_workers.upper()],
        cache.trainer_id,
        uncompress,
    )
    service = data_service()
    repetitions = itertools.count()
    return Elements(
        lambda: service.iterator(reading, next(repetitions)), shapes=dims_of(output_shapes)
    )


def _check_consumers(index: int, count: int, outstanding: int, job_name: bytes) -> None:
    if count < 0 and index < 0:
        if outstanding == 0 or outstanding < -1:
            raise fail(f"max_outstanding_requests must be positive or -1; it is {outstanding}")
        return
    if index < 0 or count < 0:
        raise fail(
            "consumer_index and num_consumers must be given both or neither; they are "
            f"{index} and {count}"
        )
    if index >= count:
        raise fail(f"consumer_index ({index}) must be less than num_consumers ({count})")
    if not job_name:
        raise fail("a coordinated read needs a job_name, by which its consumers find each other")


@op("DummyIterationCounter() -> handle: resource", shape=scalar_shape, stateful=True)
def dummy_iteration_counter(ctx: KernelContext) -> Any:
    """Return a handle that names no counter: each dataset has its own."""
    return ctx.resources.anonymous_handle(IterationCounter)


class IterationCounter:
    """Counts the repetitions of a dataset; its handles name none, as datasets count themselves."""

    type_name = "tensorflow::data::IterationCounter"
