"""What rules for compiled code see while a region is traced.

A kernel serves compiled code as it is where it cannot fail on values.  An op whose kernel may fail,
or must know what is computed, has a rule beside it (Traits.traced): it notes what straight code
would refuse as a check of the trace, since compiled code cannot raise.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tideflow.wire import errors


class Trace(Protocol):
    """What is known while a region is traced, besides the values of tensors.

    Attributes:
      jnp, lax: of jax.
    """

    jnp: Any
    lax: Any

    def check(self, holds: Any) -> None:
        """Note that straight code is to run unless a condition holds.

        Raises: UnimplementedError for one that is known not to.
        """

    def range_of(self, value: Any) -> tuple[int, int] | None:
        """Return the least and the greatest value that a computed integer may have."""


def is_known(value: Any) -> bool:
    """Whether a value is known while tracing."""
    return isinstance(value, (np.ndarray, np.generic))


def refuse(why: str) -> errors.UnimplementedError:
    """Return the error for what compiled code does not do; straight code does it then."""
    return errors.UnimplementedError(why)


def bounds_of(trace: Trace, index: Any) -> tuple[int, int] | None:
    """Return the least and the greatest value of a scalar index, where they are known."""
    if is_known(index):
        return int(index), int(index)
    return trace.range_of(index)
