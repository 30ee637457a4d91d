"""The modes "safe" and "all", in which operands convert by themselves, and weak tensors.

A weak tensor is made of Python's numbers, whose type gives way to that of what it meets.  "safe"
allows what loses no bits; "all" what may, too.
Source: python/framework/flexible_dtypes.py and weak_tensor.py of TensorFlow 2.21, for the rules.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from tideflow.graph.behavior import behavior
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.ops.framework import nest
from tideflow.ops.math.casts import cast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

F = TypeVar("F", bound=Callable[..., Any])
# An element type, and whether it gives way to others.
Kind = tuple[DType, bool]

# The weak types; each gives way to those behind it.
_WEAK = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.complex128)
_WEAK_FLOAT64 = (dtypes.float64, True)
# How many bits of an integer each type of floats keeps, as "safe" counts them.
_KEPT_BITS = {dtypes.bfloat16: 8, dtypes.float16: 8, dtypes.float32: 16, dtypes.float64: 32}
_SIGNED = {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}
_STRONG = frozenset(
    {
        *(dtypes.bool_, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64),
        *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
        *(dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64),
        *(dtypes.complex64, dtypes.complex128),
    }
)


# ---- the type that kinds have in common


def result_type(*values: Any) -> Kind:
    """Return the type that values have in common, and whether it is weak.

    Lists count by their elements; None counts for nothing.
    Raises: TypeError where the mode forbids it; NotImplementedError where there is none.
    """
    kinds = [_kind(value) for value in nest.flatten([v for v in values if v is not None])]
    if not kinds:
        return (dtypes.float32, True)
    found = kinds[0]
    for kind in kinds[1:]:
        found = _joined(found, kind)
    return found


def _joined(a: Kind, b: Kind) -> Kind:
    if a == b:
        return a
    if not {a[0], b[0]} <= _STRONG:
        raise NotImplementedError(f"{a[0].name} and {b[0].name} have no type in common")
    found, is_safe = _common(a, b)
    if not is_safe and behavior.dtype_conversion == "safe":
        raise TypeError(
            f"the mode 'safe' does not bring {_shown(a)} and {_shown(b)} to one type; cast one of "
            "them, or choose the mode 'all'"
        )
    return found


def _shown(kind: Kind) -> str:
    return f"{'weak ' * kind[1]}{kind[0].name}"


def _common(a: Kind, b: Kind) -> tuple[Kind, bool]:
    """Return the type that two kinds have in common, and whether no bits are lost."""
    if a[1] and b[1]:
        return (max(a[0], b[0], key=_WEAK.index), True), True
    if a[1] or b[1]:
        weak, strong = (a[0], b[0]) if a[1] else (b[0], a[0])
        return _weak_with_strong(weak, strong)
    found, is_safe = _strong_with_strong(a[0], b[0])
    # What has no type of its own becomes a weak float.
    return (_WEAK_FLOAT64 if found is None else (found, False)), is_safe


def _weak_with_strong(weak: DType, strong: DType) -> tuple[Kind, bool]:
    if strong.is_bool:
        return (weak, True), True
    if strong.is_integer and not weak.is_integer:
        fits = strong.size < 8 and weak is not dtypes.float32
        return ((weak if weak.is_complex else dtypes.float64), True), fits
    if weak.is_complex and strong.is_floating:
        wide = strong is dtypes.float64
        return ((dtypes.complex128 if wide else dtypes.complex64), False), wide
    return (strong, False), True


def _strong_with_strong(a: DType, b: DType) -> tuple[DType | None, bool]:
    """Return the common type (None where it is a weak float), and whether no bits are lost."""
    if a is b:
        return a, True
    low, high = sorted((a, b), key=_generality)
    if low.is_bool:
        return high, True
    if low.is_integer and high.is_integer:
        return _integers(low, high)
    if low.is_integer:
        return high, low.size * 8 <= _KEPT_BITS[high.real_dtype]
    if low.is_floating and high.is_floating:
        both_halves = {low, high} == {dtypes.bfloat16, dtypes.float16}
        return (dtypes.float32 if both_halves else high), not both_halves
    if low is dtypes.float64 and high is dtypes.complex64:
        return dtypes.complex128, False
    return high, True


def _generality(dtype: DType) -> tuple[int, int]:
    kinds = (dtype.is_bool, dtype.is_integer, dtype.is_floating, dtype.is_complex)
    return kinds.index(True), dtype.size


def _integers(low: DType, high: DType) -> tuple[DType | None, bool]:
    if low.is_unsigned == high.is_unsigned:
        return high, True
    unsigned, signed = (low, high) if low.is_unsigned else (high, low)
    if signed.size > unsigned.size:
        return signed, True
    return _SIGNED.get(unsigned.size * 16), False


# ---- the kinds of values

_PYTHON_KINDS: dict[Any, Kind] = {
    bool: (dtypes.bool_, False),
    int: (dtypes.int32, True),
    float: (dtypes.float32, True),
    complex: (dtypes.complex128, True),
    str: (dtypes.string, False),
    bytes: (dtypes.string, False),
    TensorShape: (dtypes.int32, False),
}


def _kind(value: Any) -> Kind:
    if isinstance(value, WeakTensor):
        return (value.dtype, True)
    dtype = value if isinstance(value, DType) else getattr(value, "dtype", None)
    if isinstance(dtype, DType):
        return (dtype.base_dtype, False)
    if isinstance(value, (np.ndarray, np.generic)):
        return (as_dtype(value.dtype), False)
    of = value if isinstance(value, type) else type(value)
    if of in _PYTHON_KINDS:
        if of is int and of is not value and not -(2**31) <= value < 2**31:
            raise OverflowError(f"the Python int {value} is too large for int32")
        return _PYTHON_KINDS[of]
    try:
        return (as_dtype(value), False)
    except TypeError:
        raise NotImplementedError(f"a {of.__name__} converts to no type by itself") from None


def converted(value: Any, dtype: DType) -> Tensor:
    """Return an operand as a tensor of the type that it has in common with others."""
    value = value.tensor if isinstance(value, WeakTensor) else value
    if isinstance(value, Tensor) or isinstance(getattr(value, "dtype", None), DType):
        return cast(value, dtype)  # type: ignore[no-any-return]
    return convert_to_tensor(value, dtype)


# ---- weak tensors


class WeakTensor:
    """A tensor made of Python's numbers, whose type gives way to that of what it meets.

    Raises: TypeError for an element type that is none of Python's.
    """

    __array_priority__ = 101

    def __init__(self, tensor: Tensor) -> None:
        if tensor.dtype not in _WEAK:
            raise TypeError(f"{tensor.dtype.name} is no type of a weak tensor")
        self.tensor = tensor

    @classmethod
    def from_tensor(cls, tensor: Any) -> WeakTensor:
        """Return a tensor as a weak one.  Raises: InvalidArgumentError for what is no tensor."""
        if isinstance(tensor, WeakTensor):
            return tensor
        if not isinstance(tensor, Tensor):
            raise InvalidArgumentError(f"a weak tensor is made of a tensor, not of {tensor!r}")
        return cls(tensor)

    def to_tensor(self) -> Tensor:
        """Return the tensor, which does not give way."""
        return self.tensor

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.tensor.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self.tensor.shape

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tensor, name)

    def __tf_tensor__(self, dtype: DType | None = None, name: str | None = None) -> Tensor:
        return convert_to_tensor(self.tensor, dtype, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.tensor, dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.tensor[key]

    def __iter__(self) -> Iterator[WeakTensor]:
        return (WeakTensor(part) for part in self.tensor)

    def __len__(self) -> int:
        return len(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return int(self.numpy().__index__())

    def __hash__(self) -> int:
        return hash(self.tensor)

    def __format__(self, spec: str) -> str:
        return f"{format(self.tensor, spec)} weakly typed"

    def __copy__(self) -> WeakTensor:
        return self

    def __deepcopy__(self, memo: Any) -> WeakTensor:
        return self

    def __repr__(self) -> str:
        return _marked(repr(self.tensor))

    def __str__(self) -> str:
        return _marked(str(self.tensor))


def _marked(shown: str) -> str:
    return f"{shown[:-1]}, weak=True{shown[-1]}"


def as_kind(tensor: Any, is_weak: bool) -> Any:
    """Return a result as a weak tensor, or as one that is not."""
    if is_weak:
        return WeakTensor.from_tensor(tensor)
    return tensor.tensor if isinstance(tensor, WeakTensor) else tensor


def keeps_weak(function: F) -> F:
    """Let a function give a weak tensor for a weak one, or for numbers, as its first argument.

    It does so in the modes "safe" and "all" alone, unless it is given `dtype`.
    """
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        if not behavior.converts_weakly:
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        x = given[first]
        if isinstance(x, Tensor) or given.get("dtype") is not None:
            return function(**given)
        try:
            dtype, is_weak = result_type(x)
        except NotImplementedError:
            return function(**given)
        return as_kind(function(**{**given, first: converted(x, dtype)}), is_weak)

    return either  # type: ignore[return-value]
