"""What is said about datasets: options, hints, and checks of how they are made.

Optimizers and models change how fast a dataset is, never its elements, so they pass it on.

Source: tensorflow/core/kernels/data/{options,optimize,model,rewrite}_dataset_op.cc,
kernels/data/experimental/{auto_shard,assert_cardinality,compute_batch_size,...}_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data.transformations import sharded
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    as_dataset,
    fail,
    scalar,
    text,
)
from tideflow.wire import errors
from tideflow.wire.handles import Variant

# Policies of auto-sharding; the others shard what the dataset gives, or files.
_SHARD_OFF = -1
_SHARD_HINT = 3


@op(
    """
    ModelDataset(input_dataset: variant) -> handle: variant
    algorithm: int = 0
    cpu_budget: int = 0
    ram_budget: int = 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
)
@op(
    """
    FinalizeDataset(input_dataset: variant) -> handle: variant
    has_captured_ref: bool = false
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
)
@op(
    """
    NonSerializableDataset(input_dataset: variant) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
)
def passed_on(ctx: Any, input_dataset: Any) -> Any:
    """Return the same elements."""
    return as_dataset(input_dataset).like("Passed")


declare_like("ExperimentalNonSerializableDataset", "NonSerializableDataset")


@op(
    """
    OptimizeDataset(input_dataset: variant, optimizations: string) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    optimization_configs: list(string) = []
    """,
    shape=scalar_shape,
)
def passed_on_with_names(ctx: Any, input_dataset: Any, names: Any) -> Any:
    """Return the same elements; how they are made is the runtime's business.

    Raises: InvalidArgumentError for names that are no vector.
    """
    _check_rank(names, 1, "what names transformations")
    return as_dataset(input_dataset).like("Passed")


def passed_on_with_name(ctx: Any, input_dataset: Any, name: Any) -> Any:
    """Return the same elements.  Raises: InvalidArgumentError for a name that is no scalar."""
    _check_rank(name, 0, "the name")
    return as_dataset(input_dataset).like("Passed")


def _check_rank(value: Any, rank: int, what: str) -> None:
    if np.ndim(value) != rank:
        wanted = "a vector" if rank else "a scalar"
        raise fail(f"{what} must be {wanted}; it has rank {np.ndim(value)}")


# Further ops that pass elements on, with what each is told.
_HINTS: list[tuple[str, str, Callable[..., Any]]] = [
    ("AssertNextDataset", "transformations: string", passed_on_with_names),
    ("AssertPrevDataset", "transformations: string", passed_on_with_names),
    ("BytesProducedStatsDataset", "tag: string", passed_on_with_name),
    ("LatencyStatsDataset", "tag: string", passed_on_with_name),
    ("RewriteDataset", "rewrite_name: string", passed_on_with_name),
]

for _name, _hint, _kernel in _HINTS:
    op(
        f"""
        {_name}(input_dataset: variant, {_hint}) -> handle: variant
        output_types: list(type) >= 1
        output_shapes: list(shape) >= 1
        """,
        shape=scalar_shape,
    )(_kernel)
    if _name not in ("AssertPrevDataset", "RewriteDataset"):
        declare_like(f"Experimental{_name}", _name)


def _passed_on_within(what: str) -> Callable[..., Any]:
    def kernel(ctx: Any, input_dataset: Any, limit: Any) -> Any:
        """Return the same elements; a limit of 0 leaves it to the runtime."""
        if (found := int(scalar(limit, what))) < 0:
            raise fail(f"{what} must be >= 0; it is {found}")
        return as_dataset(input_dataset).like("Passed")

    return kernel


for _name, _limit in (
    ("MaxIntraOpParallelismDataset", "max_intra_op_parallelism"),
    ("PrivateThreadPoolDataset", "num_threads"),
):
    op(
        f"""
        {_name}(input_dataset: variant, {_limit}: int64) -> handle: variant
        output_types: list(type) >= 1
        output_shapes: list(shape) >= 1
        """,
        shape=scalar_shape,
    )(_passed_on_within(_limit))
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
def thread_pool_handle(ctx: Any, *, num_threads: int, container: str, shared_name: str) -> Any:
    """Return the handle of threads that datasets may be given; 0 leaves their number to us."""
    if num_threads < 0:
        raise fail(f"num_threads must be >= 0; it is {num_threads}")
    name = shared_name or ctx.node.name
    ctx.resources.lookup_or_create(container, name, ThreadPool, ThreadPool)
    return ctx.resources.handle(container, name, ThreadPool)


