"""tf.data.experimental.service: datasets that other processes make the elements of.

Source: tensorflow/python/data/experimental/ops/data_service_ops.py.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.data.functions_api import AUTOTUNE, Dataset
from tideflow.ops.data.options_api import AutoShardPolicy, Options
from tideflow.ops.data.service import data_service
from tideflow.ops.data.spec_files import structured_value, value_of
from tideflow.ops.data.structure import flat_specs, int64
from tideflow.ops.data.structure import make as make_operation
from tideflow.ops.data.traced import Traced
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb

Transformation = Callable[[Any], Any]


@export("data.experimental.service.ShardingPolicy")
class ShardingPolicy(enum.IntEnum):
    """Say which worker of the tf.data service gives which elements.

    OFF: each gives all.  DYNAMIC: each gives the elements that nobody has taken yet.  DATA, FILE
    and FILE_OR_DATA: each gives its share, by its place in DispatcherConfig.worker_addresses.
    HINT: each gives what is left where `shard(SHARD_HINT, SHARD_HINT)` stands for its share.

    Example:
      >>> service = tf.data.experimental.service
      >>> spread = service.distribute(service.ShardingPolicy.DYNAMIC, "grpc://localhost:5000")
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


_MODES = {"parallel_epochs": ShardingPolicy.OFF, "distributed_epoch": ShardingPolicy.DYNAMIC}
_COMPRESSIONS = {
    "AUTO": pb.DataServiceMetadata.COMPRESSION_SNAPPY,
    None: pb.DataServiceMetadata.COMPRESSION_OFF,
    "SNAPPY": pb.DataServiceMetadata.COMPRESSION_FORCED_SNAPPY,
}


@export("data.experimental.service.CrossTrainerCache")
class CrossTrainerCache:
    """Say that several trainings share the elements that a job makes.

    Args:
      trainer_id: tells one training from the others, a string.
    Raises: ValueError for an empty one.
    Example:
      >>> service = tf.data.experimental.service
      >>> shared = service.distribute(
      ...     service.ShardingPolicy.OFF, "grpc://localhost:5000", job_name="epochs",
      ...     cross_trainer_cache=service.CrossTrainerCache(trainer_id="first"))
    """

    def __init__(self, trainer_id: str) -> None:
        if not trainer_id:
            raise ValueError("tf.data service cross-trainer cache requires a non-empty trainer ID.")
        self.trainer_id = trainer_id


@export("data.experimental.service.distribute")
def distribute(
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    compression: str | None = "AUTO",
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
) -> Transformation:
    """Return the transformation that has the tf.data service make the elements.

    Args:
      processing_mode: a ShardingPolicy, or "parallel_epochs" for OFF, or "distributed_epoch" for
        DYNAMIC.
      service: the dispatcher, `grpc://HOST:PORT` or `HOST:PORT`, or a pair of both parts.
      job_name: datasets with one name, of any processes, share the elements of one job; None for a
        job of its own.
      consumer_index, num_consumers: for consumers of one job that read in rounds: in each, all get
        elements of the same worker that follow on each other.  The dataset must have no end.
      max_outstanding_requests: the most elements that are asked for or waiting; None for one for
        each worker.
      data_transfer_protocol: "grpc", "local" for workers of this process, or None.
      compression: "AUTO" or "SNAPPY" for elements that travel compressed, or None.
      cross_trainer_cache: has trainings with the same job share elements: each gets all that are
        still kept when it asks.  The dataset must have no end.
      target_workers: "LOCAL" to read from workers of this process only; "ANY" or "AUTO".
    Raises: ValueError for arguments that make no sense; InvalidArgumentError, when walked over, for
      those that do not go together.
    Example:
      >>> service = tf.data.experimental.service
      >>> dispatcher = service.DispatchServer()
      >>> address = dispatcher.target.split("://")[1]
      >>> worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
      >>> squares = tf.data.Dataset.range(3).map(lambda x: x * x)
      >>> spread = squares.apply(service.distribute(service.ShardingPolicy.OFF, dispatcher.target))
      >>> sorted(int(x) for x in spread)
      [0, 1, 4]
      >>> worker.stop()
      >>> dispatcher.stop()
    """
    policy = _policy(processing_mode)
    _check_compression(compression)

    def apply(dataset: Dataset) -> Any:
        dataset_id = register_dataset(service, dataset, compression)
        return from_dataset_id(
            policy,
            service,
            dataset_id,
            dataset.element_spec,
            job_name,
            consumer_index,
            num_consumers,
            max_outstanding_requests,
            data_transfer_protocol,
            cross_trainer_cache,
            target_workers,
        )

    return apply


