"""The arguments of a traced function: which are tensors, and what else tells traces apart.

Tensors and arrays count by element type and shape, wherever they stand in nested structures;
variables by identity; everything else by its value.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tideflow.eager.functions.descriptions import (
    argument_names,
    described_parameters,
    named_specs,
)
from tideflow.eager.functions.trace_types import (
    TraceType,
    has_trace_type,
    placeholder_of,
    trace_type_of,
)
from tideflow.graph import shapes
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.functions import FuncGraph
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import Dims
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import Composite, TypeSpec
from tideflow.ops.framework import nest
from tideflow.ops.state.base import Variable
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_TENSORS = (Tensor, TensorSpec, np.ndarray, np.generic)
_MISSING = object()


@runtime_checkable
class StandsForHandle(Protocol):
    """What functions take by its handle: those of one kind share a trace."""

    @property
    def argument_handle(self) -> Tensor:
        """The tensor that is passed."""

    @property
    def argument_kind(self) -> Hashable:
        """What tells traces apart."""

    def with_handle(self, handle: Tensor) -> Any:
        """Return what stands for it in a trace."""


class Arguments:
    """The arguments of one call.

    Attributes:
      args, kwargs: in canonical form, defaults filled in.
      tensors: those that are tensors, flat.
      specs: element type and shape of each of them.
      key: equal for calls that share a trace.
    """

    __slots__ = ("args", "key", "kwargs", "specs", "tensors")

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.tensors: list[Any] = []
        self.specs: list[tuple[DType, Dims]] = []
        key: list[Any] = [self._walk(value) for value in args]
        if kwargs:
            key.extend((name, self._walk(kwargs[name])) for name in sorted(kwargs))
        self.key: Any = tuple(key)

    def _walk(self, value: Any) -> Any:
        """Collect the tensors in a value and return its part of the key."""
        if isinstance(value, (Tensor, TensorSpec)):
            spec = (value.dtype, value.dims)
            self.tensors.append(value)
            self.specs.append(spec)
            return spec
        if isinstance(value, (np.ndarray, np.generic)):
            return self._walk(convert_to_tensor(value))
        if isinstance(value, (list, tuple)):
            return (type(value), *[self._walk(item) for item in value])
        if isinstance(value, Mapping):
            return (dict, *[(name, self._walk(value[name])) for name in sorted(value)])
        if isinstance(value, Variable):
            return value.ref()
        if isinstance(value, StandsForHandle):
            self.tensors.append(value.argument_handle)
            self.specs.append((value.argument_handle.dtype, ()))
            return value.argument_kind
        if isinstance(value, TypeSpec):
            inner = [self._walk(part) for part in value.parts]
            return inner[0] if value.value_type is Tensor else (value.told, *inner)
        if nest.is_composite(value):
            parts = nest.flatten(value, expand_composites=True)
            return (nest.told_of(value), *map(self._walk, parts))
        if has_trace_type(value):
            return trace_type_of(value)
        try:
            hash(value)
        except TypeError:
            return _Identity(value)
        return value

    def named_specs(
        self, python: inspect.Signature | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return args and kwargs with named TensorSpecs in the place of the tensors."""
        given = iter(self.specs)
        following = functools.partial(next, given)
        names = argument_names(python, len(self.args))
        args = [named_specs(value, name, following) for name, value in zip(names, self.args)]
        made = {
            name: named_specs(self.kwargs[name], name, following) for name in sorted(self.kwargs)
        }
        return tuple(args), {name: made[name] for name in self.kwargs}

    def described(self, python: inspect.Signature | None) -> list[tuple[str, str, str]]:
        """Return name, kind and type of each parameter, as text."""
        return described_parameters(python, *self.named_specs(python))

    def tensors_of(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return what stands for tensors among the arguments of a call of this trace.

        What was no tensor when it was traced may be left out.
        Raises: TypeError for another value than the trace was made for.
        """
        leaves = nest.flatten([args, kwargs], expand_composites=True)
        if len(leaves) == len(self.specs) and all(isinstance(v, _TENSORS) for v in leaves):
            return leaves
        found: list[Any] = []
        for given, known in itertools.zip_longest(args, self.args, fillvalue=_MISSING):
            found.extend(_tensors_in(given, known))
        for name in sorted({*kwargs, *self.kwargs}):
            given, known = kwargs.get(name, _MISSING), self.kwargs.get(name, _MISSING)
            found.extend(_tensors_in(given, known))
        return found

    def placeholders(
        self, graph: FuncGraph, python: inspect.Signature | None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return args and kwargs with inputs of a graph in the place of the tensors."""
        given = iter(self.specs)

        def replace(value: Any, name: str) -> Any:
            if isinstance(value, _TENSORS):
                dtype, dims = next(given)
                return graph.add_input(dtype, dims, getattr(value, "_name", None) or name)
            if isinstance(value, (list, tuple)):
                items = [replace(item, name) for item in value]
                if hasattr(value, "_fields"):
                    return type(value)(*items)
                return items if isinstance(value, list) else tuple(items)
            if isinstance(value, Mapping):
                made = {key: replace(value[key], name) for key in sorted(value)}
                return {key: made[key] for key in value}
            if isinstance(value, StandsForHandle):
                dtype, dims = next(given)
                made_handle = graph.add_input(dtype, dims, name)
                made_handle.op.device = value.argument_handle.device
                return value.with_handle(made_handle)
            if isinstance(value, TypeSpec):
                return value.from_parts([replace(part, name) for part in value.parts])
            if nest.is_composite(value):
                parts = nest.flatten(value, expand_composites=True)
                made_parts = [replace(part, name) for part in parts]
                return nest.pack_sequence_as(value, made_parts, expand_composites=True)
            if has_trace_type(value):
                return placeholder_of(value)
            return value

        names = argument_names(python, len(self.args))
        args = [replace(value, name) for name, value in zip(names, self.args)]
        kwargs = {name: replace(self.kwargs[name], name) for name in sorted(self.kwargs)}
        return args, kwargs

    def __repr__(self) -> str:
        shown = [f"{dtype.name}{shapes.format_dims(dims)}" for dtype, dims in self.specs]
        return f"({', '.join(shown)})"


def _tensors_in(given: Any, known: Any) -> list[Any]:
    """Return what is given for the tensors of one argument.  Raises: TypeError."""
    if isinstance(known, _TENSORS):
        return [] if given is _MISSING else [given]
    if has_trace_type(known) and not isinstance(known, (TypeSpec, Composite)):
        return []
    parts = [
        part
        for leaf in nest.flatten(known, expand_composites=True)
        for part in (leaf.parts if isinstance(leaf, TypeSpec) else [leaf])
    ]
    if len(parts) == 1 and parts[0] is known:
        if given is not _MISSING and (known is _MISSING or given != known):
            raise TypeError(f"the function was traced for {known!r:.80}; found {given!r:.80}")
        return []
    leaves = [] if given is _MISSING else nest.flatten(given, expand_composites=True)
    if len(leaves) != len(parts):
        raise TypeError(f"the function was traced for {known!r:.80}; found {given!r:.80}")
    return [leaf for leaf, part in zip(leaves, parts) if isinstance(part, _TENSORS)]


class _Identity:
    """A value without a hash, as a part of a key: equal to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _check_constraints(parameters: Sequence[inspect.Parameter], count: int) -> None:
    """Raise TypeError where as many specs are too few or too many for some parameters."""
    if not parameters:
        return
    left = count
    for parameter in parameters:
        if parameter.name == "self" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        needed = parameter.default is parameter.empty
        if parameter.kind is parameter.KEYWORD_ONLY:
            if needed:
                raise TypeError(
                    "Since input_signature is defined, keyword-only parameter "
                    f"`{parameter.name}` must have a default value"
                )
        elif parameter.kind is parameter.VAR_POSITIONAL:
            left = 0
        elif left:
            left -= 1
        elif needed:
            raise TypeError(f"input_signature missing type constraint for {parameter.name}")
    if left:
        raise TypeError(f"input_signature contains {left} extra type constraints.")


class Layout:
    """How a Python function takes its arguments.

    Attributes:
      python: the function's signature, None for one that has none.
      signature: TypeSpecs (nested as the arguments are) to which all calls are cast, or None.
    """

    def __init__(self, function: Callable[..., Any], signature: Sequence[Any] | None) -> None:
        if not (signature is None or isinstance(signature, (list, tuple))):
            raise TypeError(
                f"input_signature must be either a tuple or a list, got {type(signature)}"
            )
        self.signature = None if signature is None else tuple(signature)
        try:
            self.python: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):  # a built-in function
            self.python = None
        kinds = [] if self.python is None else list(self.python.parameters.values())
        self._plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in kinds)
        self._count = len(kinds)
        self._name = getattr(function, "__name__", repr(function))
        if self.signature is not None:
            for spec in nest.flatten(list(self.signature)):
                if not isinstance(spec, TypeSpec):
                    raise TypeError(f"input_signature holds {spec!r}; tf.TypeSpecs are wanted")
            _check_constraints(kinds, len(self.signature))

    def bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], allow_specs: bool = False
    ) -> Arguments:
        """Return the arguments of a call.

        Raises: TypeError for arguments that the function does not take, or that cannot be cast.
        """
        if self.signature is not None:
            if allow_specs and not args and not kwargs:
                args = self.signature
            return self._cast(args, kwargs)
        if kwargs or not self._plain or len(args) != self._count:
            args, kwargs = self._canonical(args, kwargs)
        return Arguments(args, kwargs)

    def in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return arguments in the order in which a trace takes them; defaults may be missing.

        Raises: TypeError for arguments that the function does not take.
        """
        if not kwargs or self.python is None:
            return [args, kwargs]
        try:
            given = self.python.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._name}{self.python}: {error}") from None
        named: dict[str, Any] = {}
        ordered = []
        for name, value in given.items():
            kind = self.python.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif kind is inspect.Parameter.KEYWORD_ONLY:
                named[name] = value
            else:
                ordered.append(value)
        return [ordered, named]

    def _canonical(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.python is None:
            return args, kwargs
        try:
            bound = self.python.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}{self.python}: {error}") from None
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _completed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], count: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments by position, with defaults for those of a signature that are missing.

        Raises: TypeError where one is missing that has no default.
        """
        assert self.python is not None
        bound = self.python.bind(*args, **kwargs)
        given = len(bound.args)
        if given < count:
            bound.apply_defaults()
        return bound.args[: max(given, count)], bound.kwargs

    def _cast(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        assert self.signature is not None
        if self.python is not None and (kwargs or len(args) < len(self.signature)):
            args, kwargs = self._completed(args, kwargs, len(self.signature))
        if not args and not kwargs:
            args = self.signature[:0] if self.signature else ()
        if len(args) != len(self.signature) or kwargs:
            raise TypeError(
                f"{self._name} takes the {len(self.signature)} arguments of its input_signature "
                f"{list(self.signature)}; {len(args) + len(kwargs)} were given"
            )
        found = Arguments(self.signature, {})
        pairs = zip(self.signature, args)
        found.tensors = [t for spec, value in pairs for t in _cast_to(spec, value, self._name)]
        found.key = tuple(found.specs)
        return found


def _cast_to(spec: Any, value: Any, name: str) -> list[Any]:
    """Return the tensors of an argument, as its spec says.  Raises: TypeError."""
    if isinstance(spec, TensorSpec):
        return [_cast_tensor(spec, value, name)]
    if isinstance(spec, TypeSpec):
        given = _parts_of(spec, value, name)
        if len(given) != len(spec.parts):
            raise TypeError(f"{name}: {value!r:.80} has other parts than input_signature wants")
        return [_cast_tensor(part, one, name) for part, one in zip(spec.parts, given)]
    try:
        nest.assert_same_structure(spec, value, check_types=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: the argument differs from input_signature: {error}") from None
    pairs = zip(nest.flatten(spec), nest.flatten(value))
    return [tensor for inner, leaf in pairs for tensor in _cast_to(inner, leaf, name)]


def _parts_of(spec: TypeSpec, value: Any, name: str) -> Sequence[Any]:
    """Return the tensors of a value that is more than a tensor.  Raises: TypeError."""
    if spec.value_type is Tensor:
        return [value]
    is_handle = isinstance(value, StandsForHandle)
    if isinstance(value, (TypeSpec, Composite)) or is_handle:
        fits = spec.is_compatible_with(value)
    else:
        fits = isinstance(value, spec.value_type)
    if not fits:
        raise TypeError(
            f"Binding inputs to tf.function failed due to `Can not cast {value!r:.80} to "
            f"{spec!r}`. "
            f"{name} has input_signature with {spec!r}"
        )
    if isinstance(value, TypeSpec):
        return value.parts
    return [value.argument_handle] if is_handle else nest.flatten(value, expand_composites=True)


def _cast_tensor(spec: TensorSpec, value: Any, name: str) -> Any:
    """Return a tensor as its spec says.  Raises: TypeError."""
    if isinstance(value, TensorSpec):
        tensor: Any = value
    else:
        try:
            tensor = convert_to_tensor(value, spec.dtype)
        except (TypeError, ValueError):
            given = getattr(value, "dtype", None)
            shown = given.name if given is not None else f"{value!r:.60}"
            raise TypeError(
                f"Binding inputs to tf.function failed due to `Can not cast {shown} to {spec!r}`. "
                f"{name} has input_signature with {spec!r}"
            ) from None
    if not shapes.compatible(tensor.dims, spec.dims):
        raise TypeError(
            f"Binding inputs to tf.function failed due to `Can not cast "
            f"{TensorSpec(tensor.dims, tensor.dtype)!r} to {spec!r}`"
        )
    return tensor


def relaxed(arguments: Arguments, seen: Sequence[Arguments]) -> Arguments:
    """Return the arguments with sizes left open in which they differ from ones seen before."""
    types = [dtype for dtype, _ in arguments.specs]
    for earlier in reversed(seen):
        alike = [dtype for dtype, _ in earlier.specs] == types and _frame(
            earlier.key, earlier.specs
        ) == _frame(arguments.key, arguments.specs)
        if alike:
            specs = [
                (dtype, _common(dims, known))
                for (dtype, dims), (_, known) in zip(arguments.specs, earlier.specs)
            ]
            made = Arguments(arguments.args, arguments.kwargs)
            made.specs = specs
            made.key = ("relaxed", _frame(arguments.key, arguments.specs), *specs)
            return made
    return arguments


def covering(arguments: Arguments, seen: Sequence[Arguments]) -> Arguments | None:
    """Return the most specific of the arguments seen before whose shapes take in all of these."""
    found: Arguments | None = None
    for earlier in seen:
        if _covers(earlier, arguments) and (found is None or _covers(found, earlier)):
            found = earlier
    return found


def _covers(known: Arguments, given: Arguments) -> bool:
    return (
        len(known.specs) == len(given.specs)
        and all(
            dtype == other and _takes_in(dims, inner)
            for (dtype, dims), (other, inner) in zip(known.specs, given.specs)
        )
        and _frame(known.key, known.specs) == _frame(given.key, given.specs)
    )


def _takes_in(dims: Dims, inner: Dims) -> bool:
    if dims is None or inner is None:
        return dims is None
    return len(dims) == len(inner) and all(a is None or a == b for a, b in zip(dims, inner))


def _frame(key: Any, specs: Sequence[tuple[DType, Dims]]) -> Any:
    """Return a key without the shapes of the tensors."""
    if isinstance(key, tuple):
        if len(key) == 2 and isinstance(key[0], DType):
            return key[0]
        if key and key[0] == "relaxed":
            return key[1]
        return tuple(_frame(part, specs) for part in key)
    return _OrLess(key) if isinstance(key, TraceType) else key


class _OrLess:
    """A trace type as a part of a key: equal, on the left, to those that it takes in, too."""

    __slots__ = ("kind",)

    def __init__(self, kind: TraceType) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _OrLess):
            return False
        return self.kind == other.kind or other.kind.is_subtype_of(self.kind)

    def __hash__(self) -> int:
        return hash(type(self.kind))


def _common(dims: Dims, known: Dims) -> Dims:
    if dims is None or known is None or len(dims) != len(known):
        return None
    return tuple(a if a == b else None for a, b in zip(dims, known))


def tensor_arguments(arguments: Arguments, given: list[Tensor], name: str) -> list[Tensor]:
    """Return the tensors of a call of one trace.  As with TensorFlow, shapes may differ from those
    for which it was traced: what the graph makes of them decides.

    Raises: TypeError for more or fewer tensors than it was traced for; InvalidArgumentError for
    other element types.
    """
    if len(given) != len(arguments.specs):
        raise TypeError(f"{name} takes {len(arguments.specs)} tensors, {len(given)} were given")
    for number, (tensor, (dtype, _)) in enumerate(zip(given, arguments.specs)):
        if tensor.dtype.base_dtype != dtype:
            raise errors.InvalidArgumentError(
                f"cannot compute {name} as input #{number}(zero-based) was expected to be a "
                f"{dtype.name} tensor but is a {tensor.dtype.name} tensor"
            )
    return given