@op(
    """
    ThreadPoolDataset(input_dataset: variant, thread_pool: resource) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
    stateful=True,
)
def thread_pool_dataset(ctx: Any, input_dataset: Any, thread_pool: Any) -> Any:
    """Return the same elements."""
    ctx.resources.lookup(thread_pool, ThreadPool)
    return as_dataset(input_dataset).like("Passed")


for _name in ("ThreadPoolHandle", "ThreadPoolDataset"):
    declare_like(f"Experimental{_name}", _name)


@op(
    """
    OptimizeDatasetV2(
        input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string,
        optimizations_default: string
    ) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    optimization_configs: list(string) = []
    """,
    shape=scalar_shape,
)
def optimize_dataset_v2(
    ctx: Any, input_dataset: Any, enabled: Any, disabled: Any, default: Any
) -> Any:
    """Return the same elements."""
    named = {"enabled": enabled, "disabled": disabled, "default": default}
    for what, names in named.items():
        _check_rank(names, 1, f"optimizations_{what}")
    return as_dataset(input_dataset).like("Passed")


@op(
    """
    OptionsDataset(input_dataset: variant) -> handle: variant
    serialized_options: string
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def options_dataset(ctx: Any, input_dataset: Any, *, serialized_options: str) -> Any:
    """Return the same elements, with options."""
    options = serialized_options.encode("utf-8", "surrogateescape")
    return as_dataset(input_dataset).like("Options", options=options)


def _options(dataset: Dataset) -> bytes:
    """Return all options of a dataset; serialized messages merge by concatenation."""
    return b"".join(_options(source) for source in dataset.inputs) + dataset.options


@op(
    """
    GetOptions(input_dataset: variant) -> serialized_options: string
    """,
    shape=scalar_shape,
)
def get_options(ctx: Any, input_dataset: Any) -> Any:
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
def wrap_dataset_variant(ctx: Any, input_handle: Any) -> Any:
    """Return a dataset as a value that is none, so that nothing takes it for one on its way."""
    return Wrapped(as_dataset(input_handle))


@op(
    """
    UnwrapDatasetVariant(input_handle: variant) -> output_handle: variant
    """,
    shape=scalar_shape,
)
def unwrap_dataset_variant(ctx: Any, input_handle: Any) -> Any:
    """Return the dataset that was wrapped.

    Raises: InvalidArgumentError for anything that is no wrapped dataset.
    """
    if isinstance(input_handle, np.ndarray) and input_handle.size == 1:
        input_handle = input_handle.item()
    if not isinstance(input_handle, Wrapped):
        raise fail("the input is no wrapped dataset; WrapDatasetVariant makes one")
    return input_handle.dataset


@op(
    """
    AutoShardDataset(input_dataset: variant, num_workers: int64, index: int64) -> handle: variant
    auto_shard_policy: int = 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    num_replicas: int = 0
    """,
    shape=scalar_shape,
)
def auto_shard_dataset(
    ctx: Any, input_dataset: Any, num_workers: Any, index: Any, *, auto_shard_policy: int
) -> Any:
    """Return one worker's part of the elements, every num_workers-th one.

    Where TensorFlow would share out a dataset's files, the elements are shared out.
    """
    source = as_dataset(input_dataset)
    count, own = int(scalar(num_workers, "num_workers")), int(scalar(index, "index"))
    if count <= 0 or not 0 <= own < count:
        raise fail(
            f"index must be >= 0 and < num_workers, which must be > 0; they are {own} and {count}"
        )
    if count == 1 or auto_shard_policy in (_SHARD_OFF, _SHARD_HINT):
        return source.like("AutoShard")
    return sharded(source, count, own, require_non_empty=True)


declare_like("ExperimentalAutoShardDataset", "AutoShardDataset", without=("num_replicas",))


# ---- sizes


@op(
    """
    DatasetCardinality(input_dataset: variant) -> cardinality: int64
    cardinality_options: string = ''
    """,
    shape=scalar_shape,
)
def dataset_cardinality(ctx: Any, input_dataset: Any) -> Any:
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


@op(
    """
    AssertCardinalityDataset(input_dataset: variant, cardinality: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
)
def assert_cardinality_dataset(ctx: Any, input_dataset: Any, cardinality: Any) -> Any:
    """Return the elements, which must be as many as said."""
    source = as_dataset(input_dataset)
    expected = int(scalar(cardinality, "cardinality"))
    return source.like(
        "AssertCardinality", lambda: _Counted(source.iterator(), expected), count=expected
    )


# Their elements are batches where their input's are.
_KEEPS_BATCHES = frozenset(
    {
        "AssertCardinality", "AutoShard", "Cache", "Concatenate", "Filter", "IgnoreErrors",
        "Options", "Passed", "Prefetch", "Repeat", "Shard", "Shuffle", "Skip", "Sleep", "Take",
        "TakeWhile", "Unique",
    }
)  # fmt: skip


@op(
    """
    ComputeBatchSize(input_dataset: variant) -> batch_size: int64
    """,
    shape=scalar_shape,
)
def compute_batch_size(ctx: Any, input_dataset: Any) -> Any:
    """Return the size of a dataset's batches; -1 where it cannot be told."""
    dataset = as_dataset(input_dataset)
    while not dataset.batch_size and dataset.kind in _KEEPS_BATCHES and dataset.inputs:
        dataset = dataset.inputs[0]
    return np.int64(dataset.batch_size or -1)