@export("data.experimental.service.register_dataset")
def register_dataset(
    service: str | tuple[str, str],
    dataset: Dataset,
    compression: str | None = "AUTO",
    dataset_id: str | None = None,
) -> Tensor:
    """Register a dataset with the tf.data service; return its id, a string scalar.

    Args:
      service, compression: as for `distribute`.
      dataset: variables and tables of its functions are copied as they are now; its functions must
        use no other resources.
      dataset_id: the id to register it under; None for a new one.  A dataset that has the id
        already is what is meant from then on.
    Example:
      >>> dispatcher = tf.data.experimental.service.DispatchServer()
      >>> tf.data.experimental.service.register_dataset(
      ...     dispatcher.target, tf.data.Dataset.range(3), dataset_id="three").numpy()
      b'three'
      >>> dispatcher.stop()
    """
    _check_compression(compression)
    protocol, address = _parse(service)
    metadata = pb.DataServiceMetadata(compression=_COMPRESSIONS[compression])
    if get_default_graph().is_eager:
        metadata.element_spec = structured_value(dataset.element_spec).SerializeToString()
    if compression is not None:
        dataset = _compressed(dataset)
    found: Tensor = apply_op(
        "RegisterDatasetV2",
        dataset._variant,
        convert_to_tensor(address, dtypes.string),
        convert_to_tensor(protocol, dtypes.string),
        external_state_policy=0,
        requested_dataset_id=dataset_id or "",
        metadata=metadata.SerializeToString().decode("utf-8", "surrogateescape"),
    )
    return found


def _compressed(dataset: Dataset) -> Any:
    specs = nest.flatten(dataset.element_spec)

    def compress(*parts: Any) -> Any:
        # By the specs of the dataset, which readers go by: rows of a ragged tensor may be tensors.
        leaves = zip(specs, nest.flatten(parts), strict=True)
        return apply_op(
            "CompressElement", [one for s, leaf in leaves for one in s.to_tensors(leaf)]
        )

    return dataset.map(compress, num_parallel_calls=AUTOTUNE)


