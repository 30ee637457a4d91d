"""One size of a shape as an object, as TensorFlow 1 has it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class Dimension:
    """A size that may be unknown, with arithmetic.

    What is calculated with an unknown size is unknown; what is compared with one gives None.
    Raises: ValueError for a negative size; TypeError for what is no integer.
    Source: tensorflow/python/framework/tensor_shape.py
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        found: int | None
        if isinstance(value, Dimension):
            found = value._value
        elif value is None or isinstance(value, int):
            found = value
        else:
            try:
                found = operator.index(value)
            except TypeError:
                raise TypeError(
                    f"a Dimension is an integer or None, not {value!r} ({type(value).__name__})"
                ) from None
        if found is not None and found < 0:
            raise ValueError(f"a Dimension must be at least 0; found {found}")
        self._value: int | None = found

    @property
    def value(self) -> int | None:
        """The size, or None where it is unknown."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one size can be both."""
        theirs = Dimension(other)._value
        return self._value is None or theirs is None or self._value == theirs

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError where no size can be both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {Dimension(other)} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """Return what both say together.  Raises: ValueError where they disagree."""
        self.assert_is_compatible_with(other)
        return Dimension(other if self._value is None else self)

    def __index__(self) -> int:
        return self._value  # type: ignore[return-value]  # Python refuses None, by a TypeError

    __int__ = __index__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> Any:
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._compared(operator.ne, other)

    def __lt__(self, other: object) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: object) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: object) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: object) -> Any:
        return self._compared(operator.ge, other)

    def __hash__(self) -> int:
        return hash(self._value)

    def _compared(self, compare: Callable[[int, int], bool], other: object) -> Any:
        try:
            theirs = Dimension(other)._value
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or theirs is None else compare(self._value, theirs)

    def __add__(self, other: Any) -> Any:
        return _combined(operator.add, self, other)

    def __sub__(self, other: Any) -> Any:
        return _combined(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combined(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _combined(operator.mul, self, other)

    def __floordiv__(self, other: Any) -> Any:
        return _combined(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _combined(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return _combined(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _combined(operator.mod, other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Any:
        raise TypeError(f"a Dimension is divided by //, not by /: {self!r} / {other!r}")

    def __rtruediv__(self, other: Any) -> Any:
        raise TypeError(f"a Dimension is divided by //, not by /: {other!r} / {self!r}")

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dimension, (self._value,))


def _combined(combine: Callable[[int, int], int], left: Any, right: Any) -> Any:
    try:
        a, b = Dimension(left)._value, Dimension(right)._value
    except (TypeError, ValueError):
        return NotImplemented
    return Dimension(None if a is None or b is None else combine(a, b))
