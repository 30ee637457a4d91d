"""Input pipelines of the v1 kind: queues of examples, filled by queue runners.

A producer fills a queue with the rows of a tensor, such as file names; a batch function fills one
with examples and gives batches.  Threads of `tf.train.start_queue_runners` keep them going.

Source: tensorflow/python/training/input.py for names, argument orders and the order of ops.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.shapes import TensorShape
from tideflow.graph.static_value import static_value
from tideflow.graph.types import ShapeLike, TensorLike
from tideflow.ops.array import boolean_mask
from tideflow.ops.control_flow import cond, control_dependencies
from tideflow.ops.export import export
from tideflow.ops.framework import Assert
from tideflow.ops.io import scalar_summary_of
from tideflow.ops.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from tideflow.ops.random import random_shuffle
from tideflow.ops.state import Variable
from tideflow.train.threads.queue_runner import QueueRunner, add_queue_runner
from tideflow.train.threads.sparse_columns import SERIALIZED, columns_of, stored
from tideflow.wire import dtypes


@export("train.match_filenames_once", "io.match_filenames_once")
def match_filenames_once(pattern: TensorLike, name: str | None = None) -> Any:
    """Return a local variable with the names of the files that match, found at its start."""
    with get_default_graph().name_scope(name or "matching_filenames") as scope:
        return Variable(
            name=scope,
            initial_value=apply_op("MatchingFiles", pattern),
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )


@export("train.limit_epochs")
def limit_epochs(tensor: TensorLike, num_epochs: int | None = None, name: str | None = None) -> Any:
    """Return a tensor that can be had so many times, then raises OutOfRangeError.

    It counts in a local variable.  Raises: ValueError for num_epochs below 1.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with get_default_graph().name_scope(name or "limit_epochs") as scope:
        epochs: Any = Variable(
            convert_to_tensor(0, dtypes.int64),
            name="epochs",
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return apply_op("Identity", tensor, name=scope)


@export("train.input_producer")
def input_producer(
    input_tensor: TensorLike,
    element_shape: ShapeLike | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Operation | None = None,
) -> QueueBase:
    """Return a queue of the rows of a tensor, over and over, and have a runner fill it.

    Args:
      element_shape: shape of a row, where the tensor's is not known.
      num_epochs: how many times each row is given; without end if left out.
      shuffle, seed: whether each pass has an order of its own, drawn from the seed.
      summary_name: for a summary of how full the queue is.
    Raises: ValueError where the shape of a row is unknown.
    """
    with get_default_graph().name_scope(name or "input_producer"):
        given = convert_to_tensor(input_tensor, name="input_tensor")
        shape = given.shape[1:].merge_with(TensorShape(element_shape))
        if not shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be "
                "specified"
            )
        if shuffle:
            given = random_shuffle(given, seed=seed)
        given = limit_epochs(given, num_epochs)
        queue = FIFOQueue(
            capacity=capacity,
            dtypes=[given.dtype.base_dtype],
            shapes=[shape],
            shared_name=shared_name,
            name=name or "FIFOQueueV2",
        )
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([given])], cancel_op=cancel_op))
        if summary_name is not None:
            scalar_summary_of(summary_name, _share(queue.size(), capacity))
        return queue


def _share(count: Tensor, capacity: int) -> Tensor:
    full = apply_op("Cast", count, DstT=dtypes.float32)
    made: Tensor = apply_op("Mul", full, 1.0 / capacity, name="mul")
    return made


@export("train.string_input_producer")
def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Operation | None = None,
) -> QueueBase:
    """Return a queue of strings, such as file names; see input_producer.

    Raises: ValueError for an empty list; when run, InvalidArgumentError for an empty tensor.
    """
    refusal = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, Tensor) and not len(string_tensor):
        raise ValueError(refusal)
    with get_default_graph().name_scope(name or "input_producer") as scope:
        given = convert_to_tensor(string_tensor, dtypes.string)
        with control_dependencies(
            [Assert(apply_op("Greater", apply_op("Size", given), 0), [refusal])]
        ):
            given = apply_op("Identity", given)
        return input_producer(
            given,
            [],
            num_epochs,
            shuffle,
            seed,
            capacity,
            shared_name,
            f"fraction_of_{capacity}_full",
            scope,
            cancel_op,
        )


