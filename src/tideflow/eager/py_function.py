"""Python functions of eager tensors as ops, with gradients.

Where operations are called at once the function is called at once, and the tapes in force take
note of what it does.  In a graph it is an EagerPyFunc; its gradient needs a tape of its own.

Source: tensorflow/python/ops/script_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.eager.backprop import GradientTape, no_tapes
from tideflow.eager.eager_graph import eager_mode
from tideflow.eager.tensor import EagerTensor
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.control_flow import PythonFunction, call_in_program, errors_of_ops
from tideflow.ops.control_flow.python_functions import py_func
from tideflow.ops.export import export_v2
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType, as_dtype


@export_v2("py_function")
def py_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    name: str | None = None,
) -> Any:
    """Return the results of a Python function of eager tensors, called whenever they are evaluated.

    Args:
      func: takes one tensor for each of inp; what it returns must convert to the types Tout.
      Tout: the result's type, or a list of types (then a list is returned).
    It runs in the process that made it.  Gradients flow through it.
    Raises: InvalidArgumentError, when it runs, for results that are not as declared.
    """
    if func is None:
        raise TypeError("py_function needs func")
    is_single = not isinstance(Tout, (list, tuple))
    types = [as_dtype(t) for t in ([Tout] if is_single else Tout) if t is not None]
    inputs = [convert_to_tensor(item) for item in inp or []]
    if get_default_graph().is_eager:
        found: list[Any] = _called(func, inputs, types)
    else:
        body = _Body(func, [tensor.dtype.base_dtype for tensor in inputs], types)
        function = PythonFunction(body, body.backward)
        made = call_in_program("EagerPyFunc", inputs, function, types, name)
        found = made if isinstance(made, list) else [made]
        if not types:
            return made
    return found[0] if is_single and found else found


@export_v2("numpy_function")
def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Return the results of a Python function of NumPy arrays, called whenever they are evaluated.

    Raises: what func raises, where it is called at once; elsewhere the error of an op.
    """
    if func is None:
        raise TypeError("numpy_function needs func")
    if not get_default_graph().is_eager:
        return py_func(func, inp or [], Tout, stateful, name)
    raised: list[Exception] = []

    def noting(*args: Any) -> Any:
        try:
            return func(*args)
        except Exception as error:
            raised.append(error)
            raise

    try:
        return py_func(noting, inp or [], Tout, stateful, name)
    except errors.OpError:
        if raised:
            raise raised[0] from None
        raise


def _called(func: Callable[..., Any], inputs: Sequence[Tensor], types: list[DType]) -> list[Tensor]:
    """Call a function at once.  Raises: InvalidArgumentError for results that are not as declared;
    what TensorFlow makes of an exception of the function."""
    where = getattr(func, "__name__", "a Python function")
    with errors_of_ops(where):
        result = func(*inputs)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        if not types:
            return []
        if len(results) != len(types):
            raise errors.InvalidArgumentError(
                f"{where} returned {len(results)} values, expected {len(types)}"
            )
        return [convert_to_tensor(value, dtype) for value, dtype in zip(results, types)]


class _Body:
    """A function in a graph: called with arrays, gives arrays.

    Once its gradient was asked for, it keeps the tape of its last call, so that going back need
    not call the function again; for any other call, as of an earlier turn of a loop, it does.
    """

    def __init__(
        self, func: Callable[..., Any], input_types: list[DType], types: list[DType]
    ) -> None:
        self._func = func
        self._input_types = input_types
        self._types = types
        self._keeps_tape = False
        self._last: tuple[tuple[Any, ...], Any] | None = None

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the function's results."""
        with eager_mode(), no_tapes():
            if not self._keeps_tape:
                found = _called(self._func, _tensors(arrays, self._input_types), self._types)
            else:
                recorded = self._recorded(arrays)
                self._last = (arrays, recorded)
                found = recorded[2]
            return [_value(tensor) for tensor in found]

    def _recorded(self, arrays: Sequence[Any]) -> tuple[GradientTape, list[Tensor], list[Tensor]]:
        inputs = _tensors(arrays, self._input_types)
        with GradientTape() as tape:
            for tensor in inputs:
                if tensor.dtype.is_floating or tensor.dtype.is_complex:
                    tape.watch(tensor)
            return tape, inputs, _called(self._func, inputs, self._types)

    def backward(self, *values: Any) -> list[Any]:
        """Return the gradients of the inputs, given these and the gradients of the results."""
        self._keeps_tape = True
        count = len(self._input_types)
        arrays, grads = values[:count], values[count:]
        last, self._last = self._last, None
        with eager_mode(), no_tapes():
            is_last = last is not None and all(a is b for a, b in zip(last[0], arrays))
            tape, inputs, results = last[1] if last and is_last else self._recorded(arrays)
            found = tape.gradient(results, inputs, output_gradients=_tensors(grads, self._types))
            return [
                np.zeros_like(array) if slope is None else np.asarray(convert_to_tensor(slope))
                for slope, array in zip(found, arrays)
            ]


def _tensors(arrays: Sequence[Any], types: list[DType]) -> list[Tensor]:
    return [
        convert_to_tensor(array, dtype) if dtype is dtypes.string else EagerTensor(array, dtype)
        for array, dtype in zip(arrays, types)
    ]


def _value(tensor: Tensor) -> Any:
    """Return a tensor as an array, or the object that it holds."""
    if tensor.dtype in (dtypes.variant, dtypes.resource):
        return tensor.held  # type: ignore[attr-defined]
    return np.asarray(tensor)
