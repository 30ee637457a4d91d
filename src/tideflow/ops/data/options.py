"""What is said about datasets: options, hints, and checks of how they are made.

Optimizers and models change how fast a dataset is, never its elements, so they pass it on.

Source: tensorflow/core/kernels/data/{options,optimize,model,rewrite}_dataset_op.cc,
kernels/data/experimental/{auto_shard,assert_cardinality,compute_batch_size,...}_op.cc.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.shard_hints import with_shards
from tideflow.ops.data.transformations import sharded
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    as_dataset,
    fail,
    text,
)
from tideflow.wire import errors
from tideflow.wire.handles import Variant

# Policies of auto-sharding; the others shard what the dataset gives, or files.
_SHARD_OFF = -1
_SHARD_HINT = 3


@dataset_op(
    """
    ModelDataset(input_dataset: variant)
    algorithm: int = 0
    cpu_budget: int = 0
    ram_budget: int = 0
    """,
    """
    FinalizeDataset(input_dataset: variant)
    has_captured_ref: bool = false
    """,
    "NonSerializableDataset(input_dataset: variant)",
    same_elements=True,
    metadata=False,
)
def passed_on(input_dataset: Dataset) -> Elements:
    """Return the same elements."""
    return Elements()


@dataset_op(
    "AssertNextDataset(input_dataset: variant, transformations: string)",
    "AssertPrevDataset(input_dataset: variant, transformations: string)",
    """
    OptimizeDataset(input_dataset: variant, optimizations: string)
    optimization_configs: list(string) = []
    """,
    """
    OptimizeDatasetV2(
        input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string,
        optimizations_default: string
    )
    optimization_configs: list(string) = []
    """,
    same_elements=True,
    metadata=False,
)
def passed_on_with_names(
    input_dataset: Dataset,
    transformations: Any = (),
    optimizations: Any = (),
    optimizations_enabled: Any = (),
    optimizations_disabled: Any = (),
    optimizations_default: Any = (),
) -> Elements:
    """Return the same elements; how they are made is the runtime's business.

    Raises: InvalidArgumentError for names that are no vector.
    """
    for what, names in {
        "transformations": transformations,
        "optimizations": optimizations,
        "optimizations_enabled": optimizations_enabled,
        "optimizations_disabled": optimizations_disabled,
        "optimizations_default": optimizations_default,
    }.items():
        _check_rank(names, 1, what)
    return Elements()


@dataset_op(
    "RewriteDataset(input_dataset: variant, rewrite_name: string)",
    same_elements=True,
    metadata=False,
)
def passed_on_with_name(input_dataset: Dataset, rewrite_name: Any) -> Elements:
    """Return the same elements.  Raises: InvalidArgumentError for a name that is no scalar."""
    _check_rank(rewrite_name, 0, "rewrite_name")
    return Elements()


def _check_rank(value: Any, rank: int, what: str) -> None:
    if np.ndim(value) != rank:
        wanted = "a vector" if rank else "a scalar"
        raise fail(f"{what} must be {wanted}; it has rank {np.ndim(value)}")


@dataset_op(
    "MaxIntraOpParallelismDataset(input_dataset: variant, max_intra_op_parallelism: int64)",
    "PrivateThreadPoolDataset(input_dataset: variant, num_threads: int64)",
    same_elements=True,
    metadata=False,
)
def passed_on_with_limit(
    input_dataset: Dataset, max_intra_op_parallelism: int = 0, num_threads: int = 0
) -> Elements:
    """Return the same elements; a limit of 0 leaves it to the runtime."""
    if max_intra_op_parallelism < 0:
        raise fail(f"max_intra_op_parallelism must be >= 0; it is {max_intra_op_parallelism}")
    if num_threads < 0:
        raise fail(f"num_threads must be >= 0; it is {num_threads}")
    return Elements()


for _name in (
    "AssertNextDataset",
    "MaxIntraOpParallelismDataset",
    "NonSerializableDataset",
    "PrivateThreadPoolDataset",
):
    declare_like(f"Experimental{_name}", _name)


class ThreadPool:
    """What a handle of threads names; datasets share the threads of the process all the same."""

    type_name: ClassVar[str] = "tensorflow::data::ThreadPoolResource"


@op(
    """
    ThreadPoolHandle() -> handle: resource
    num_threads: int
    max_intra_op_parallelism: int = 1
    display_name: string
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def thread_pool_handle(
    ctx: KernelContext, *, num_threads: int, container: str, shared_name: str
) -> Any:
    """Return the handle of threads that datasets may be given; 0 leaves their number to us."""
    if num_threads < 0:
        raise fail(f"num_threads must be >= 0; it is {num_threads}")
    name = shared_name or ctx.node.name
    ctx.resources.lookup_or_create(container, name, ThreadPool, ThreadPool)
    return ctx.resources.handle(container, name, ThreadPool)


@dataset_op(
    "ThreadPoolDataset(input_dataset: variant, thread_pool: resource)",
    same_elements=True,
    metadata=False,
    stateful=True,
)
def thread_pool_dataset(ctx: KernelContext, input_dataset: Dataset, thread_pool: Any) -> Elements:
    """Return the same elements."""
    ctx.resources.lookup(thread_pool, ThreadPool)
    return Elements()


for _name in ("ThreadPoolHandle", "ThreadPoolDataset"):
    declare_like(f"Experimental{_name}", _name)