@export("train.range_input_producer")
def range_input_producer(
    limit: TensorLike,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue of the integers from 0 to limit - 1; see input_producer."""
    with get_default_graph().name_scope(name or "input_producer") as scope:
        numbers = apply_op("Range", 0, limit, 1, name="range")
        summary = f"fraction_of_{capacity}_full"
        return input_producer(
            numbers, [], num_epochs, shuffle, seed, capacity, shared_name, summary, scope
        )


@export("train.slice_input_producer")
def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Return one row of each tensor, the same of all, another in each step; see input_producer.

    Raises: ValueError for an empty list.
    """
    with get_default_graph().name_scope(name or "input_producer"):
        given = [convert_to_tensor(tensor) for tensor in tensor_list]
        if not given:
            raise ValueError("Expected at least one tensor in slice_input_producer(). Received: []")
        limit = apply_op("Shape", given[0])[0]
        queue = range_input_producer(limit, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [apply_op("GatherV2", tensor, index, 0) for tensor in given]


# ---- batches


def _as_list(tensors: Any) -> list[Any]:
    """Return the tensors of a list, or of a dict in the order of its keys."""
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors)]
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _like(tensors: Any, found: list[Any]) -> Any:
    if isinstance(tensors, dict):
        return dict(zip(sorted(tensors), found))
    return found if isinstance(tensors, (list, tuple)) and len(found) > 1 else found[0]


class _Batches:
    """A queue of examples between those who enqueue them and a batch that is dequeued.

    Args:
      tensors_list: the examples' tensors, once for each thread that enqueues.
      keep_input: whether an example, or which row of a batch of examples, is wanted.
    """

    def __init__(
        self, tensors_list: Sequence[Any], keep_input: TensorLike, enqueue_many: bool
    ) -> None:
        self._tensors_list = list(tensors_list)
        self._enqueue_many = enqueue_many
        given = [_as_list(tensors) for tensors in self._tensors_list]
        if not given or not given[0]:
            raise ValueError("Expected at least one tensor in batch().")
        self._sparse = columns_of(given, enqueue_many)
        self._flat = [[stored(tensor, enqueue_many) for tensor in tensors] for tensors in given]
        self.types = [tensor.dtype.base_dtype for tensor in self._flat[0]]
        for others in self._flat[1:]:
            if [tensor.dtype.base_dtype for tensor in others] != self.types:
                raise TypeError("Expected types to be consistent in all lists of tensors.")
        self._keep = _checked_keep(keep_input, enqueue_many)

    def shapes(self, given: Any) -> list[TensorShape]:
        """Return the shapes of an example's components: those given, or what is known."""
        if given is not None:
            return [
                TensorShape(shape if sparse is None else SERIALIZED)
                for shape, sparse in zip(given, self._sparse)
            ]
        found = []
        for column in zip(*self._flat):
            if any(tensor.dims is None for tensor in column):
                raise ValueError(f"Cannot infer Tensor's rank: {column}")
            shapes = [tensor.shape[1:] if self._enqueue_many else tensor.shape for tensor in column]
            merged = shapes[0]
            for shape in shapes[1:]:
                merged.merge_with(shape)
            found.append(merged)
        return found

    def queue(
        self, kind: Callable[..., QueueBase], shapes: Any, threads: int, **options: Any
    ) -> QueueBase:
        """Return a queue of examples that a runner fills, each list in so many threads."""
        queue = kind(dtypes=self.types, shapes=self.shapes(shapes), **options)
        enqueue_ops = [self._enqueue(queue, tensors) for tensors in self._flat]
        add_queue_runner(QueueRunner(queue, enqueue_ops * threads))
        return queue

    def _enqueue(self, queue: QueueBase, tensors: list[Tensor]) -> Any:
        put: Callable[[Any], Operation] = (
            queue.enqueue_many if self._enqueue_many else queue.enqueue
        )
        if len(self._keep.dims) == 1:
            return put([boolean_mask(tensor, self._keep) for tensor in tensors])
        known = static_value(*self._keep.edge)
        if known is not None:
            return put(tensors) if known else apply_op("NoOp")
        return cond(self._keep, lambda: put(tensors), lambda: apply_op("NoOp"))

    def take(self, queue: QueueBase, size: TensorLike, allow_smaller: bool, name: str) -> Any:
        """Return a batch in the structure of the tensors given."""
        dequeue = queue.dequeue_up_to if allow_smaller else queue.dequeue_many
        found = dequeue(size, name=name)
        flat = list(found) if isinstance(found, (list, tuple)) else [found]
        restored = [
            tensor if sparse is None else sparse.restored(tensor)
            for tensor, sparse in zip(flat, self._sparse, strict=True)
        ]
        return _like(self._tensors_list[0], restored)


