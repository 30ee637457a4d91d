"""What traces say of their arguments and results: specs by name, and text.

Source: tensorflow/python/eager/polymorphic_function/concrete_function.py; core/function/
trace_type/default_types.py (how types print)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.graph import Tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, type_spec_of
from tideflow.ops.framework import nest

_TENSORS = (Tensor, TensorSpec, np.ndarray, np.generic)


def argument_names(python: inspect.Signature | None, count: int) -> list[str]:
    """Return a name for each of so many positional arguments."""
    names: list[str] = []
    for parameter in () if python is None else python.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.extend(f"{parameter.name}_{i}" for i in range(count - len(names)))
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return (names + [f"arg{i}" for i in range(len(names), count)])[:count]


def named_specs(value: Any, name: str, next_spec: Callable[[], Any]) -> Any:
    """Return an argument with a TensorSpec, named by its place, for each of its tensors, and the
    TypeSpec of what consists of several.

    next_spec: gives element type and shape of one tensor after the other.
    """
    if isinstance(value, _TENSORS):
        dtype, dims = next_spec()
        own = value.name if isinstance(value, TensorSpec) else None
        return TensorSpec(dims, dtype, own or name)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value)
        return type(value)(*(named_specs(v, f"{name}_{key}", next_spec) for key, v in fields))
    if isinstance(value, (list, tuple)):
        items = [named_specs(v, f"{name}_{i}", next_spec) for i, v in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Mapping):
        made = {k: named_specs(value[k], f"{name}_{k}", next_spec) for k in sorted(value)}
        return {key: made[key] for key in value}
    if isinstance(value, TypeSpec):
        found, parts = value, value.parts
    elif nest.is_composite(value):
        found, parts = type_spec_of(value) or value, nest.flatten(value, expand_composites=True)
    else:
        return value
    for part in parts:
        # Variables, of which a composite may consist, are no arguments.
        if isinstance(part, _TENSORS):
            next_spec()
    return found


def described(value: Any) -> str:
    """Return an argument or result as types print."""
    if isinstance(value, (Tensor, TensorSpec)):
        return repr(TensorSpec(value.shape, value.dtype))
    if isinstance(value, Mapping):
        parts = [f"[{key!r}, {described(item)}]" for key, item in value.items()]
        return f"Dict[{', '.join(parts)}]"
    if isinstance(value, (list, tuple)):
        kind = "List" if isinstance(value, list) else "Tuple"
        return f"{kind}[{', '.join(map(described, value))}]"
    return "None" if value is None else f"Literal[{value!r}]"


def described_parameters(
    python: inspect.Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Return name, kind and type of each parameter that a trace was given."""
    kinds = {} if python is None else {p.name: p.kind.name for p in python.parameters.values()}
    found = []
    for name, value in [*zip(argument_names(python, len(args)), args), *kwargs.items()]:
        kind = kinds.get(name, "POSITIONAL_ONLY" if name not in kwargs else "KEYWORD_ONLY")
        found.append((name, kind, described(value)))
    return found
