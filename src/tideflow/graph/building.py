"""Calling an op by name: inputs converted, attrs inferred, the operation made.

Every public function comes down to `apply_op`.  The rules are TensorFlow's: a type that several
inputs share is set by the first tensor among them; Python values take that type, or their own
natural one (float32, int32) if the op allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.array_values import UnsupportedValue, short_text, to_array
from tideflow.graph.dimension import Dimension
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.node import arg_sizes, grouped
from tideflow.graph.op_def import ArgDef, AttrDef, OpDef, get_op_def
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType, as_dtype


class _MismatchedType(TypeError):
    """A tensor of one type was given where another is wanted."""


class _DisallowedType(TypeError):
    """An op was given a type that it does not take."""


Converter = Callable[[Any, DType | None, str | None], Any]

_converters: list[tuple[type | tuple[type, ...], Converter]] = []
# The method by which classes of libraries become tensors, with (dtype, name).
_PROTOCOL = "__tf_tensor__"


def register_tensor_conversion(kinds: type | tuple[type, ...], convert: Converter) -> None:
    """Teach convert_to_tensor a Python class: convert(value, dtype, name) -> Tensor."""
    _converters.append((kinds, convert))


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
) -> Tensor:
    """Return value as a tensor of the default graph.

    Args:
      value: a tensor, variable, array, number, string, or nested list of these.
      dtype: the type that it must have.
      preferred_dtype: the type to use if nothing else decides and value fits.
    Raises: ValueError for a tensor of another type; TypeError for a value that cannot be one.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        if wanted is not None and not wanted.is_compatible_with(value.dtype):
            raise ValueError(
                f"tensor {value.shown_name!r} has type {value.dtype.name}; {wanted.name} is wanted "
                "(tf.cast converts)"
            )
        return value
    for kinds, convert in reversed(_converters):
        if isinstance(value, kinds):
            converted: Tensor = convert(value, wanted, name)
            return converted
    convert_itself = getattr(type(value), _PROTOCOL, None)
    if convert_itself is not None:
        itself: Tensor = convert_itself(value, wanted, name)
        return itself
    hint = preferred_dtype if preferred_dtype is not None else dtype_hint
    value = _with_plain_sizes(value)
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return _pack(value, wanted, name, None if hint is None else as_dtype(hint))
    if wanted is None and hint is not None and not _is_fraction_for(value, as_dtype(hint)):
        try:
            # The wish of an op that takes several types changes no number.
            wraps = preferred_dtype is None
            return constant_tensor(value, as_dtype(hint), None, name, wraps=wraps)
        except (TypeError, ValueError):
            pass
    return constant_tensor(value, wanted, None, name)


def _with_plain_sizes(value: Any) -> Any:
    """Return a value in which numbers stand for Dimension objects, in lists, too.

    Raises: ValueError for an unknown size, which has no number.
    """
    if isinstance(value, Dimension):
        if value.value is None:
            raise ValueError("an unknown size (Dimension(None)) cannot become a tensor")
        return value.value
    if type(value) in (list, tuple) and any(isinstance(v, (Dimension, list, tuple)) for v in value):
        return [_with_plain_sizes(v) for v in value]
    return value


def _is_fraction_for(value: Any, hint: DType) -> bool:
    """Whether NumPy's floats meet a wish for integers, which does not change them."""
    is_float = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f"
    return is_float and hint.is_integer


def _holds_tensor(values: Sequence[Any]) -> bool:
    registered = tuple(kind for kinds, _ in _converters for kind in _as_tuple(kinds))
    return any(
        isinstance(v, (Tensor, *registered))
        or hasattr(type(v), _PROTOCOL)
        or (isinstance(v, (list, tuple)) and _holds_tensor(v))
        for v in values
    )


