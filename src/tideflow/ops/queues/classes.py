"""tf.queue: queues as objects that build operations.

Source: tensorflow/python/ops/data_flow_ops.py for names and argument orders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tideflow.graph import shapes as static_shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_seed
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("queue.QueueBase", "QueueBase")
class QueueBase:
    """A queue of tuples of tensors.

    With `names` the components of an element travel as a dict; otherwise as one tensor or a list.
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Tensor) -> None:
        self._dtypes: list[DType] = list(dtypes)
        self._shapes: list[TensorShape] = list(shapes) or [TensorShape(None)] * len(self._dtypes)
        self._names: list[str] | None = None if names is None else list(names)
        if self._names is not None and len(self._names) != len(self._dtypes):
            raise ValueError(
                f"{len(self._names)} names for {len(self._dtypes)} components; give one for each"
            )
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rsplit("/", 1)[-1]

    @staticmethod
    def from_list(index: TensorLike, queues: Sequence[QueueBase]) -> QueueBase:
        """Return the queue of that index, chosen at each run among queues of one kind.

        Raises: TypeError when they are no queues or differ in types or names.
        """
        if not queues or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("from_list needs a list of queues")
        first = queues[0]
        for queue in queues[1:]:
            if queue.dtypes != first.dtypes or queue.names != first.names:
                raise TypeError("all queues of from_list must have the same dtypes and names")
        shapes = [shape.sizes for shape in first.shapes]
        for queue in queues[1:]:
            shapes = [static_shapes.relax(d, s.sizes) for d, s in zip(shapes, queue.shapes)]
        handles = apply_op("Pack", [queue.queue_ref for queue in queues], axis=0, name="stack")
        chosen = apply_op("GatherV2", handles, index, 0)
        return QueueBase(first.dtypes, map(TensorShape, shapes), first.names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        """The queue's handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """The name of the operation that gives the handle."""
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        """Element types of the components."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """Static shapes of the components."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """Names of the components, or None."""
        return self._names

    def enqueue(self, vals: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that puts one element; it waits while the queue is full.

        When run: CancelledError if the queue is closed.  Raises: ValueError for a wrong number
        of components, wrong names or shapes; TypeError for wrong types.
        """
        with self._scope(name, "enqueue") as scope:
            tensors = self._components(vals)
            for tensor, shape in zip(tensors, self._shapes):
                shape.assert_is_compatible_with(tensor.shape)
            made: Operation = apply_op(
                "QueueEnqueueV2", self._queue_ref, tensors, Tcomponents=self._dtypes, name=scope
            )
            return made

    def enqueue_many(self, vals: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that puts each row of a batch; it waits while the queue is full."""
        with self._scope(name, "EnqueueMany") as scope:
            tensors = self._components(vals)
            size: int | None = None
            for tensor, shape in zip(tensors, self._shapes):
                rows = TensorShape([size]).concatenate(shape)
                (size, *_) = tensor.shape.with_rank_at_least(1).merge_with(rows).as_list()
            made: Operation = apply_op(
                "QueueEnqueueManyV2",
                self._queue_ref,
                tensors,
                Tcomponents=self._dtypes,
                name=scope,
            )
            return made

    def dequeue(self, name: str | None = None) -> Any:
        """Return the components of one element; waits for it when run.

        When run: OutOfRangeError if the queue is closed and empty.
        """
        found = apply_op(
            "QueueDequeueV2",
            self._queue_ref,
            component_types=self._dtypes,
            name=name or f"{self._name}_Dequeue",
        )
        return self._result(found, [shape.sizes for shape in self._shapes])

    def dequeue_many(self, n: TensorLike, name: str | None = None) -> Any:
        """Return n elements as a batch; waits for all of them when run.

        When run: OutOfRangeError if the queue is closed and holds too few; InvalidArgumentError
        for a queue made without shapes.
        """
        found = apply_op(
            "QueueDequeueManyV2",
            self._queue_ref,
            n,
            component_types=self._dtypes,
            name=name or f"{self._name}_DequeueMany",
        )
        size = n if isinstance(n, int) else None
        return self._result(found, [self._rows(size, shape) for shape in self._shapes])

    def dequeue_up_to(self, n: TensorLike, name: str | None = None) -> Any:
        """Return n elements as a batch, or the fewer that are left once the queue is closed."""
        found = apply_op(
            "QueueDequeueUpToV2",
            self._queue_ref,
            n,
            component_types=self._dtypes,
            name=name or f"{self._name}_DequeueUpTo",
        )
        return self._result(found, [self._rows(None, shape) for shape in self._shapes])

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the queue; what it holds can still be taken."""
        made: Operation = apply_op(
            "QueueCloseV2",
            self._queue_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_Close",
        )
        return made

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether the queue is closed."""
        found: Tensor = apply_op(
            "QueueIsClosedV2", self._queue_ref, name=name or f"{self._name}_Is_Closed"
        )
        return found

    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements the queue holds, as int32."""
        found: Tensor = apply_op("QueueSizeV2", self._queue_ref, name=name or f"{self._name}_Size")
        return found

    def _scope(self, name: str | None, suffix: str) -> Any:
        return get_default_graph().name_scope(name or f"{self._name}_{suffix}")

    def _components(self, vals: object) -> list[Tensor]:
        """Return one tensor for each component, converted to its type."""
        if isinstance(vals, dict):
            if self._names is None or sorted(vals) != sorted(self._names):
                raise ValueError(
                    f"the keys of vals, {sorted(vals)}, are not the names of {self.name!r}'s "
                    f"components, {self._names}"
                )
            vals = [vals[key] for key in self._names]
        elif self._names is not None:
            raise ValueError(f"{self.name!r} has named components; give a dict of {self._names}")
        values = list(vals) if isinstance(vals, (list, tuple)) else [vals]
        if len(values) != len(self._dtypes):
            if len(self._dtypes) != 1:
                raise ValueError(
                    f"{self.name!r} has {len(self._dtypes)} components; {len(values)} were given"
                )
            values = [vals]
        pairs = zip(values, self._dtypes)
        return [
            convert_to_tensor(value, dtype, f"component_{i}")
            for i, (value, dtype) in enumerate(pairs)
        ]

    def _rows(self, size: int | None, shape: TensorShape) -> static_shapes.Dims:
        return None if shape.sizes is None else (size, *shape.sizes)

    def _result(self, tensors: list[Tensor], dims: list[static_shapes.Dims]) -> Any:
        for tensor, known in zip(tensors, dims):
            tensor.set_shape(known)
        if self._names is not None:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else tensors


def _declared(
    kinds: object, shapes: Any, names: object
) -> tuple[list[DType], list[TensorShape], Any]:
    """Return types, shapes (empty for none) and names as lists, one entry for each component."""
    types = [as_dtype(k) for k in (kinds if isinstance(kinds, (list, tuple)) else [kinds])]
    found: list[TensorShape] = []
    if shapes is not None:
        is_single = isinstance(shapes, TensorShape) or not isinstance(shapes, (list, tuple))
        is_sizes = not is_single and (not shapes or isinstance(shapes[0], int) or shapes[0] is None)
        found = [TensorShape(s) for s in ([shapes] if is_single or is_sizes else shapes)]
        if len(found) != len(types):
            raise ValueError(f"{len(found)} shapes for {len(types)} dtypes; give one for each")
    if names is not None:
        names = list(names) if isinstance(names, (list, tuple)) else [names]
    return types, found, names


@export("queue.FIFOQueue", "FIFOQueue")
class FIFOQueue(QueueBase):
    """A queue that gives its elements in the order in which they were put."""

    def __init__(
        self,
        capacity: int,
        dtypes: Sequence[DTypeLike],
        shapes: Sequence[ShapeLike] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        types, shape_list, name_list = _declared(dtypes, shapes, names)
        with get_default_graph().device("/device:CPU:*"):
            handle = apply_op(
                "FIFOQueueV2",
                component_types=types,
                shapes=shape_list,
                capacity=capacity,
                shared_name=shared_name,
                name=name,
            )
        super().__init__(types, shape_list, name_list, handle)


@export("queue.PaddingFIFOQueue", "PaddingFIFOQueue")
class PaddingFIFOQueue(QueueBase):
    """A first-in, first-out queue whose batches are padded with zeros where sizes differ.

    The shapes must have known ranks; a size of None may differ from element to element.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Sequence[DTypeLike],
        shapes: Sequence[ShapeLike],
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        types, shape_list, name_list = _declared(dtypes, shapes, names)
        if len(shape_list) != len(types):
            raise ValueError("a PaddingFIFOQueue needs a shape for each component")
        handle = apply_op(
            "PaddingFIFOQueueV2",
            component_types=types,
            shapes=shape_list,
            capacity=capacity,
            shared_name=shared_name,
            name=name,
        )
        super().__init__(types, shape_list, name_list, handle)


@export("queue.RandomShuffleQueue", "RandomShuffleQueue")
class RandomShuffleQueue(QueueBase):
    """A queue that gives its elements in random order.

    It keeps min_after_dequeue elements back until it is closed, to mix well.
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Sequence[DTypeLike],
        shapes: Sequence[ShapeLike] | None = None,
        names: Sequence[str] | None = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        types, shape_list, name_list = _declared(dtypes, shapes, names)
        seed1, seed2 = get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1 = seed2 = 0
        elif seed is None and shared_name is not None:
            # The op counter in seed2 differs between clients that share the queue; its name not.
            digest = hashlib.md5(f"{seed1}{shared_name}".encode(), usedforsecurity=False)
            seed2 = int(digest.hexdigest()[:8], 16) & 0x7FFFFFFF
        handle = apply_op(
            "RandomShuffleQueueV2",
            component_types=types,
            shapes=shape_list,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=shared_name,
            name=name,
        )
        super().__init__(types, shape_list, name_list, handle)


@export("queue.PriorityQueue", "PriorityQueue")
class PriorityQueue(QueueBase):
    """A queue that gives the element of the lowest priority first.

    Each element has one component more than `types`: its priority, an int64 scalar, comes first.
    """

    def __init__(
        self,
        capacity: int,
        types: Sequence[DTypeLike],
        shapes: Sequence[ShapeLike] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        if shapes is None:
            raise TypeError("a PriorityQueue needs the shapes of its components")
        type_list, shape_list, name_list = _declared(types, shapes, names)
        handle = apply_op(
            "PriorityQueueV2",
            component_types=type_list,
            shapes=shape_list,
            capacity=capacity,
            shared_name=shared_name,
            name=name,
        )
        all_shapes = [TensorShape([]), *shape_list] if shape_list or not type_list else []
        super().__init__([dtypes.int64, *type_list], all_shapes, name_list, handle)
