"""Gradients by small differences, to hold gradient functions against.

Source: tensorflow/python/ops/gradients/checker.py for names and argument orders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_session
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.gradients.api import gradients


@export("test.compute_gradient")
def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Any = None,
) -> Any:
    """Return the Jacobian of y to x twice: by gradients() and by differences of 2 delta.

    Args:
      x: a real tensor that can be fed, or a list of them (then x_shape and x_init_value are
        lists, too, and the result is a list of pairs).
      x_init_value: where to differentiate; random if left out.
      init_targets: an operation to run first.
      extra_feed_dict: feeds for the rest of the graph.
    Returns: arrays of shape [size of x, size of y].
    Raises: ValueError without a default session, or for a y that does not depend on x.
    """
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session: `with tf.Session():`")
    if init_targets is not None:
        session.run(init_targets)
    is_list = isinstance(x, (list, tuple))
    xs = list(x) if is_list else [x]
    x_shapes = list(x_shape) if is_list else [x_shape]
    given = x_init_value if is_list else [x_init_value]
    random = np.random.default_rng(0)
    starts = [
        random.random(shape).astype(t.dtype.as_numpy_dtype) if start is None else np.asarray(start)
        for t, shape, start in zip(xs, x_shapes, given or [None] * len(xs))
    ]
    feeds = dict(extra_feed_dict or {})
    feeds.update(zip(xs, starts))
    found = []
    for tensor, start in zip(xs, starts):
        by_graph = _by_gradients(session, tensor, start, y, y_shape, feeds)
        found.append((by_graph, _by_differences(session, tensor, start, y, feeds, delta)))
    return found if is_list else found[0]


@export("test.compute_gradient_error")
def compute_gradient_error(
    x: TensorLike,
    x_shape: TensorLike,
    y: Tensor,
    y_shape: TensorLike,
    x_init_value: TensorLike | None = None,
    delta: float = 1e-3,
    init_targets: TensorLike | None = None,
    extra_feed_dict: object | None = None,
) -> float:
    """Return the largest difference between the two Jacobians (see compute_gradient)."""
    pairs = compute_gradient(
        x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict
    )
    if not isinstance(pairs, list):
        pairs = [pairs]
    return max(float(np.abs(a - b).max(initial=0.0)) for a, b in pairs)


def _by_gradients(
    session: Any, x: Tensor, start: Any, y: Tensor, y_shape: Any, feeds: dict[Any, Any]
) -> Any:
    seed = convert_to_tensor(np.zeros(y_shape, y.dtype.as_numpy_dtype))
    (grad,) = gradients(y, x, grad_ys=seed)
    if grad is None:
        raise ValueError(
            f"{y.shown_name!r} does not depend on {x.shown_name!r} through differentiable ops"
        )
    dense = convert_to_tensor(grad)
    count = int(np.prod(y_shape))
    columns = np.zeros((start.size, count), start.dtype)
    for i in range(count):
        unit = np.zeros(count, y.dtype.as_numpy_dtype)
        unit[i] = 1
        columns[:, i] = session.run(dense, {**feeds, seed: unit.reshape(y_shape)}).reshape(-1)
    return columns


def _by_differences(
    session: Any, x: Tensor, start: Array, y: Tensor, feeds: dict[Any, Any], delta: float
) -> Any:
    rows = []
    for i in range(start.size):
        values = []
        for step in (delta, -delta):
            moved = start.copy()
            moved.reshape(-1)[i] += step
            values.append(np.asarray(session.run(y, {**feeds, x: moved})).reshape(-1))
        rows.append((values[0] - values[1]) / (2 * delta))
    return np.array(rows, start.dtype).reshape(start.size, -1)
