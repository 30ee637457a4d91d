"""`tf.raw_ops`: every op by its own name, called by the names of its inputs and attrs."""

from __future__ import annotations

import functools
import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from tideflow.graph.building import apply_op
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import get_op_def, is_registered
from tideflow.ops.export import export_value, export_value_v2
from tideflow.wire import errors


@runtime_checkable
class NamedFunction(Protocol):
    """A function that attrs can name."""

    def function_ref(self) -> FunctionRef:
        """Return an attr for an operation of the default graph, which knows the function then."""


_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def find_op(name: str) -> Callable[..., Any]:
    """Return the function that calls an op.  Raises: AttributeError for one that is not there."""
    if name.startswith("__") or not is_registered(name):
        raise AttributeError(f"tf.raw_ops has no op {name!r}")
    made = functools.partial(_call, name)
    made.__doc__ = f"Call {name} by the names of its inputs and attrs."
    made.__signature__ = _signature(name)  # type: ignore[attr-defined]
    return made


def _signature(name: str) -> inspect.Signature:
    """Return inputs, then the attrs that the inputs do not tell: those demanded come first."""
    op_def = get_op_def(name)
    told = {
        attr
        for arg in op_def.inputs
        for attr in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    }
    attrs = [attr for attr_name, attr in op_def.attrs.items() if attr_name not in told]
    demanded = [inspect.Parameter(arg.name, _BY_NAME) for arg in op_def.inputs]
    demanded += [inspect.Parameter(a.name, _BY_NAME) for a in attrs if a.required]
    others = [
        inspect.Parameter(a.name, _BY_NAME, default=a.default) for a in attrs if not a.required
    ]
    return inspect.Signature(
        [*demanded, *others, inspect.Parameter("name", _BY_NAME, default=None)]
    )


def _call(op_name: str, /, *args: Any, **kwargs: Any) -> Any:
    if args:
        raise TypeError(
            f"{op_name} only takes keyword args (possible keys: "
            f"{[arg.name for arg in get_op_def(op_name).inputs]} and its attrs); pass them by name"
        )
    label = kwargs.pop("name", None)
    inputs = []
    for arg in get_op_def(op_name).inputs:
        if arg.name not in kwargs:
            raise TypeError(f"{op_name} needs input {arg.name!r}")
        inputs.append(kwargs.pop(arg.name))
    for attr in get_op_def(op_name).attrs.values():
        if attr.kind in ("func", "list(func)") and attr.name in kwargs:
            kwargs[attr.name] = _function_attr(op_name, kwargs[attr.name])
    found = apply_op(op_name, *inputs, name=label, **kwargs)
    outputs = get_op_def(op_name).outputs
    return _results(op_name)(*found) if len(outputs) > 1 else found


def _function_attr(op_name: str, value: Any) -> Any:
    """Return what an attr holds of a function, or of several.

    Raises: InvalidArgumentError for what is neither a function nor the name of one.
    """
    if isinstance(value, (list, tuple)):
        return [_function_attr(op_name, item) for item in value]
    if isinstance(value, NamedFunction):
        return value.function_ref()
    if isinstance(value, (str, bytes)):
        return FunctionRef(value.decode() if isinstance(value, bytes) else value)
    if isinstance(value, FunctionRef):
        return value
    raise errors.InvalidArgumentError(
        f"unable to set function value attribute from a {type(value).__name__} object: "
        f"{op_name} takes concrete functions and names of functions"
    )


@functools.cache
def _results(op_name: str) -> Any:
    """Return the class of the outputs of an op that has several."""
    names = [output.name for output in get_op_def(op_name).outputs]
    return namedtuple(op_name, names, rename=True)


# A module finds by it what it does not hold.
export_value("raw_ops.__getattr__", find_op)
export_value_v2("raw_ops.__getattr__", find_op)
