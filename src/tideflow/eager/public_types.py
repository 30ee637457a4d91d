"""tf.types.experimental: what functions, tensors and the types of arguments are.

Source: tensorflow/python/types/core.py, trace.py.
"""

from __future__ import annotations

import abc
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from tideflow.eager.for_libraries import TensorType
from tideflow.eager.functions import Function
from tideflow.eager.functions import concrete_function as traces
from tideflow.eager.functions.function_type import FunctionType
from tideflow.eager.functions.trace_types import SupportsTracingProtocol, TraceType
from tideflow.ops.export import export_v2, export_value, export_value_v2


@runtime_checkable
class TensorProtocol(Protocol):
    """What becomes a tensor by a method of its own."""

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        """Return the tensor."""


@export_v2("types.experimental.Callable")
class Callable(abc.ABC):
    """What is called on tensors, and is a graph: functions and their traces."""

    @property
    @abc.abstractmethod
    def function_type(self) -> FunctionType:
        """What it takes and gives."""


@export_v2("types.experimental.AtomicFunction")
class AtomicFunction(Callable):
    """A graph as a function, without gradients."""


@export_v2("types.experimental.ConcreteFunction")
class ConcreteFunction(Callable):
    """One trace of a function."""

    @property
    @abc.abstractmethod
    def inference_fn(self) -> AtomicFunction:
        """The graph as a function."""


@export_v2("types.experimental.GenericFunction", "types.experimental.PolymorphicFunction")
class PolymorphicFunction(Callable):
    """A function that is traced for each kind of arguments, as tf.function makes them."""

    @abc.abstractmethod
    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the trace for arguments."""


PolymorphicFunction.register(Function)
ConcreteFunction.register(traces.ConcreteFunction)
AtomicFunction.register(traces.GraphFunction)

TensorLike = Union[  # noqa: UP007 (programs look for the members of a typing.Union)
    TensorType,
    TensorProtocol,
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    tuple,  # type: ignore[type-arg]
    list,  # type: ignore[type-arg]
    np.ndarray,
    np.generic,
]
export_value("types.experimental.TensorLike", TensorLike)
export_value("types.experimental.FunctionType", FunctionType)
export_value_v2("types.experimental.TraceType", TraceType)
export_value_v2("types.experimental.SupportsTracingProtocol", SupportsTracingProtocol)
