"""Gradients that users give: for an op, or for a piece of a graph.

Source: tensorflow/python/framework/ops.py (RegisterGradient) and
tensorflow/python/ops/gradients/custom.py.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tideflow.graph import gradient_registry, roles
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.defaults import local
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import nest

F = TypeVar("F", bound=Callable[..., Any])

_uid = itertools.count()


@export("RegisterGradient")
class RegisterGradient:
    """Register the decorated function as the gradient of an op type.

    The function takes the Operation and one gradient for each output, and returns one for each
    input.  Raises: ValueError when the op type has a gradient already.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError(f"op_type must be a string; found {op_type!r}")
        self._op_type = op_type

    def __call__(self, function: F) -> F:
        return gradient_registry.gradient(self._op_type)(function)


@export("NotDifferentiable", "NoGradient")
def not_differentiable(op_type: str) -> None:
    """Say that no gradient flows through ops of this type.

    Raises: ValueError when the op type has a gradient already.
    """
    gradient_registry.not_differentiable(op_type)


@export("custom_gradient")
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function of tensors a gradient of its own.

    `f(*args)` takes tensors or structures of them and returns its result, a tensor or a structure,
    and `grad_fn(*dys)`, which takes a gradient for each tensor of the result and returns those of
    args.  Where f reads variables, grad_fn takes `variables=` and returns a pair: the gradients of
    args, and a list with those of the variables.
    """

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        is_eager = get_default_graph().is_eager
        inputs = [convert_to_tensor(a) for a in nest.flatten(args, expand_composites=True)]
        if not is_eager:
            inputs = [apply_op("Identity", a) for a in inputs]
        given = nest.pack_sequence_as(args, inputs, expand_composites=True)
        reads = _Reads()
        saved, local.tapes = local.tapes, (*local.tapes, reads)
        try:
            result, grad_fn = f(*given, **kwargs)
        finally:
            local.tapes = saved
        results = [convert_to_tensor(r) for r in nest.flatten(result, expand_composites=True)]
        put = _noted if is_eager else _behind
        outputs = put(inputs, results, grad_fn, reads.variables)
        return nest.pack_sequence_as(result, outputs, expand_composites=True)

    return decorated


class _Reads:
    """Stands among the tapes to see which eager variables are read; notes nothing else."""

    is_forward = is_persistent = False

    def __init__(self) -> None:
        self.variables: list[Any] = []

    def wants(self, inputs: TensorLike) -> bool:
        return False

    def record(self, op: Operation, inputs: TensorLike, backward: object | None = None) -> None:
        """Leave operations to the tapes."""

    def extend(self, op: Operation, outputs: TensorLike) -> None:
        """Leave results to the tapes."""

    def watch_accessed(self, variable: object) -> None:
        if not any(variable is other for other in self.variables):
            self.variables.append(variable)


@contextlib.contextmanager
def only_reads_noted() -> Iterator[None]:
    """Let no tape take notes inside `with`; a custom gradient around still sees what is read."""
    tapes = local.tapes
    local.tapes = tuple(tape for tape in tapes if isinstance(tape, _Reads))
    try:
        yield
    finally:
        local.tapes = tapes


class _Call:
    """A call of a function with a gradient of its own, as a tape notes it."""

    def __init__(self, outputs: list[Tensor]) -> None:
        self.outputs = outputs


def _takes_variables(grad_fn: Callable[..., Any], variables: list[Any]) -> bool:
    takes = "variables" in inspect.signature(grad_fn).parameters
    if variables and not takes:
        raise TypeError(
            "a function with @tf.custom_gradient reads variables "
            f"({', '.join(v.name for v in variables)}); let its grad_fn take `variables=None` and "
            "return (gradients of args, gradients of variables)"
        )
    return takes


def _noted(
    inputs: list[Tensor], results: list[Tensor], grad_fn: Callable[..., Any], variables: list[Any]
) -> list[Tensor]:
    """Return eager results that the tapes know to come of the inputs by grad_fn alone.

    What the function did is noted, too: gradients of grad_fn may go through it.
    """
    takes_variables = _takes_variables(grad_fn, variables)
    tapes = local.tapes
    # What goes forwards goes through what the function did.
    local.tapes = tuple(tape for tape in tapes if tape.is_forward)
    try:
        outputs = list(apply_op("IdentityN", results))
    finally:
        local.tapes = tapes

    def backward(*grads: Any) -> list[Any]:
        given = [g if g is not None else apply_op("ZerosLike", y) for g, y in zip(grads, outputs)]
        return _called(grad_fn, given, takes_variables, variables)

    for tape in tapes:
        if not tape.is_forward:
            tape.record(_Call(outputs), [*inputs, *(v.handle for v in variables)], backward)
    return outputs


def _called(
    grad_fn: Callable[..., Any], grads: Sequence[Any], takes_variables: bool, variables: list[Any]
) -> list[Any]:
    if takes_variables and variables:
        arg_grads, variable_grads = grad_fn(*grads, variables=variables)
    else:
        arg_grads, variable_grads = grad_fn(*grads), []
    flat = nest.flatten(arg_grads)
    return flat + list(variable_grads)


def _behind(
    inputs: list[Tensor], results: list[Tensor], grad_fn: Callable[..., Any], read: list[Any]
) -> list[Tensor]:
    """Return the results behind an IdentityN whose gradient is grad_fn's."""
    handles = _variables_between(inputs, results)
    variables = [*_owners(handles), *read]
    handles.extend(variable.handle for variable in read)
    takes_variables = _takes_variables(grad_fn, variables)
    name = f"CustomGradient-{next(_uid)}"
    count = len(results)

    def internal(op: Operation, *grads: Any) -> list[Any]:
        del op
        found = _called(grad_fn, grads[:count], takes_variables, variables)
        return [None] * count + found

    gradient_registry.gradient(name)(internal)
    tapes = local.tapes
    local.tapes = tuple(tape for tape in tapes if not tape.is_forward)
    try:
        with get_default_graph().gradient_override_map({"IdentityN": name}):
            outputs = list(apply_op("IdentityN", [*results, *inputs, *handles]))[:count]
    finally:
        local.tapes = tapes
    for tape in tapes:
        if tape.is_forward:
            tape.hand_on(results, outputs)
    return outputs


def _variables_between(inputs: list[Tensor], results: list[Tensor]) -> list[Tensor]:
    """Return the handles of variables on which results depend other than through inputs."""
    stop = {t.op for t in inputs}
    found: dict[Operation, None] = {}
    seen: set[Operation] = set(stop)
    stack = [t.op for t in results]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.op_def.role is roles.VARIABLE_HANDLE:
            found[op] = None
        stack.extend(t.op for t in op.inputs)
    return [op.outputs[0] for op in found]


def _owners(handles: list[Tensor]) -> list[Any]:
    """Return the variables of handles, where the graph's collections know them."""
    graph = get_default_graph()
    by_handle: dict[int, Any] = {}
    for key in graph.get_all_collection_keys():
        for member in graph.get_collection(key):
            handle = getattr(member, "handle", None)
            if isinstance(handle, Tensor):
                by_handle.setdefault(id(handle), member)
    return [by_handle.get(id(handle), handle) for handle in handles]
