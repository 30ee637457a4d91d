"""tf.experimental.ExtensionType: classes of users whose values are made of tensors.

The annotations of a class say its fields.  From them it gets a constructor, and a class `Spec` of
what is known of its values, whose fields are specs where the values have tensors.

Source: tensorflow/python/framework/extension_type.py.
"""

from __future__ import annotations

import abc
import functools
import inspect
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tideflow.eager.extension_types.annotations import (
    NO_DEFAULT,
    Field,
    ImmutableDict,
    Purpose,
    check_annotation,
    convert,
    convert_fields,
)
from tideflow.eager.extension_types.composites import CompositeTensor, is_tensor_or_composite
from tideflow.eager.extension_types.type_specs import TypeSpec, register
from tideflow.graph import type_spec as specs
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.type_spec import type_spec_of
from tideflow.ops.array import stack
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.math.comparison import logical_not
from tideflow.ops.math.reducing import reduce_all

_RESERVED = frozenset(
    {
        "self",
        "Spec",
        "_type_spec",
        "_shape_invariant_to_type_spec",
        "_consumers",
        "value_type",
        "is_compatible_with",
        "most_specific_compatible_type",
        "_with_tensor_ranks_only",
        "_to_components",
        "_from_components",
        "_component_specs",
        "_to_tensor_list",
        "_from_tensor_list",
        "_from_compatible_tensor_list",
        "_flat_tensor_specs",
        "_serialize",
        "_deserialize",
        "_to_legacy_output_types",
        "_to_legacy_output_shapes",
        "_to_legacy_output_classes",
        "_keras_mask",
    }
)
# Attributes of the library's own begin so: no field does.
_OWN = "_tf_extension_type"
_UNDER_CONSTRUCTION = f"{_OWN}_in_constructor"
_SPEC = f"{_OWN}_cached_type_spec"
_HELD = f"{_OWN}_held"
# Keras sets these on values of any class.
_OPEN = ("_keras_mask",)


def is_reserved(name: str) -> bool:
    """Whether no field may have a name."""
    return name in _RESERVED or name.lower().startswith(_OWN)


class _Fields:
    """What values and specs have in common: fields that only a constructor sets.

    A subclass keeps them in the dict that `_tf_extension_type_values` returns.
    """

    _tf_extension_type_kind = "ExtensionType"

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        raise NotImplementedError

    def _tf_extension_type_values(self) -> dict[str, Any]:
        return self.__dict__

    def _tf_extension_type_may_set(self, name: str) -> bool:
        known = {field.name for field in self._tf_extension_type_fields()}
        return _UNDER_CONSTRUCTION in self.__dict__ and name in known

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OPEN:
            self.__dict__[name] = value
        elif self._tf_extension_type_may_set(name):
            self._tf_extension_type_values()[name] = value
        else:
            raise self._tf_extension_type_refusal(name)

    def __delattr__(self, name: str) -> None:
        if name in _OPEN:
            del self.__dict__[name]
        elif self._tf_extension_type_may_set(name):
            del self._tf_extension_type_values()[name]
        else:
            raise self._tf_extension_type_refusal(name)

    def _tf_extension_type_refusal(self, name: str) -> AttributeError:
        return AttributeError(
            f"Cannot mutate attribute `{name}` outside the custom constructor of "
            f"{self._tf_extension_type_kind}."
        )

    def _tf_extension_type_finish(self, purpose: Purpose) -> None:
        """Make the fields what their annotations say, and check them."""
        convert_fields(self._tf_extension_type_fields(), self._tf_extension_type_values(), purpose)
        self.__validate__()

    def __validate__(self) -> None:
        """Check the fields when they are all there; a class may say how."""


class _Kind(abc.ABCMeta):
    """Gives a class of users its constructor and its `Spec`."""

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> None:
        if not namespace.get("_tf_extension_type_do_not_transform_this_class", False):
            _check_class(cls)
            _add_constructor(cls, cls._tf_extension_type_fields(), Purpose.VALUE)  # type: ignore[attr-defined]
            _add_spec(cls)
        super().__init__(name, bases, namespace, **kwargs)


