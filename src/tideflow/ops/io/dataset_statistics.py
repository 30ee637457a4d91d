"""What is measured while datasets are walked over: bytes of elements, and how long they took.

A dataset names the aggregator; those below it that measure something add to it.

Source: tensorflow/core/kernels/data/experimental/{stats_aggregator_ops,stats_aggregator_dataset_op,
stats_dataset_ops}.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data import Element, ElementIterator, Elements, RuntimeDataset, dataset_op, text
from tideflow.ops.io.summaries import Histogram
from tideflow.ops.io.summary_writers import WriterOfSummaries
from tideflow.platform import clock
from tideflow.wire import messages as pb

# What TensorFlow counts for a string beside its characters.
_STRING_BYTES = 24


class StatsAggregator:
    """Histograms by their names, behind a handle.  Any thread may use it.

    Args:
      writes: whether each number goes to the writer of summaries, if there is one, and nowhere
        else, as the second version of the handle has it.
    """

    type_name: ClassVar[str] = "tensorflow::data::StatsAggregatorResource"

    def __init__(self, writes: bool) -> None:
        self._writes = writes
        self._writer: WriterOfSummaries | None = None
        self._histograms: dict[str, Histogram] = {}
        self._turn = threading.Lock()

    def write_to(self, writer: WriterOfSummaries) -> None:
        """Let what is added go to a writer."""
        self._writer = writer

    def add(self, name: str, value: float) -> None:
        """Add a number to a histogram."""
        if self._writes and self._writer is None:
            return
        with self._turn:
            found = self._histograms.setdefault(name, Histogram())
            found.add(np.array([value]))
            shown = pb.Summary.Value(tag=name, histo=found.to_proto()) if self._writes else None
        if shown is not None and self._writer is not None:
            self._writer.add(np.array(0), summary=pb.Summary(value=[shown]))

    def summary(self) -> pb.Summary:
        """Return all histograms; none where they are written."""
        if self._writes:
            return pb.Summary()
        with self._turn:
            return pb.Summary(
                value=[
                    pb.Summary.Value(tag=name, histo=histogram.to_proto())
                    for name, histogram in self._histograms.items()
                ]
            )


# What the dataset that is walked over adds to: an aggregator, and what precedes the names.
_current: ContextVar[tuple[StatsAggregator, str] | None] = ContextVar(
    "tideflow_dataset_statistics", default=None
)


def _note(name: str, value: float) -> None:
    found = _current.get()
    if found is not None:
        aggregator, tag = found
        aggregator.add(f"{tag}::{name}" if tag else name, value)


@types.coroutine
def _within(
    statistics: tuple[StatsAggregator, str], call: Coroutine[Any, Any, Element | None]
) -> Generator[Any, Any, Element | None]:
    """Run a call, in each of whose steps an aggregator is the current one.

    Its steps may be made in different contexts, so that none may keep what another one has set.
    """
    step: Callable[[Any], Any] = call.send
    given: Any = None
    while True:
        token = _current.set(statistics)
        try:
            asked = step(given)
        except StopIteration as done:
            found: Element | None = done.value
            return found
        finally:
            _current.reset(token)
        step = call.send
        try:
            given = yield asked
        except BaseException as error:
            step, given = call.throw, error


class _Measured:
    """Gives the elements of a dataset, and adds what is measured below it to an aggregator."""

    __slots__ = ("_source", "_statistics")

    def __init__(self, dataset: RuntimeDataset, aggregator: StatsAggregator, tag: str) -> None:
        self._source = dataset.iterator()
        self._statistics = aggregator, tag

    async def next(self) -> Element | None:
        found: Element | None = await _within(self._statistics, _next_of(self._source))
        return found


async def _next_of(source: ElementIterator) -> Element | None:
    return await source.next()


class _Measuring:
    """Gives the elements of a dataset, and notes a number for each.

    measure: makes it of an element and of the seconds that it took.
    """

    __slots__ = ("_measure", "_name", "_source")

    def __init__(
        self, source: ElementIterator, name: str, measure: Callable[[Element, float], float]
    ) -> None:
        self._source = source
        self._name = name
        self._measure = measure

    async def next(self) -> Element | None:
        started = clock.monotonic_s()
        element = await self._source.next()
        if element is not None:
            _note(self._name, self._measure(element, clock.monotonic_s() - started))
        return element


def _size_bytes(element: Element) -> int:
    return sum(_value_bytes(value) for value in element)


def _value_bytes(value: Any) -> int:
    found = np.asarray(value)
    if found.dtype != object:
        return found.nbytes
    strings = [one for one in found.reshape(-1).tolist() if isinstance(one, bytes)]
    return sum(_STRING_BYTES + len(one) for one in strings)


@dataset_op(
    "BytesProducedStatsDataset(input_dataset: variant, tag: string)",
    same_elements=True,
    metadata=False,
)
def bytes_produced_stats_dataset(input_dataset: RuntimeDataset, tag: bytes) -> Elements:
    """Return the same elements; how many bytes each has is added to an aggregator."""
    name = tag.decode("utf-8", "replace")
    return Elements(
        lambda: _Measuring(input_dataset.iterator(), name, lambda made, _: _size_bytes(made))
    )


@dataset_op(
    "LatencyStatsDataset(input_dataset: variant, tag: string)",
    same_elements=True,
    metadata=False,
)
def latency_stats_dataset(input_dataset: RuntimeDataset, tag: bytes) -> Elements:
    """Return the same elements; how many microseconds each took is added to an aggregator."""
    name = tag.decode("utf-8", "replace")
    return Elements(
        lambda: _Measuring(input_dataset.iterator(), name, lambda _, seconds: int(seconds * 1e6))
    )


def _aggregator(ctx: KernelContext, handle: object) -> StatsAggregator:
    found: StatsAggregator = ctx.resources.lookup(handle, StatsAggregator)
    return found


@dataset_op(
    """
    SetStatsAggregatorDataset(
        input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string
    )
    """,
    same_elements=True,
    metadata=False,
    stateful=True,
)
def set_stats_aggregator_dataset(
    ctx: KernelContext,
    input_dataset: RuntimeDataset,
    stats_aggregator: Any,
    tag: bytes,
    counter_prefix: bytes,
) -> Elements:
    """Return the same elements; what is measured below goes to an aggregator.

    tag: precedes the names.  counter_prefix: of counters, which are not kept.
    """
    found = _aggregator(ctx, stats_aggregator)
    name = tag.decode("utf-8", "replace")
    return Elements(lambda: _Measured(input_dataset, found, name))


_HANDLE = """() -> handle: resource
    container: string = ''
    shared_name: string = ''
