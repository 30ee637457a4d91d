"""tf.recompute_grad: a function that is called again for its gradients, to hold less meanwhile.

Source: tensorflow/python/ops/custom_gradient.py for names and rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tideflow.eager.backprop import GradientTape
from tideflow.graph.building import apply_op
from tideflow.ops.export import export_v2
from tideflow.ops.gradients import custom_gradient, only_reads_noted


@export_v2("recompute_grad")
def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose intermediate values are not held for its gradient.

    The gradient calls f once more, so f must give the same each time.

    Args:
      f: takes tensors and returns a tensor or a flat list of them; it may read variables.
    Example:
      >>> square = tf.recompute_grad(lambda x: x * x)
      >>> x = tf.constant(3.0)
      >>> with tf.GradientTape() as tape:
      ...     tape.watch(x)
      ...     y = square(x)
      >>> float(tape.gradient(y, x))
      6.0
    """

    @functools.wraps(f)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with only_reads_noted():
            result = f(*args, **kwargs)

        def backward(*grads: Any, variables: Any = None) -> Any:
            inputs = [apply_op("Identity", arg) for arg in args]
            sources = [*inputs, *(variables or ())]
            with GradientTape() as tape:
                tape.watch(sources)
                again = f(*inputs, **kwargs)
            targets = list(again) if isinstance(again, (list, tuple)) else [again]
            found = tape.gradient(targets, sources, output_gradients=list(grads))
            if variables is None:
                return found
            return found[: len(inputs)], found[len(inputs) :]

        return result, backward

    return custom_gradient(forward)