@export("experimental.ExtensionType")
class ExtensionType(_Fields, CompositeTensor, metaclass=_Kind):
    """A class of values that are made of tensors; subclasses annotate their fields.

    Fields are Python's plain types, tensors and what is made of them, shapes, element types, other
    extension types, and tuples, mappings and unions of these.  Values cannot be changed; a method
    `__validate__` checks them, and functions, loops, branches and datasets take and return them.

    Example:
      >>> class Masked(tf.experimental.ExtensionType):
      ...     values: tf.Tensor
      ...     mask: tf.Tensor
      >>> Masked([1, 2], [True, False]).values.shape
      TensorShape([2])
    """

    _tf_extension_type_do_not_transform_this_class = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self) is ExtensionType:
            raise AssertionError(
                "Cannot create an instance of ExtensionType because ExtensionType is an abstract "
                "base class."
            )

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        """Return the fields, of base classes first; classes to come may be named only."""
        known: Sequence[Field] | None = cls.__dict__.get(f"{_OWN}_cached_fields")
        if known is not None:
            return known
        try:
            hints, are_final = typing.get_type_hints(cls), True
        except (NameError, AttributeError):
            hints, are_final = {}, False
            for base in reversed(cls.__mro__):
                hints.update(inspect.get_annotations(base))
        found = tuple(_field(cls, name, hint) for name, hint in hints.items())
        if are_final:
            setattr(cls, f"{_OWN}_cached_fields", found)
        return found

    @property
    def _type_spec(self) -> Any:
        found = self.__dict__.get(_SPEC)
        if found is None:
            found = self.__dict__[_SPEC] = self.Spec.from_value(self)  # type: ignore[attr-defined]
        return found

    def __eq__(self, other: object) -> Any:
        if type(self) is not type(other) or self._type_spec != other._type_spec:
            return False
        pairs = zip(*(nest.flatten(one, expand_composites=True) for one in (self, other)))
        return reduce_all(stack([alike for pair in pairs for alike in _alike(*pair)]))

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return logical_not(equal) if isinstance(equal, Tensor) else not equal

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{field.name}={getattr(self, field.name)!r}" for field in _fields_of(self)]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _alike(one: Any, other: Any) -> list[Tensor]:
    """Return whether two tensors have the same shape, and the same elements."""
    pairs = [(apply_op("Shape", one), apply_op("Shape", other)), (one, other)]
    return [reduce_all(apply_op("Equal", *p, incompatible_shape_error=False)) for p in pairs]


def _field(cls: type, name: str, annotation: Any) -> Field:
    try:
        check_annotation(annotation)
    except TypeError as error:
        raise TypeError(f"In field {name!r}: {error}") from error
    default = getattr(cls, name, NO_DEFAULT)
    if default is not NO_DEFAULT:
        default = convert(default, annotation, f"default value for {name}", Purpose.DEFAULT)
    return Field(name, annotation, default)


def _fields_of(value: Any) -> Sequence[Field]:
    found: Sequence[Field] = value._tf_extension_type_fields()
    return found


@export("experimental.extension_type.as_dict")
def as_dict(value: ExtensionType) -> dict[str, Any]:
    """Return the fields of a value by name; those that are extension types stay such values."""
    return {field.name: getattr(value, field.name) for field in _fields_of(value)}