def _checked_keep(keep_input: TensorLike, enqueue_many: bool) -> Any:
    keep = convert_to_tensor(keep_input)
    if keep.dims is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and len(keep.dims) == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if len(keep.dims) > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep


def _plain(
    tensors_list: Sequence[Any],
    keep_input: TensorLike,
    batch_size: TensorLike,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of examples, in the structure of the tensors given.

    Args:
      tensors: a list or dict of tensors: one example, or (enqueue_many) rows of examples.
      tensors_list: several of them, each with a thread of its own.
      keep_input: which examples are wanted: a bool scalar, or with enqueue_many one for each row.
      num_threads: how many threads enqueue; with more than one the order is not fixed.
      shapes: of an example's tensors, where they are not known.
      dynamic_pad: pad examples of several sizes with zeros to the largest of the batch.
      allow_smaller_final_batch: give what is left at the end, too.
    When run: OutOfRangeError at the end.  Raises: ValueError where shapes are needed.
    """
    with get_default_graph().name_scope(name) as scope:
        batches = _Batches(tensors_list, keep_input, enqueue_many)
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queue = batches.queue(kind, shapes, num_threads, capacity=capacity, shared_name=shared_name)
        scalar_summary_of(f"fraction_of_{capacity}_full", _share(queue.size(), capacity))
        return batches.take(queue, batch_size, allow_smaller_final_batch, scope)


def _shuffled(
    tensors_list: Sequence[Any],
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of examples in random order; more on the arguments at `batch`.

    Args:
      capacity: how many examples wait at most.
      min_after_dequeue: so many examples stay behind to be mixed with later ones.
      seed: for the order.
    Raises: ValueError where min_after_dequeue leaves no room.
    """
    if capacity <= min_after_dequeue:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}."
        )
    with get_default_graph().name_scope(name) as scope:
        batches = _Batches(tensors_list, keep_input, enqueue_many)
        queue = batches.queue(
            RandomShuffleQueue,
            shapes,
            num_threads,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed,
            shared_name=shared_name,
        )
        room = capacity - min_after_dequeue
        over = apply_op("Maximum", 0, apply_op("Sub", queue.size(), min_after_dequeue, name="sub"))
        scalar_summary_of(f"fraction_over_{min_after_dequeue}_of_{room}_full", _share(over, room))
        return batches.take(queue, batch_size, allow_smaller_final_batch, scope)


def _form(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the form of a function of batches that has a public name, and export it.

    Only a "maybe" asks which examples are wanted.  A "join" takes several lists of tensors, and has
    a thread for each; the others take one, as `tensors`.
    """
    joins, scope = name.endswith("join"), name.removeprefix("maybe_")
    fixed: dict[str, Any] = {} if name.startswith("maybe") else {"keep_input": True}
    if joins:
        fixed["num_threads"] = 1
    general = inspect.signature(make)
    first, *others = (p for p in general.parameters.values() if p.name not in fixed)
    signature = general.replace(
        parameters=[first if joins else first.replace(name="tensors"), *others]
    )

    def form(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        tensors_list = given.pop("tensors_list") if joins else [given.pop("tensors")]
        return make(tensors_list, **{**given, **fixed, "name": given.get("name") or scope})

    form.__name__ = form.__qualname__ = name
    form.__doc__ = make.__doc__
    form.__signature__ = signature  # type: ignore[attr-defined]
    return export(f"train.{name}")(form)


batch = _form(_plain, "batch")
batch_join = _form(_plain, "batch_join")
maybe_batch = _form(_plain, "maybe_batch")
maybe_batch_join = _form(_plain, "maybe_batch_join")
shuffle_batch = _form(_shuffled, "shuffle_batch")
shuffle_batch_join = _form(_shuffled, "shuffle_batch_join")
maybe_shuffle_batch = _form(_shuffled, "maybe_shuffle_batch")
maybe_shuffle_batch_join = _form(_shuffled, "maybe_shuffle_batch_join")
