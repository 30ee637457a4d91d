"""Functions whose gradient is that of doing nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tideflow.ops.export import export
from tideflow.ops.gradients.custom import custom_gradient


@export("grad_pass_through")
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives gradients to its arguments as they come to its results.

    Variables that it reads get none.
    """

    @custom_gradient
    def passing(*args: Any, **kwargs: Any) -> Any:
        def back(*grads: Any, variables: Any = None) -> Any:
            return grads if variables is None else (grads, [None] * len(variables))

        return f(*args, **kwargs), back

    return functools.wraps(f)(passing)
