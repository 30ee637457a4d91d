"""Python functions as ops.  The function stays in the process that made the op.

A graph keeps its functions alive, a function's body those that it calls; the op names one by a
token.

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


class _Registered:
    """A function that an op may call; weakly held by the registry.

    Attributes:
      backward: takes the inputs, then a gradient for each result; gives one for each input.
    """

    __slots__ = ("__weakref__", "backward", "function")

    def __init__(
        self, function: Callable[..., Any], backward: Callable[..., Any] | None = None
    ) -> None:
        self.function = function
        self.backward = backward


_lock = threading.Lock()
_numbers = itertools.count()
_registry: weakref.WeakValueDictionary[str, _Registered] = weakref.WeakValueDictionary()


def register_function(
    function: Callable[..., Any], backward: Callable[..., Any] | None = None
) -> str:
    """Return a token by which ops of the default graph find the function (and its gradient)."""
    graph = get_default_graph()
    entry = _Registered(function, backward)
    with _lock:
        token = f"pyfunc_{next(_numbers)}"
        _registry[token] = entry
    graph.kept_alive.append(entry)
    return token


# Functions that are called by graphs which left the process, and may come back at any time.
_kept: dict[str, _Registered] = {}


def keep_python_functions(graph_pb: pb.GraphDef) -> None:
    """Keep the Python functions that a graph's functions call for as long as the process runs.

    It is called where a graph is handed to others, who may have this process run it when nothing
    here holds it any more.
    """
    for function in graph_pb.library.function:
        for node in function.node_def:
            op_def = find_op_def(node.op)
            if op_def is None or op_def.blocks != "functions":
                continue
            token = node.attr["token"].s.decode()
            entry = _registry.get(token)
            if entry is not None:
                _kept[token] = entry


def call_in_program(
    op_name: str,
    inputs: Any,
    token: str,
    types: Sequence[DTypeLike],
    name: str | None = None,
) -> Any:
    """Return what an op gives that calls a registered function.

    A program that is connected to a cluster asks for its own task, whatever device its scopes name.
    """
    graph = get_default_graph()
    task = graph.program_task
    with graph.device(task) if task else contextlib.nullcontext():
        return apply_op(op_name, list(inputs), token=token, Tout=list(types), name=name)


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

    Raises: NotFoundError for a token of another process; InvalidArgumentError for results that are
    not as declared; what TensorFlow makes of an exception of the function.
    """
    entry = _registry.get(token)
    if entry is None:
        raise errors.NotFoundError(
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
    found = call_in_program(
        "EagerPyFunc", [*inputs, *grads], register_function(entry.backward), types
    )
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
        register_function(func),
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
