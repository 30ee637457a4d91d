"""The ops of iterators: a handle for each iterator, and what is done with it.

An iterator with a shared name belongs to its device; one without belongs to its node in one session
and ends with it; an anonymous one ends with its handle.

Source: tensorflow/core/kernels/data/iterator_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tideflow.blocking import Turns
from tideflow.graph import shapes as static_shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import no_outputs, scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.data.functions import enter_scope
from tideflow.ops.data.places import Place, scope_of
from tideflow.ops.data.sources import Listed
from tideflow.ops.data.string_handles import declare_string_handles
from tideflow.ops.data.values import (
    Dataset,
    Element,
    Iterator,
    as_dataset,
    check_structure,
    component_shapes,
    dims_of,
    fail,
    text,
)
from tideflow.ops.node_resources import add_anonymous, open_resource
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle

# Of the policies of options_lib.ExternalStatePolicy.
_FAIL = 2


class IteratorResource:
    """An iterator that handles name.

    Attributes:
      types, shapes: what every dataset that it is made over must give.
    """

    type_name: ClassVar[str] = "tensorflow::data::IteratorResource"

    def __init__(self, types: Sequence[DType], shapes: Sequence[Dims]) -> None:
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self._dataset: Dataset | None = None
        self._root: Iterator | None = None
        self._scope: dict[Any, Any] = {}
        self._taken = 0
        self._ended = False
        self._turn = asyncio.Lock()

    def start(self, dataset: Dataset) -> None:
        """Begin a dataset, in place of what was there.

        Raises: InvalidArgumentError for one of other types or shapes.
        """
        check_structure(self.types, self.shapes, dataset.types, dataset.shapes)
        self._begin(dataset, scope_of(dataset))

    def _begin(self, dataset: Dataset, scope: dict[Any, Any]) -> None:
        def begin() -> Iterator:
            enter_scope(scope)
            return dataset.iterator()

        # What asks for the iterator may be within a walk of its own.
        self._root = contextvars.copy_context().run(begin)
        self._dataset, self._scope = dataset, scope
        self._taken, self._ended = 0, False

    def place(self, refuses_state: bool = False) -> Place:
        """Return the place of the iterator.

        refuses_state: whether functions must have no state of their own, which no place tells.
        Raises: FailedPreconditionError where nothing was started, or for functions with state.
        """
        dataset = self.check_begun("Save()", "saving it")
        for name in dataset.stateful_ops if refuses_state else ():
            raise errors.FailedPreconditionError(f"{name} is stateful.")
        return Place.of(self._taken, self._ended, self._scope)

    async def go_to(self, place: Place) -> None:
        """Begin the dataset anew, and go to a place.

        Raises: FailedPreconditionError where nothing was started.
        """
        dataset = self.check_begun("Restore()", "restoring it")
        async with self._turn:
            self._begin(dataset, scope_of(dataset, place))
            root, turns = self._root, Turns()
            enter_scope(self._scope)
            assert root is not None
            for _ in range(place.taken):
                try:
                    await root.next()
                except errors.OpError:
                    # It failed then, too.
                    continue
                finally:
                    await turns.pause()
            self._taken, self._ended = place.taken, place.ended
            if place.ended:
                self._root = Listed(iter(()))

    def check_begun(self, what: str, purpose: str) -> Dataset:
        """Return the dataset.  Raises: FailedPreconditionError where nothing was started."""
        if self._dataset is None:
            raise errors.FailedPreconditionError(
                f"{what} failed because the iterator has not been initialized. Ensure that you "
                f"have run the initializer operation for this iterator before {purpose}."
            )
        return self._dataset

    async def next(self, types: Sequence[DType], shapes: Sequence[Dims]) -> Element | None:
        """Return the next element, None after the last; callers take turns.

        Raises: FailedPreconditionError where nothing was started; InvalidArgumentError for types or
        shapes that the dataset does not give.
        """
        if self._root is None or self._dataset is None:
            raise errors.FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you "
                "have run the initializer operation for this iterator before getting the next "
                "element."
            )
        dataset, root, scope = self._dataset, self._root, self._scope
        async with self._turn:
            enter_scope(scope)
            self._taken += 1
            element = await root.next()
        if element is None:
            self._ended = True
        else:
            check_structure(types, shapes, dataset.types, dataset.shapes)
            _check_shapes(shapes, element)
        return element

    def describe(self) -> tuple[str, str, int]:
        """Return types and shapes of the components, for a status report."""
        types = ", ".join(dtype.name for dtype in self.types)
        return types, ", ".join(static_shapes.format_dims(dims) for dims in self.shapes), 0


def _check_shapes(shapes: Sequence[Dims], element: Element) -> None:
    """Check an element of a dataset that does not know the shapes of its elements."""
    for i, (want, value) in enumerate(zip(shapes, element)):
        have = getattr(value, "shape", ())
        if have != want and not static_shapes.compatible(want, have):
            raise fail(
                f"Incompatible shapes at component {i}: expected {static_shapes.format_dims(want)} "
                f"but got {static_shapes.format_dims(have)}."
            )


def find_iterator(ctx: KernelContext, handle: object) -> IteratorResource:
    """Return the iterator that a handle names.  Raises: as Resources.lookup."""
    found: IteratorResource = ctx.resources.lookup(handle, IteratorResource)
    return found


# ---- making iterators


def _open(
    ctx: KernelContext, container: str, name: str, types: list[DType], shapes: list[TensorShape]
) -> ResourceHandle:
    return open_resource(
        ctx,
        IteratorResource,
        lambda: IteratorResource(types, dims_of(shapes)),
        container,
        name,
        lambda found: check_structure(types, dims_of(shapes), found.types, found.shapes),
    )


def _anonymous(ctx: KernelContext, types: list[DType], shapes: list[TensorShape]) -> ResourceHandle:
    return add_anonymous(ctx, IteratorResource, IteratorResource(types, dims_of(shapes)))


@op(
    """
    Iterator() -> handle: resource
    shared_name: string
    container: string
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
def iterator(
    ctx: KernelContext,
    *,
    shared_name: str,
    container: str,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the handle of an iterator that has yet to be given a dataset."""
    return ctx.memo(lambda: _open(ctx, container, shared_name, output_types, output_shapes))


declare_like("IteratorV2", "Iterator")


@op(
    """
    AnonymousIterator() -> handle: resource
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
def anonymous_iterator(
    ctx: KernelContext, *, output_types: list[DType], output_shapes: list[TensorShape]
) -> Any:
    """Return the handle of an iterator that goes when the handle goes."""
    return _anonymous(ctx, output_types, output_shapes)


declare_like("AnonymousIteratorV3", "AnonymousIterator")


@op(
    """
    AnonymousIteratorV2() -> handle: resource, deleter: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
def anonymous_iterator_v2(
    ctx: KernelContext, *, output_types: list[DType], output_shapes: list[TensorShape]
) -> Any:
    """Return the handle of an iterator, and what DeleteIterator is given with it."""
    handle = _anonymous(ctx, output_types, output_shapes)
    return handle, Deleter(handle)


class Deleter:
    """Keeps a handle, and so what it names, until it is dropped itself."""

    __slots__ = ("handle",)

    def __init__(self, handle: ResourceHandle) -> None:
        self.handle = handle

    def to_variant(self) -> Any:
        """Refuse to travel.  Raises: UnimplementedError."""
        raise errors.UnimplementedError("a deleter cannot leave the task that made it")


@op(
    """
    DeleteIterator(handle: resource, deleter: variant)
    """,
    shape=no_outputs,
    stateful=True,
)
def delete_iterator(ctx: KernelContext, handle: object, deleter: object) -> None:
    """Drop an iterator."""
    ctx.resources.delete(handle, IteratorResource)


class _OneShot:
    """The iterator of a OneShotIterator node, once it is made."""

    __slots__ = ("handle", "turn")

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.handle: ResourceHandle | None = None


@op(
    """
    OneShotIterator() -> handle: resource
    dataset_factory: func
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
async def one_shot_iterator(
    ctx: KernelContext,
    *,
    dataset_factory: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    container: str,
    shared_name: str,
) -> Any:
    """Return the handle of an iterator over the dataset that a function makes, once."""
    state = ctx.memo(_OneShot)
    async with state.turn:
        if state.handle is None:
            make = await ctx.ready(dataset_factory)
            made = await make(ctx.detached_step())
            if len(made) != 1:
                raise fail("The `dataset_factory` function must return exactly one tensor.")
            dataset = as_dataset(made[0])
            known = None
            if shared_name:
                known = ctx.resources.find(container, shared_name, IteratorResource)
            handle = _open(ctx, container, shared_name, output_types, output_shapes)
            if known is None:
                find_iterator(ctx, handle).start(dataset)
            state.handle = handle
    return state.handle


@op(
    """
    MakeIterator(dataset: variant, iterator: resource)
    """,
    shape=no_outputs,
    stateful=True,
)
def make_iterator(ctx: KernelContext, dataset: object, iterator: object) -> None:
    """Begin a dataset."""
    find_iterator(ctx, iterator).start(as_dataset(dataset))


# ---- elements


def end_of_sequence() -> errors.OutOfRangeError:
    """Return the error for an iterator that has no more elements."""
    return errors.OutOfRangeError("End of sequence")


@op(
    """
    IteratorGetNext(iterator: resource) -> components: *output_types
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=component_shapes,
    stateful=True,
)
async def iterator_get_next(
    ctx: KernelContext,
    iterator: object,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the next element.  Raises: OutOfRangeError after the last."""
    found = find_iterator(ctx, iterator)
    element = await found.next(output_types, dims_of(output_shapes))
    if element is None:
        raise end_of_sequence()
    return element


declare_like("IteratorGetNextSync", "IteratorGetNext")


# ---- places


@op(
    """
    SerializeIterator(resource_handle: resource) -> serialized: variant
    external_state_policy: int = 0
    """,
    shape=lambda c: [(None,)],
    stateful=True,
)
def serialize_iterator(
    ctx: KernelContext, resource_handle: object, *, external_state_policy: int
) -> Any:
    """Return the place of an iterator, a vector.

    external_state_policy: what is done about functions with state, which is not saved: 0 and 1
      for nothing, 2 to refuse them.
    """
    refuses = external_state_policy == _FAIL
    made = np.empty(1, object)
    made[0] = find_iterator(ctx, resource_handle).place(refuses)
    return made


@op(
    """
    DeserializeIterator(resource_handle: resource, serialized: variant)
    """,
    shape=no_outputs,
    stateful=True,
)
async def deserialize_iterator(
    ctx: KernelContext, resource_handle: object, serialized: Any
) -> None:
    """Bring an iterator to a place.

    Raises: InternalError, as TensorFlow, for what is no place, or one that TensorFlow made.
    """
    found = np.asarray(serialized, object).reshape(-1).tolist()
    iterator = find_iterator(ctx, resource_handle)
    if len(found) != 1 or not isinstance(found[0], Place):
        kinds = sorted({getattr(one, "type_name", type(one).__name__) for one in found})
        raise errors.InternalError(
            f"the place of an iterator is wanted; found {len(found)} values of {kinds}"
        )
    await iterator.go_to(found[0])


# ---- handles as strings


declare_string_handles("Iterator", "resource_handle", IteratorResource)
declare_like("IteratorFromStringHandleV2", "IteratorFromStringHandle")


@op(
    """
    IteratorGetDevice(resource: resource) -> device: string
    """,
    shape=scalar,
    stateful=True,
)
def iterator_get_device(ctx: KernelContext, resource: object) -> Any:
    """Return the name of the device on which an iterator is."""
    return text(str(ctx.device).encode())


declare_like("ExperimentalIteratorGetDevice", "IteratorGetDevice")


@op(
    """
    IteratorGetModelProto(iterator: resource) -> model_proto: string
    """,
    shape=scalar,
    stateful=True,
)
def iterator_get_model_proto(ctx: KernelContext, iterator: object) -> Any:
    """Refuse: no iterator has a model by which it is tuned.

    Raises: NotFoundError, as in TensorFlow where tuning is off; FailedPreconditionError where
      nothing was started.
    """
    find_iterator(ctx, iterator).check_begun("GetModelProto()", "getting the next element")
    raise errors.NotFoundError(
        "Cannot find this iterator's analytical model. Did you disable autotune for the dataset "
        "used to create this iterator?"
    )