def _as_tuple(kinds: type | tuple[type, ...]) -> tuple[type, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _pack(
    values: Sequence[Any], wanted: DType | None, name: str | None, hint: DType | None
) -> Tensor:
    """Stack a list that holds tensors, of the type wanted, else of its first tensor's.

    hint: the type wanted where it has whole numbers and the first tensor has fractions.
    """
    first = _first_dtype(values)
    if wanted is None and _loses_fractions(first, hint):
        wanted = hint
    dtype = first if wanted is None else wanted.base_dtype
    is_eager = get_default_graph().is_eager

    def part(value: Any) -> Any:
        stated = _stated_dtype(value)
        if stated not in (None, dtype) and dtype is not first:
            return apply_op("Cast", value, DstT=dtype)
        # Another type than the first tensor's is the op's to refuse.
        leaves = is_eager and dtype is first and isinstance(value, Tensor)
        return value if leaves else convert_to_tensor(value, dtype)

    packed: Tensor = apply_op("Pack", list(map(part, values)), axis=0, name=name or "packed")
    return packed


def _loses_fractions(first: DType | None, hint: DType | None) -> bool:
    """Whether a list of tensors with fractions becomes whole numbers, such as sizes, at a hint."""
    return first is not None and hint is not None and hint.is_integer and first.is_floating


def _first_dtype(values: Sequence[Any]) -> DType | None:
    for value in values:
        nested = isinstance(value, (list, tuple))
        found = _first_dtype(value) if nested else _stated_dtype(value)
        if found is not None:
            return found
    return None


def _stated_dtype(value: Any) -> DType | None:
    """Return the element type of a tensor or what stands for one; None for arrays and others."""
    declared = getattr(value, "dtype", None)
    if declared is None or isinstance(value, (np.ndarray, np.generic)):
        return None
    return as_dtype(declared).base_dtype


def constant_tensor(
    value: Any,
    dtype: DType | None,
    shape: Any = None,
    name: str | None = None,
    *,
    wraps: bool = True,
) -> Tensor:
    """Return a Const of a Python value or array.

    wraps: whether integers may lose bits that the type has no room for, where operations are called
      at once and in functions; TensorFlow cuts them off there.
    Raises: TypeError for a value that does not fit the type wanted; ValueError for one that cannot
    be given the shape, for None and lists of different lengths.  For another value without element
    type: TypeError in a graph, ValueError where operations are called at once.
    """
    graph = get_default_graph()
    value = _with_plain_sizes(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.names:
        dtype = dtype or as_dtype(value.dtype)
        value = dtypes.without_field(np.asarray(value))
    if graph.is_eager and dtype is not None and isinstance(value, bool):
        value = int(value) if dtype.is_integer or dtype.is_floating else value
    try:
        array = to_array(value, dtype, wraps and (graph.is_eager or graph.building_function))
    except UnsupportedValue as error:
        kind = ValueError if graph.is_eager else TypeError
        raise kind(str(error)) from None
    if shape is not None:
        dims = TensorShape(shape)
        wanted = tuple(int(size) for size in dims.as_list() if size is not None)
        if array.shape != wanted:
            count = int(np.prod(wanted, dtype=np.int64))
            if array.size == 1:
                array = np.full(wanted, array.reshape(())[()], array.dtype)
            elif array.size == count:
                array = array.reshape(wanted)
            else:
                raise ValueError(
                    f"a constant of {array.size} elements cannot be given shape {list(wanted)}"
                )
    # A variable's own type, which constants beside it are asked to have, may be of a reference.
    found = (dtype or dtypes.dtype_of(array)).base_dtype
    op = get_default_graph().create_op("Const", [], {"value": array, "dtype": found}, name)
    return op.outputs[0]


# ---- apply_op


def apply_op(op_name: str, *args: Any, name: str | None = None, **attrs: Any) -> Any:
    """Make an operation in the default graph and return its outputs.

    Args:
      op_name: a registered op.
      args: one value for each input of the signature; a list where it takes one.
      name: wish for the operation's name.
      attrs: attr values; those that follow from the inputs may be left out.
    Returns: the Operation if it has no outputs; the Tensor if it has one; otherwise a list, in
    which a list-valued output is a list of its own (or the list itself, if it is the only one).
    Raises: TypeError for inputs of wrong types or missing attrs; ValueError for bad attr values.
    """
    graph = get_default_graph()
    if graph.is_eager:
        return graph.call_op(op_name, args, attrs, name)
    op = make_op(get_op_def(op_name), args, attrs, name)
    return shape_outputs(op)


def shape_outputs(op: Operation) -> Any:
    """Return an operation's outputs as apply_op does."""
    declared = op.op_def.outputs
    if len(declared) == 1 and not declared[0].is_list:
        return op.outputs[0]
    if not declared:
        return op
    return grouped(op.outputs, arg_sizes(declared, op.attrs))


def make_op(
    op_def: OpDef, args: Sequence[Any], attrs: dict[str, Any], name: str | None
) -> Operation:
    """Convert inputs, complete attrs and make the operation (see apply_op)."""
    graph = get_default_graph()
    scope = name or op_def.name
    if not op_def.inputs:
        inputs, known = convert_inputs(op_def, args, attrs)
        return graph.create_op(op_def, inputs, known, scope)
    with graph.name_scope(scope) as prefix:
        inputs, known = convert_inputs(op_def, args, attrs)
    return graph.create_op(op_def, inputs, known, prefix)


def convert_inputs(
    op_def: OpDef, args: Sequence[Any], attrs: dict[str, Any]
) -> tuple[list[Tensor], dict[str, Any]]:
    """Return an op's inputs as a flat list of tensors, and all of its attrs (see apply_op).

    Raises: where operations are called at once InvalidArgumentError for tensors of types that the
    op does not take, or not together, as TensorFlow, whose kernels find them there.
    """
    try:
        return _converted_inputs(op_def, args, attrs)
    except (_MismatchedType, _DisallowedType) as error:
        kind = errors.InvalidArgumentError if get_default_graph().is_eager else TypeError
        raise kind(str(error)) from None


def _converted_inputs(
    op_def: OpDef, args: Sequence[Any], attrs: dict[str, Any]
) -> tuple[list[Tensor], dict[str, Any]]:
    if len(args) != len(op_def.inputs):
        names = ", ".join(arg.name for arg in op_def.inputs)
        raise TypeError(
            f"{op_def.name} takes {len(op_def.inputs)} inputs ({names}), not {len(args)}"
        )
    known = _given_attrs(op_def, attrs)
    _infer_from_tensors(op_def, args, known)
    inputs: list[Tensor] = []
    for arg, value in zip(op_def.inputs, args):
        inputs.extend(_convert_arg(op_def, arg, value, known))
    for attr in op_def.attrs.values():
        if attr.name not in known:
            if attr.required:
                raise TypeError(f"{op_def.name} needs attr {attr.name!r} ({attr.kind})")
            known[attr.name] = attr.default
    return inputs, known


def _given_attrs(op_def: OpDef, attrs: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, value in attrs.items():
        declared = op_def.attrs.get(name)
        if declared is None:
            if name.startswith("_"):
                known[name] = value
                continue
            raise TypeError(f"{op_def.name} has no attr {name!r}; it has {sorted(op_def.attrs)}")
        if value is None and not declared.required:
            continue
        known[name] = check_attr(op_def.name, declared, value)
    return known


def check_attr(op_name: str, attr: AttrDef, value: Any) -> Any:
    """Return an attr value in its canonical Python form.

    Raises: TypeError or ValueError naming op, attr and what is allowed.
    """
    try:
        canonical = _canonical(attr.kind, value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"attr {attr.name!r} of {op_name} must be a {attr.kind}: {error}") from None
    _check_bounds(op_name, attr, canonical)
    return canonical


def _check_bounds(op_name: str, attr: AttrDef, value: Any) -> None:
    if attr.allowed is not None:
        for item in value if attr.kind.startswith("list") else [value]:
            if item not in attr.allowed:
                allowed = ", ".join(_allowed_name(a) for a in attr.allowed)
                kind = _DisallowedType if isinstance(item, DType) else ValueError
                raise kind(
                    f"attr {attr.name!r} of {op_name} is {_allowed_name(item)}; allowed: {allowed}"
                )
    if attr.minimum is not None:
        size = len(value) if attr.kind.startswith("list") else value
        if size < attr.minimum:
            raise ValueError(
                f"attr {attr.name!r} of {op_name} is {value!r}; the least allowed is {attr.minimum}"
            )


def _allowed_name(value: Any) -> str:
    return value.name if isinstance(value, DType) else str(value)


def _canonical(kind: str, value: Any) -> Any:
    if kind.startswith("list("):
        if isinstance(value, (str, bytes)):
            raise TypeError(f"found {value!r}, no list")
        return [_canonical(kind[5:-1], item) for item in value]
    return _CANONICAL[kind](value)


def _as_string(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"found {value!r}")
    return value


def _as_bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_, int)):
        raise TypeError(f"found {value!r}")
    return bool(value)


def _as_int(value: Any) -> int:
    if isinstance(value, float) and value != int(value):
        raise TypeError(f"found {value!r}")
    return int(value)


def _same(value: Any) -> Any:
    return value


_CANONICAL: dict[str, Callable[[Any], Any]] = {
    "type": lambda value: as_dtype(value).base_dtype,
    "int": _as_int,
    "float": float,
    "bool": _as_bool,
    "string": _as_string,
    "shape": TensorShape,
    "tensor": _same,
    "func": _same,
}


def _infer_from_tensors(op_def: OpDef, args: Sequence[Any], known: dict[str, Any]) -> None:
    """Let inputs that have a type already (tensors, variables) settle shared type attrs."""
    for arg, value in zip(op_def.inputs, args):
        if not arg.type_attr or arg.type_attr in known:
            continue
        dtype = _first_dtype(value) if arg.number_attr else _symbolic_dtype(value)
        is_list = isinstance(value, (list, tuple)) and not arg.number_attr
        if is_list and _loses_fractions(dtype, op_def.attrs[arg.type_attr].default):
            continue
        if dtype is not None:
            known[arg.type_attr] = _allowed_type(op_def, arg, dtype)


def _symbolic_dtype(value: Any) -> DType | None:
    if isinstance(value, Tensor):
        return value.dtype.base_dtype
    return _first_dtype([value])


def _allowed_type(op_def: OpDef, arg: ArgDef, dtype: DType) -> DType:
    attr = op_def.attrs[arg.type_attr]
    if attr.allowed is not None and dtype not in attr.allowed:
        allowed = ", ".join(t.name for t in attr.allowed)
        raise _DisallowedType(
            f"input {arg.name!r} of {op_def.name} is {dtype.name}; allowed: {allowed}"
        )
    return dtype


def _convert_arg(op_def: OpDef, arg: ArgDef, value: Any, known: dict[str, Any]) -> list[Tensor]:
    if arg.type_list_attr:
        return _convert_type_list(op_def, arg, value, known)
    if not arg.number_attr:
        return [_convert_one(op_def, arg, value, known, arg.name)]
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"input {arg.name!r} of {op_def.name} must be a list, not {short_text(value)}"
        )
    declared = known.setdefault(arg.number_attr, len(value))
    if declared != len(value):
        raise ValueError(
            f"input {arg.name!r} of {op_def.name} has {len(value)} tensors; "
            f"{arg.number_attr} says {declared}"
        )
    _check_bounds(op_def.name, op_def.attrs[arg.number_attr], len(value))
    return [
        _convert_one(op_def, arg, item, known, f"{arg.name}_{i}") for i, item in enumerate(value)
    ]