@dataset_op(
    """
    OptionsDataset(input_dataset: variant)
    serialized_options: string
    """,
    same_elements=True,
    direct=True,
)
def options_dataset(input_dataset: Dataset, serialized_options: str) -> Elements:
    """Return the same elements, with options."""
    return Elements(options=serialized_options.encode("utf-8", "surrogateescape"))


def _options(dataset: Dataset) -> bytes:
    """Return all options of a dataset; serialized messages merge by concatenation."""
    return b"".join(_options(source) for source in dataset.inputs) + dataset.options


@op(
    """
    GetOptions(input_dataset: variant) -> serialized_options: string
    """,
    shape=scalar_shape,
)
def get_options(ctx: KernelContext, input_dataset: object) -> Any:
    """Return the options of a dataset as a message."""
    return text(_options(as_dataset(input_dataset)))


class Wrapped:
    """A dataset that WrapDatasetVariant was given."""

    __slots__ = ("dataset",)

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def to_variant(self) -> Variant:
        """Refuse to travel.  Raises: UnimplementedError."""
        return self.dataset.to_variant()


@op(
    """
    WrapDatasetVariant(input_handle: variant) -> output_handle: variant
    """,
    shape=scalar_shape,
)
def wrap_dataset_variant(ctx: KernelContext, input_handle: object) -> Any:
    """Return a dataset as a value that is none, so that nothing takes it for one on its way."""
    return Wrapped(as_dataset(input_handle))


@op(
    """
    UnwrapDatasetVariant(input_handle: variant) -> output_handle: variant
    """,
    shape=scalar_shape,
)
def unwrap_dataset_variant(ctx: KernelContext, input_handle: object) -> Any:
    """Return the dataset that was wrapped.

    Raises: InvalidArgumentError for anything that is no wrapped dataset.
    """
    if isinstance(input_handle, np.ndarray) and input_handle.size == 1:
        input_handle = input_handle.item()
    if not isinstance(input_handle, Wrapped):
        raise fail("the input is no wrapped dataset; WrapDatasetVariant makes one")
    return input_handle.dataset


@dataset_op(
    """
    AutoShardDataset(input_dataset: variant, num_workers: int64, index: int64)
    auto_shard_policy: int = 0
    num_replicas: int = 0
    """,
    same_elements=True,
    metadata=False,
)
def auto_shard_dataset(
    input_dataset: Dataset, num_workers: int, index: int, auto_shard_policy: int
) -> Elements:
    """Return one worker's part of the elements, every num_workers-th one.

    Where TensorFlow would share out a dataset's files, the elements are shared out; by the hint,
    datasets say themselves where they are cut.
    """
    if num_workers <= 0 or not 0 <= index < num_workers:
        raise fail(
            "index must be >= 0 and < num_workers, which must be > 0; they are "
            f"{index} and {num_workers}"
        )
    if auto_shard_policy == _SHARD_HINT:
        found = with_shards(input_dataset, num_workers, index)
        return Elements(found.iterator, found.cardinality)
    if num_workers == 1 or auto_shard_policy == _SHARD_OFF:
        return Elements()
    return sharded(input_dataset, num_workers, index, require_non_empty=True)


declare_like("ExperimentalAutoShardDataset", "AutoShardDataset", without=("num_replicas",))


# ---- sizes


@op(
    """
    DatasetCardinality(input_dataset: variant) -> cardinality: int64
    cardinality_options: string = ''
    """,
    shape=scalar_shape,
)
def dataset_cardinality(ctx: KernelContext, input_dataset: object) -> Any:
    """Return how many elements there are; -1 for no end, -2 where only running tells."""
    return np.int64(as_dataset(input_dataset).cardinality())


declare_like(
    "ExperimentalDatasetCardinality", "DatasetCardinality", without=("cardinality_options",)
)


class _Counted:
    __slots__ = ("_count", "_expected", "_source")

    def __init__(self, source: Iterator, expected: int) -> None:
        self._source = source
        self._expected = expected
        self._count = 0

    async def next(self) -> Element | None:
        element = await self._source.next()
        if element is None:
            if self._count != self._expected and self._expected != UNKNOWN:
                raise self._wrong(str(self._count))
            return None
        self._count += 1
        if self._count > self._expected and self._expected not in (INFINITE, UNKNOWN):
            raise self._wrong(f"at least {self._count}")
        return element

    def _wrong(self, found: str) -> errors.OpError:
        expected = "an infinite number of" if self._expected == INFINITE else str(self._expected)
        return errors.FailedPreconditionError(
            f"Input dataset was expected to contain {expected} elements but contained {found} "
            "elements."
        )


@dataset_op(
    "AssertCardinalityDataset(input_dataset: variant, cardinality: int64)",
    same_elements=True,
    metadata=False,
)
def assert_cardinality_dataset(input_dataset: Dataset, cardinality: int) -> Elements:
    """Return the elements, which must be as many as said."""
    return Elements(lambda: _Counted(input_dataset.iterator(), cardinality), cardinality)


@op(
    """
    ComputeBatchSize(input_dataset: variant) -> batch_size: int64
    """,
    shape=scalar_shape,
)
def compute_batch_size(ctx: KernelContext, input_dataset: object) -> Any:
    """Return the size of a dataset's batches; -1 where it cannot be told."""
    return np.int64(as_dataset(input_dataset).batch_size or -1)