@export("data.experimental.service.from_dataset_id")
def from_dataset_id(
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    dataset_id: Any,
    element_spec: Any = None,
    job_name: Any = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
) -> Any:
    """Return the dataset of what the tf.data service makes of a registered one.

    Args:
      dataset_id: what `register_dataset` gave.
      element_spec: the TypeSpecs of an element; None, in eager programs, for what was registered
        with the dataset.
      processing_mode, service, job_name, consumer_index, num_consumers, max_outstanding_requests,
        data_transfer_protocol, cross_trainer_cache, target_workers: as for `distribute`.
    Raises: ValueError for arguments that make no sense, or where the service does not know the
      element_spec.
    Example:
      >>> service = tf.data.experimental.service
      >>> dispatcher = service.DispatchServer()
      >>> address = dispatcher.target.split("://")[1]
      >>> worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
      >>> dataset_id = service.register_dataset(dispatcher.target, tf.data.Dataset.range(3))
      >>> made = service.from_dataset_id("parallel_epochs", dispatcher.target, dataset_id)
      >>> sorted(int(x) for x in made)
      [0, 1, 2]
      >>> worker.stop()
      >>> dispatcher.stop()
    """
    policy = _policy(processing_mode)
    protocol, address = _parse(service)
    if job_name is not None and not isinstance(job_name, str | Tensor):
        raise ValueError(
            "`job_name` must be a string or Tensor, but `job_name` was of type "
            f"{type(job_name)}. job_name={job_name}."
        )
    if (consumer_index is None) != (num_consumers is None):
        raise ValueError(
            "Must either set both `consumer_index` and `num_consumers`, or neither. "
            f"consumer_index={consumer_index}, num_consumers={num_consumers}"
        )
    if num_consumers is not None and job_name is None:
        raise ValueError(
            "`job_name` must be set when setting `num_consumers`. num_consumers was set to "
            f"{num_consumers}."
        )
    if not element_spec:
        element_spec = _registered_spec(address, dataset_id)
    cache = b""
    if cross_trainer_cache is not None:
        trainer_id = cross_trainer_cache.trainer_id
        cache = pb.CrossTrainerCacheOptions(trainer_id=trainer_id).SerializeToString()
    flat = flat_specs(element_spec)
    uncompress = Traced(
        lambda element: tuple(
            make_operation(
                "UncompressElement",
                [element],
                output_types=[spec.dtype for spec in flat],
                output_shapes=[spec.shape for spec in flat],
            ).outputs
        ),
        TensorSpec((), dtypes.variant),
        "DataServiceDataset_uncompress",
    )
    mode = pb.ProcessingModeDef(sharding_policy=int(policy))
    made = Dataset._make(
        "DataServiceDatasetV4",
        [
            convert_to_tensor(dataset_id, dtypes.string),
            convert_to_tensor(mode.SerializeToString(), dtypes.string),
            convert_to_tensor(address, dtypes.string),
            convert_to_tensor(protocol, dtypes.string),
            convert_to_tensor("" if job_name is None else job_name, dtypes.string),
            int64(-1 if consumer_index is None else consumer_index),
            int64(-1 if num_consumers is None else num_consumers),
            int64(-1 if max_outstanding_requests is None else max_outstanding_requests),
            apply_op("DummyIterationCounter"),
        ],
        element_spec,
        task_refresh_interval_hint_ms=-1,
        data_transfer_protocol=data_transfer_protocol or "",
        target_workers=target_workers,
        uncompress=True,
        uncompress_fn=uncompress.ref,
        cross_trainer_cache_options=cache.decode("utf-8", "surrogateescape"),
    )
    if job_name is None:
        return made
    options = Options()
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    return made.with_options(options)


def _registered_spec(address: str, dataset_id: Any) -> Any:
    """Return the element_spec with which a dataset was registered."""
    if not get_default_graph().is_eager:
        raise ValueError("In graph mode `element_spec` must be provided manually.")
    wanted = static_value(*convert_to_tensor(dataset_id).edge)
    name = wanted.item() if hasattr(wanted, "item") else wanted
    known = name.decode() if isinstance(name, bytes) else str(name)
    try:
        spec = data_service().metadata(address, known).element_spec
    except errors.NotFoundError:
        spec = b""
    if not spec:
        raise ValueError(
            f"Failed to fetch element spec for dataset id {known} from tf.data service. If the "
            "dataset was registered in graph mode or inside a tf.function, the `element_spec` must "
            "be specified as an argument to `from_dataset_id`."
        )
    return value_of(pb.StructuredValue.FromString(spec))


def _policy(processing_mode: ShardingPolicy | str) -> ShardingPolicy:
    if isinstance(processing_mode, ShardingPolicy):
        return processing_mode
    if processing_mode in _MODES:
        return _MODES[processing_mode]
    raise ValueError(
        "tf.data service processing mode should be a "
        '`tf.data.experimental.service.ShardingPolicy`, `"parallel_epochs"`, or '
        f'`"distributed_epoch"`. Got {processing_mode!r}.'
    )


def _check_compression(compression: str | None) -> None:
    if compression not in _COMPRESSIONS:
        raise ValueError(
            f"Invalid `compression` argument: {compression}. Must be one of {list(_COMPRESSIONS)}."
        )


def _parse(service: str | tuple[str, str]) -> tuple[str, str]:
    """Return the protocol and the address of a dispatcher."""
    if isinstance(service, tuple):
        return service
    if not isinstance(service, str):
        raise ValueError(
            "`service` must be a string, but `service` was of type "
            f"{type(service)}. service={service}"
        )
    if not service:
        raise ValueError("`service` must not be empty")
    parts = service.split("://")
    if len(parts) > 2:
        raise ValueError(f"Malformed `service` string has multiple '://': {service}.")
    return ("grpc", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
