"""Walks over datasets where operations are called at once.

Source: tensorflow/python/data/ops/iterator_ops.py.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tideflow.eager.context import context
from tideflow.eager.remote import RemoteTensor
from tideflow.eager.tensor import EagerTensor
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.ops.data import (
    Dataset,
    IteratorResource,
    Optional,
    as_dataset,
    attrs_of,
    drive,
    end_of_sequence,
    flat_specs,
    next_as_optional,
    packed,
)
from tideflow.ops.data.optional_api import beside
from tideflow.ops.data.walked import walks
from tideflow.ops.export import export_v2
from tideflow.ops.framework import SavedPart, Trackable, nest
from tideflow.runtime.loop import on_loop, run_sync
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import read_variant

# As Checkpoint of TensorFlow does: what functions change is not saved with the place.
_REFUSE_STATE = 2


@export_v2("data.Iterator")
class OwnedIterator(Trackable):
    """A walk over a dataset; its state goes with it.

    Args:
      handle: names the iterator's resource.
      element: the specs of an element.
    """

    _dataset: Dataset | None = None

    def __init__(self, handle: Tensor, element: Any) -> None:
        self._resource_handle = handle
        self._element = element
        self._attrs = attrs_of(element)
        self._types: list[DType] = self._attrs["output_types"]
        self._shapes = [spec.dims for spec in flat_specs(self._element)]
        self._turn = threading.Lock()
        # Functions keep their state, such as that of random numbers, in the walk's own context.
        self._scope = contextvars.copy_context()
        # What makes elements in the calling thread, where that can be.
        self._direct: IteratorResource | None = None

    @classmethod
    def over(cls, dataset: Dataset) -> OwnedIterator:
        """Return a walk over a dataset, from its beginning."""
        attrs = attrs_of(dataset._element)
        with beside(dataset._variant):
            handle: Tensor = apply_op("AnonymousIteratorV3", **attrs)
            apply_op("MakeIterator", dataset._variant, handle)
        made = cls(handle, dataset._element)
        # The functions of the dataset live as long as the walk.
        made._dataset = dataset
        made._direct = _direct_iterator(dataset._variant, handle)
        return made

    # ---- as an argument of a function

    @property
    def argument_handle(self) -> Tensor:
        """The tensor by which functions take it."""
        return self._handle

    @property
    def argument_kind(self) -> Hashable:
        """What tells the traces of functions apart that take iterators."""
        return ("iterator", repr(self._element), self._resource_handle.device)

    def with_handle(self, handle: Tensor) -> OwnedIterator:
        """Return what stands for it in the trace of a function."""
        return OwnedIterator(handle, self._element)

    @property
    def _handle(self) -> Tensor:
        """The iterator's handle; from now on others may use it, on the loop."""
        with self._turn:
            self._direct = None
        return self._resource_handle

    @property
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of an element."""
        return self._element

    # ---- in checkpoints

    name = "iterator"

    @functools.cached_property
    def saved_parts(self) -> Sequence[SavedPart]:
        """Its place in the dataset, from which it goes on when it is restored."""
        return (SavedPart(self, "_STATE", "", dtypes.string, self._place),)

    def _place(self) -> Any:
        handle = self._resource_handle
        held = apply_op("SerializeIterator", handle, external_state_policy=_REFUSE_STATE).held
        return convert_to_tensor(held[0].to_variant().to_proto().SerializeToString())

    def restore_parts(self, values: Sequence[Any]) -> None:
        """Go to a place that was saved."""
        (saved,) = values
        message = pb.VariantTensorDataProto.FromString(saved.numpy())
        place = np.empty(1, object)
        place[0] = read_variant(message)
        given = EagerTensor(place, dtypes.variant)
        apply_op("DeserializeIterator", self._resource_handle, given)

    def __iter__(self) -> OwnedIterator:
        return self

    def __next__(self) -> Any:
        try:
            return self.get_next()
        except errors.OutOfRangeError:
            raise StopIteration from None

    def get_next(self) -> Any:
        """Return the next element.  Raises: OutOfRangeError at the end."""
        is_eager = get_default_graph().is_eager
        if self._direct is not None and is_eager and not on_loop():
            with self._turn:
                if self._direct is not None:
                    return self._next_here(self._direct)
        handle = self._resource_handle if is_eager else self._handle
        cluster = context().cluster
        there = cluster.operations if isinstance(handle, RemoteTensor) and cluster else None
        if there is not None:
            # At the end of the sequence, TensorFlow's tasks fail all that came in one message.
            with contextlib.suppress(errors.OpError):
                there.wait_for([handle.device])
        found = apply_op("IteratorGetNext", handle, **self._attrs)
        if there is not None:
            # Whether there is another element is asked here, and not where it is used.
            there.wait_for([handle.device])
        flat = [found] if isinstance(found, Tensor) else list(found)
        return packed(self._element, flat)

    def get_next_as_optional(self) -> Optional:
        """Return the next element, if there is one."""
        return next_as_optional(self._handle, self._element)

    def _next_here(self, iterator: IteratorResource) -> Any:
        """Return the next element, made in the calling thread."""
        element = self._scope.run(drive, iterator.next(self._types, self._shapes), run_sync)
        if element is None:
            raise end_of_sequence()
        tensors = [EagerTensor(value, dtype) for value, dtype in zip(element, self._types)]
        if type(self._element) is TensorSpec:
            return tensors[0]
        return packed(self._element, tensors)


def _direct_iterator(variant: Any, handle: Any) -> IteratorResource | None:
    """Return the iterator if its elements can be made in the calling thread."""
    if not (
        isinstance(variant, EagerTensor) and variant.is_here and isinstance(handle, EagerTensor)
    ):
        return None
    if not as_dataset(variant.held).is_direct:
        return None
    device = context().devices.get(handle.held.device)
    found: IteratorResource = device.resources.lookup(handle.held, IteratorResource)
    return found


nest.register_composite(
    OwnedIterator,
    lambda iterator: [iterator.argument_handle],
    lambda like, parts: like.with_handle(parts[0]),
)


walks.over = OwnedIterator.over


@export_v2("data.IteratorSpec")
class IteratorSpec(TypeSpec):
    """What is known of an iterator: the structure of its elements.

    Args:
      element_spec: a structure of TypeSpecs.
    Example:
      >>> spec = tf.data.IteratorSpec(tf.TensorSpec([], tf.int64))
      >>> following = tf.function(lambda numbers: next(numbers), input_signature=[spec])
      >>> int(following(iter(tf.data.Dataset.range(5, 7))))
      5
    """

    __slots__ = ("_element_spec",)

    def __init__(self, element_spec: Any) -> None:
        self._element_spec = element_spec

    @classmethod
    def from_value(cls, value: OwnedIterator) -> IteratorSpec:
        """Return the spec of an iterator."""
        return cls(value.element_spec)

    @property
    def value_type(self) -> type:
        """The class of iterators."""
        return OwnedIterator

    def _stated(self) -> tuple[Any, ...]:
        return (self._element_spec,)

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The iterator's handle."""
        return (TensorSpec((), dtypes.resource),)

    def from_parts(self, parts: Sequence[Any]) -> OwnedIterator:
        """Return the iterator that a handle names."""
        (handle,) = parts
        return OwnedIterator(handle, self._element_spec)


register_type_spec(OwnedIterator, IteratorSpec.from_value)