@export("experimental.ExtensionTypeSpec")
class ExtensionTypeSpec(_Fields, TypeSpec):
    """What is known of the values of an extension type: its fields, with specs for tensors."""

    _tf_extension_type_kind = "ExtensionTypeSpec"

    def _tf_extension_type_values(self) -> dict[str, Any]:
        # Apart from the attributes of specs: a field may be called as one of these.
        values: dict[str, Any] = self.__dict__.setdefault(_HELD, {})
        return values

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        return _fields_of(cls.value_type)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get(_HELD, {})
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def _tf_extension_type_of(cls, values: Mapping[str, Any]) -> ExtensionTypeSpec:
        """Return a spec of these fields as they are."""
        made = object.__new__(cls)
        made._tf_extension_type_values().update(values)
        return made

    @classmethod
    def from_value(cls, value: ExtensionType) -> ExtensionTypeSpec:
        """Return the spec of a value."""
        known = value.__dict__.get(_SPEC)
        if known is not None:
            return known  # type: ignore[no-any-return]
        return cls._tf_extension_type_of(nest.map_structure(_spec_or_value, _values_of(value)))

    # ---- as a spec

    def _serialize(self) -> Any:
        values = self._tf_extension_type_values()
        return tuple((f.name, _with_dicts(values[f.name], dict)) for f in _fields_of(self))

    @classmethod
    def _deserialize(cls, serialization: Any) -> Any:
        return cls._tf_extension_type_of(dict(_with_dicts(tuple(serialization), ImmutableDict)))

    def __reduce__(self) -> Any:
        return _spec_of_class, (self.value_type, self._serialize())

    @functools.cached_property
    def told(self) -> Hashable:
        """What values are besides their tensors."""
        return super().told

    @functools.cached_property
    def parts(self) -> Sequence[Any]:
        """The specs of the tensors of all fields."""
        return super().parts

    @functools.cached_property
    def _component_specs(self) -> Any:
        leaves = nest.flatten(list(self._tf_extension_type_values().values()))
        return tuple(leaf for leaf in leaves if isinstance(leaf, specs.TypeSpec))

    def _to_components(self, value: Any) -> Any:
        values = _values_of(value)
        known = self._tf_extension_type_values()
        leaves = nest.flatten([values[name] for name in known])
        return tuple(leaf for leaf in leaves if is_tensor_or_composite(leaf))

    def _from_components(self, components: Any) -> Any:
        given = iter(components)
        known = self._tf_extension_type_values()
        # A list of the fields: a dict of them were walked by the order of their names.
        values = nest.map_structure(
            lambda leaf: next(given) if isinstance(leaf, specs.TypeSpec) else leaf,
            list(known.values()),
        )
        if list(given):
            raise ValueError(
                "Cannot build an ExtensionType instance from components because more components "
                "are provided than the number expected by the type spec."
            )
        made: Any = object.__new__(self.value_type)
        made.__dict__.update(zip(known, values))
        return made

    def _to_legacy_output_shapes(self) -> Any:
        return self.shape

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self._serialize()]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _values_of(value: ExtensionType) -> dict[str, Any]:
    """Return the fields of a value in the order in which its constructor set them."""
    hidden = (_SPEC, *_OPEN)
    return {name: item for name, item in value.__dict__.items() if name not in hidden}


def _spec_of_class(kind: Any, serialization: Any) -> Any:
    return kind.Spec._deserialize(serialization)


def _spec_or_value(leaf: Any) -> Any:
    return type_spec_of(leaf) if is_tensor_or_composite(leaf) else leaf