def _convert_type_list(
    op_def: OpDef, arg: ArgDef, value: Any, known: dict[str, Any]
) -> list[Tensor]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    types = known.get(arg.type_list_attr)
    if types is not None and len(types) != len(values):
        raise ValueError(
            f"input {arg.name!r} of {op_def.name} has {len(values)} tensors for {len(types)} types"
        )
    tensors = [
        convert_to_tensor(item, None if types is None else types[i], f"{arg.name}_{i}")
        for i, item in enumerate(values)
    ]
    if types is None:
        known[arg.type_list_attr] = [t.dtype.base_dtype for t in tensors]
        _check_bounds(op_def.name, op_def.attrs[arg.type_list_attr], known[arg.type_list_attr])
    return tensors


def _convert_one(
    op_def: OpDef, arg: ArgDef, value: Any, known: dict[str, Any], name: str
) -> Tensor:
    """Return an input as a tensor; what is made of a value is called name, as in TensorFlow."""
    wanted = arg.dtype if arg.dtype is not None else known.get(arg.type_attr)
    if arg.is_ref:
        return _convert_ref(op_def, arg, value, known)
    if isinstance(value, Tensor) and wanted and not wanted.is_compatible_with(value.dtype):
        raise _MismatchedType(
            f"input {arg.name!r} of {op_def.name}: tensor {value.shown_name!r} has type "
            f"{value.dtype.name}; {wanted.name} is wanted (tf.cast converts)"
        )
    try:
        if wanted is not None:
            tensor = convert_to_tensor(value, wanted, name)
        else:
            attr = op_def.attrs[arg.type_attr]
            preferred = attr.default
            if (
                preferred is None
                and attr.allowed
                and isinstance(value, (list, tuple))
                and not value
            ):
                preferred = attr.allowed[0]  # nothing in it says what it is: the shape of a scalar
            tensor = convert_to_tensor(value, name=name, preferred_dtype=preferred)
    except (TypeError, ValueError) as error:
        raise type(error)(f"input {arg.name!r} of {op_def.name}: {error}") from None
    if arg.dtype is None:
        known.setdefault(arg.type_attr, _allowed_type(op_def, arg, tensor.dtype.base_dtype))
    return tensor


def _convert_ref(op_def: OpDef, arg: ArgDef, value: Any, known: dict[str, Any]) -> Tensor:
    reference = getattr(value, "_ref", None)
    tensor = reference() if callable(reference) else value
    if not isinstance(tensor, Tensor) or not tensor.dtype.is_ref_dtype:
        raise TypeError(
            f"input {arg.name!r} of {op_def.name} must be a reference to a variable, "
            f"not {short_text(value)}"
        )
    if arg.type_attr:
        known.setdefault(arg.type_attr, tensor.dtype.base_dtype)
    return tensor
