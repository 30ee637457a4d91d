"""Python functions as ops.  The function stays in the process that made the op.

The op names its function by a token.  A graph holds the functions that its ops name; a graph that
was written to be run elsewhere is text, so whoever may run it holds them (`python_functions_of`).

Source: tensorflow/python/ops/script_ops.py, python/lib/core/py_func.cc.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import find_op_def, op
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.platform import threads
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType


class PythonFunction:
    """A function that ops may call for as long as somebody holds this.

    Attributes:
      backward: takes the inputs, then a gradient for each result; gives one for each input.
      token: by which ops name it.
    """

    __slots__ = ("__weakref__", "backward", "function", "token")

    def __init__(
        self, function: Callable[..., Any], backward: Callable[..., Any] | None = None
    ) -> None:
        self.function = function
        self.backward = backward
        self.token = f"pyfunc_{next(_numbers)}"
        with _lock:
            _registry[self.token] = self


_lock = threading.Lock()
_numbers = itertools.count()
_registry: weakref.WeakValueDictionary[str, PythonFunction] = weakref.WeakValueDictionary()


def registered_functions() -> list[str]:
    """Return the tokens of all functions that ops of this process may call."""
    with _lock:
        return list(_registry)


def python_functions_of(graph_pb: pb.GraphDef) -> list[PythonFunction]:
    """Return those of this process's Python functions that a graph's functions call.

    Whoever may have the graph run when nobody else holds them any more keeps what this returns,
    and drops it at the end.
    """
    found = []
    for function in graph_pb.library.function:
        for node in function.node_def:
            op_def = find_op_def(node.op)
            if op_def is not None and op_def.blocks == "functions":
                entry = _registry.get(node.attr["token"].s.decode())
                if entry is not None:
                    found.append(entry)
    return found


def call_in_program(
    op_name: str,
    inputs: Any,
    function: PythonFunction,
    types: Sequence[DTypeLike],
    name: str | None = None,
) -> Any:
    """Return what an op gives that calls a function; the default graph holds the function, unless
    it runs operations at once.

    A program that is connected to a cluster asks for its own task, whatever device its scopes name.
    """
    graph = get_default_graph()
    task = graph.program_task
    if not graph.is_eager:
        graph.kept_alive.append(function)
    with graph.device(task) if task else contextlib.nullcontext():
        return apply_op(op_name, list(inputs), token=function.token, Tout=list(types), name=name)


_CODES: tuple[tuple[type[BaseException], type[errors.OpError]], ...] = (
    (ValueError, errors.InvalidArgumentError),
    (TypeError, errors.InvalidArgumentError),
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
)


@contextlib.contextmanager
def errors_of_ops(where: str) -> Iterator[None]:
    """Turn exceptions of a Python function into those that TensorFlow makes of them."""
    try:
        yield
    except errors.OpError:
        raise
    except Exception as error:
        code = next((c for kind, c in _CODES if isinstance(error, kind)), errors.UnknownError)
        raise code(f"{type(error).__name__}: {error} (in {where})") from error


def _call(token: str, inputs: list[Any], types: list[DType]) -> list[Any]:
    """Call a function with arrays; return its results as arrays of the types.

    Raises: InvalidArgumentError for a token of another process, and for results that are not as
    declared; what TensorFlow makes of an exception of the function.
    """
    entry = _registry.get(token)
    if entry is None:
        raise errors.InvalidArgumentError(
            f"no Python function is registered as {token!r} in this process; a py_func must run in "
            "the process that made it"
        )
    # A scalar string is given as bytes, as in TensorFlow.
    args = [x.item() if _is_scalar_string(x) else x for x in inputs]
    with errors_of_ops(token), threads.with_signals():
        result = entry.function(*args)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    if not types:
        return []
    if len(results) != len(types):
        raise errors.InvalidArgumentError(
            f"{token} returned {len(results)} values, expected {len(types)}"
        )
    return [_as_declared(token, value, dtype) for value, dtype in zip(results, types)]


def _is_scalar_string(x: Array) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "O" and not x.ndim


def _as_declared(token: str, value: Array, dtype: DType) -> Any:
    if dtype in (dtypes.variant, dtypes.resource):
        return value
    array = np.asarray(value)
    if dtype is dtypes.string and array.dtype.kind in "SUO":
        made = np.empty(array.shape, object)
        flat = made.reshape(-1)
        for i, item in enumerate(array.reshape(-1).tolist()):
            flat[i] = item.encode() if isinstance(item, str) else item
        return made
    if array.dtype != dtype.as_numpy_dtype:
        raise errors.InvalidArgumentError(
            f"{token} returned {array.dtype.name}, expected {dtype.name}"
        )
    return array


@op(
    """
    PyFunc(input: *Tin) -> output: *Tout
    token: string
    Tin: list(type) >= 0
    Tout: list(type) >= 0
    """,
    stateful=True,
    blocks="functions",
)
def py_func_kernel(ctx: KernelContext, inputs: list[Any], *, token: str, Tout: list[DType]) -> Any:
    """Call the function."""
    return _call(token, inputs, Tout)


@op(
    """
    PyFuncStateless(input: *Tin) -> output: *Tout
    token: string
    Tin: list(type) >= 0
    Tout: list(type) >= 0
    """,
    blocks="functions",
)
def py_func_stateless_kernel(
    ctx: KernelContext, inputs: list[Any], *, token: str, Tout: list[DType]
) -> Any:
    """Call the function."""
    return _call(token, inputs, Tout)


@op(
    """
    EagerPyFunc(input: *Tin) -> output: *Tout
    token: string
    is_async: bool = false
    Tin: list(type) >= 0
    Tout: list(type) >= 0
    """,
    stateful=True,
    blocks="functions",
)
def eager_py_func_kernel(
    ctx: KernelContext, inputs: list[Any], *, token: str, Tout: list[DType]
) -> Any:
    """Call the function."""
    return _call(token, inputs, Tout)


not_differentiable("PyFunc", "PyFuncStateless")


@gradient("EagerPyFunc")
def eager_py_func_gradient(op: Operation, *grads: Tensor) -> list[Any]:
    """Call what was registered as the function's gradient."""
    token = op.attrs["token"]
    entry = _registry.get(token)
    if entry is None or entry.backward is None:
        raise LookupError(f"no gradient is registered in this process for the function {token!r}")
    inputs = list(op.inputs)
    types = [tensor.dtype for tensor in inputs]
    found = call_in_program("EagerPyFunc", [*inputs, *grads], PythonFunction(entry.backward), types)
    for slope, tensor in zip(found, inputs):
        slope.set_shape(tensor.shape)
    return [
        slope if dtype.is_floating or dtype.is_complex else None
        for slope, dtype in zip(found, types)
    ]


@export("py_func")
def py_func(
    func: Callable[..., Any],
    inp: Any,
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Return the results of a Python function of arrays, called whenever they are evaluated.

    Args:
      func: takes one NumPy array for each of inp, gives one for each of Tout.
      Tout: the result's type, or a list of types (then a list is returned).
      stateful: whether it may give other results for the same inputs.
    """
    single = not isinstance(Tout, (list, tuple))
    made = call_in_program(
        "PyFunc" if stateful else "PyFuncStateless",
        inp,
        PythonFunction(func),
        [Tout] if single else Tout,
        name,
    )
    return made[0] if single and isinstance(made, list) else made


@export("numpy_function")
def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: TensorLike | None = None,
    Tout: DTypeLike | None = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Return what py_func does."""
    if func is None:
        raise TypeError("numpy_function needs func")
    return py_func(func, inp or [], Tout, stateful, name)