def _with_dicts(value: Any, kind: Callable[..., Any]) -> Any:
    """Return a structure of tuples and mappings with mappings of another class."""
    if isinstance(value, (dict, ImmutableDict)):
        return kind((key, _with_dicts(item, kind)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(_with_dicts(item, kind) for item in value)
    return value


# ---- making classes


def _check_class(cls: type) -> None:
    """Check the attributes that a class itself has.  Raises: ValueError."""
    annotated = inspect.get_annotations(cls)
    wrong = f"The field annotations for {cls.__name__} are invalid."
    for name, value in {**annotated, **cls.__dict__}.items():
        if name == "Spec":
            _check_own_spec(cls, value)
        elif is_reserved(name):
            raise ValueError(f"{wrong} Field '{name}' is reserved.")
        elif name not in annotated and _is_field_like(name, value):
            raise ValueError(f"{wrong} Field {name} is missing a type annotation.")


def _check_own_spec(cls: type, value: Any) -> None:
    where = f"{cls.__qualname__}.Spec must be"
    if not isinstance(value, type):
        raise ValueError(f"{where} a nested class; got {value}.")
    if value.__bases__ not in ((TypeSpec,), (object,)):
        raise ValueError(f"{where} directly subclassed from tf.TypeSpec.")


def _is_field_like(name: str, value: Any) -> bool:
    """Whether an attribute is neither a method nor one of Python's own."""
    is_pythons = name.startswith("_abc_") or (name.startswith("__") and name.endswith("__"))
    is_method = callable(value) or isinstance(value, (property, classmethod, staticmethod))
    return not is_pythons and not is_method


def _add_constructor(cls: Any, fields: Sequence[Field], purpose: Purpose) -> None:
    """Let a class take its fields, or let its own constructor set them."""
    own = cls.__dict__.get("__init__")
    cls.__init__ = _wrapped(own, purpose) if own else _of_fields(cls, fields, purpose)


def _wrapped(own: Callable[..., None], purpose: Purpose) -> Callable[..., None]:
    @functools.wraps(own)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        self.__dict__[_UNDER_CONSTRUCTION] = True
        own(self, *args, **kwargs)
        del self.__dict__[_UNDER_CONSTRUCTION]
        self._tf_extension_type_finish(purpose)

    return construct


def _of_fields(cls: type, fields: Sequence[Field], purpose: Purpose) -> Callable[..., None]:
    """Return a constructor that takes the fields.

    Those without a default that follow ones with a default are given by name.
    """
    parameters = []
    had_default = by_name = False
    for field in fields:
        default: Any = inspect.Parameter.empty
        if purpose is Purpose.VALUE and field.default is not NO_DEFAULT:
            default, had_default = field.default, True
        by_name = by_name or (had_default and default is inspect.Parameter.empty)
        kind = inspect.Parameter.KEYWORD_ONLY if by_name else _POSITIONAL
        parameters.append(inspect.Parameter(field.name, kind, default=default))
    signature = inspect.Signature(parameters)

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self._tf_extension_type_values().update(bound.arguments)
        self._tf_extension_type_finish(purpose)

    construct.__name__, construct.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    with_self = [inspect.Parameter("self", _POSITIONAL), *parameters]
    construct.__signature__ = inspect.Signature(with_self)  # type: ignore[attr-defined]
    return construct


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _add_spec(cls: Any) -> None:
    """Give a class its class of specs, with what its own nested class `Spec` says beside."""
    attributes = {"value_type": cls, "__module__": cls.__module__, **_own_spec_attributes(cls)}
    fields = cls._tf_extension_type_fields()
    if any(field.name == "shape" for field in fields):
        # Specs have this attribute; where a field is called so, it is the field.
        attributes["shape"] = property(lambda spec: spec._tf_extension_type_values()["shape"])
    made = type(f"{cls.__name__}.Spec", (_spec_base(cls, attributes),), attributes)
    made.__qualname__ = f"{cls.__qualname__}.Spec"
    cls.Spec = made
    _add_constructor(made, fields, Purpose.SPEC)
    if "__name__" in cls.__dict__:
        register(cls.__dict__["__name__"] + ".Spec")(made)


def _own_spec_attributes(cls: Any) -> dict[str, Any]:
    """Return what the nested class `Spec` of a user's class has.  Raises: ValueError."""
    own = cls.__dict__.get("Spec")
    found = {}
    where = f"TypeSpec {cls.__qualname__}.Spec"
    fields = {field.name for field in cls._tf_extension_type_fields()}
    for name, value in ({} if own is None else own.__dict__).items():
        if is_reserved(name):
            raise ValueError(f"{where} uses reserved name '{name}'.")
        if name in fields:
            raise ValueError(
                f"{where} defines a variable '{name}' which shadows a field in {cls.__qualname__}"
            )
        if name not in ("__module__", "__dict__", "__weakref__", "__qualname__"):
            found[name] = value
    return found


_spec_bases: list[tuple[type, type]] = [(ExtensionType, ExtensionTypeSpec)]


def register_spec_base(kind: type[ExtensionType], base: type[ExtensionTypeSpec]) -> None:
    """Say from which class the specs of subclasses of an extension type are derived."""
    _spec_bases.insert(0, (kind, base))


def _spec_base(cls: type, attributes: dict[str, Any]) -> type:
    base = next(base for kind, base in _spec_bases if issubclass(cls, kind))
    encoder = getattr(cls, "__batch_encoder__", None)
    if not hasattr(base, "__batch_encoder__"):
        if encoder is not None or "__batch_encoder__" in attributes:
            raise ValueError(
                "__batch_encoder__ should only be defined for BatchableExtensionType classes."
            )
    elif encoder is not None:
        attributes.setdefault("__batch_encoder__", encoder)
    return base