"""


def _opened(ctx: KernelContext, container: str, shared_name: str, writes: bool) -> Any:
    name = shared_name or ctx.node.name
    ctx.resources.lookup_or_create(
        container, name, StatsAggregator, lambda: StatsAggregator(writes)
    )
    return ctx.resources.handle(container, name, StatsAggregator)


@op(f"StatsAggregatorHandle{_HANDLE}", shape=scalar_shape, stateful=True)
def stats_aggregator_handle(ctx: KernelContext, *, container: str, shared_name: str) -> Any:
    """Return the handle of an aggregator that keeps what it is given."""
    return _opened(ctx, container, shared_name, writes=False)


@op(f"StatsAggregatorHandleV2{_HANDLE}", shape=scalar_shape, stateful=True)
def stats_aggregator_handle_v2(ctx: KernelContext, *, container: str, shared_name: str) -> Any:
    """Return the handle of an aggregator that gives all to a writer of summaries."""
    return _opened(ctx, container, shared_name, writes=True)


@op(
    "StatsAggregatorSetSummaryWriter(stats_aggregator: resource, summary: resource)",
    shape=no_outputs,
    stateful=True,
)
def stats_aggregator_set_summary_writer(
    ctx: KernelContext, stats_aggregator: object, summary: object
) -> None:
    """Let an aggregator give what it is given to a writer."""
    writer = ctx.resources.lookup(summary, WriterOfSummaries)
    _aggregator(ctx, stats_aggregator).write_to(writer)


@op(
    "StatsAggregatorSummary(iterator: resource) -> summary: string",
    shape=scalar_shape,
    stateful=True,
)
def stats_aggregator_summary(ctx: KernelContext, iterator: object) -> Any:
    """Return what an aggregator was given, as a serialized Summary."""
    return text(_aggregator(ctx, iterator).summary().SerializeToString())


for _name in (
    "BytesProducedStatsDataset",
    "LatencyStatsDataset",
    "SetStatsAggregatorDataset",
    "StatsAggregatorHandle",
    "StatsAggregatorSummary",
):
    declare_like(f"Experimental{_name}", _name)
