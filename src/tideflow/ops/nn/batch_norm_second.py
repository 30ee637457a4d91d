"""Second gradients of batch norms: those of the gradients of all versions.

With u = x - mean, r = 1 / sqrt(variance + epsilon), and S and M the sum and the mean over all but
the channels, the gradients are

    x_backprop = scale r (dy - M[dy] - u r^2 M[dy u]),  scale_backprop = r S[dy u],
    offset_backprop = S[dy]

of moments of the batch; of given moments, the terms with M are not there.  What is here follows
by the rule of products, where the moments of the batch change with x.

Source: tensorflow/python/ops/nn_grad.py says which inputs have gradients.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor


class _Parts:
    """What the gradient of a batch norm is made of.

    Attributes:
      dy, x, scale: its inputs, in float32; those of channels in a shape that broadcasts.
      of_x, of_scale, of_offset: the gradients for its outputs, in the same way.
    """

    def __init__(self, op: Operation, grads: tuple[Tensor, ...]) -> None:
        self._x = op.inputs[1]
        dims = self._x.dims
        if dims is None:
            raise ValueError("the second gradient of a batch norm needs images of a known rank")
        is_last = op.attrs["data_format"].endswith("C")
        channel = len(dims) - 1 if is_last else 1
        self._axes = [axis for axis in range(len(dims)) if axis != channel]
        self._by_channel = [-1 if axis == channel else 1 for axis in range(len(dims))]
        self._epsilon = op.attrs["epsilon"]
        self.dy, self.x, self.of_x = (_wide(t) for t in (op.inputs[0], self._x, grads[0]))
        self.scale, self.of_scale, self.of_offset = (
            self.spread(_wide(t)) for t in (op.inputs[2], *grads[1:3])
        )

    def spread(self, vector: Tensor) -> Any:
        """Return one value for each channel in a shape that broadcasts over images."""
        return apply_op("Reshape", vector, self._by_channel)

    def mean(self, value: Tensor) -> Any:
        """Return the mean of each channel, in a shape that broadcasts."""
        return apply_op("Mean", value, self._axes, keep_dims=True)

    def sum(self, value: Tensor) -> Any:
        """Return the sum of each channel, in a shape that broadcasts."""
        return apply_op("Sum", value, self._axes, keep_dims=True)

    def narrow(self, variance: Tensor) -> Any:
        """Return 1 / sqrt(variance + epsilon)."""
        return apply_op("Rsqrt", apply_op("AddV2", variance, self._epsilon))

    def like_inputs(self, dy: Tensor, x: Tensor, scale: Tensor) -> list[Any]:
        """Return gradients in the types and shapes of the inputs dy, x and scale."""
        kind = self._x.dtype
        narrow = [each if each.dtype is kind else _cast(each, kind) for each in (dy, x)]
        return [*narrow, apply_op("Reshape", scale, [-1])]


def _cast(value: Tensor, kind: Any) -> Any:
    return apply_op("Cast", value, DstT=kind)


def _wide(value: Tensor) -> Any:
    return value if value.dtype.name == "float32" else _cast(value, "float32")


def _times(first: Any, *others: Any) -> Any:
    for other in others:
        first = apply_op("Mul", first, other)
    return first


def _plus(first: Any, *others: Any) -> Any:
    for other in others:
        first = apply_op("AddV2", first, other)
    return first


def _less(first: Any, second: Any) -> Any:
    return apply_op("Sub", first, second)


@gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def second_gradient(op: Operation, *grads: Tensor) -> list[Any]:
    """Return gradients for y_backprop, x and scale; moments that were given have none."""
    parts = _Parts(op, grads)
    found = _of_batch(parts) if op.attrs["is_training"] else _of_given(parts, op)
    return [*parts.like_inputs(*found), *[None] * (len(op.inputs) - 3)]


def _of_given(p: _Parts, op: Operation) -> tuple[Any, Any, Any]:
    u = _less(p.x, p.spread(op.inputs[3]))
    r = p.narrow(p.spread(op.inputs[4]))
    for_dy = _plus(_times(p.of_x, p.scale, r), _times(p.of_scale, r, u), p.of_offset)
    return for_dy, _times(p.of_scale, r, p.dy), _times(r, p.sum(_times(p.of_x, p.dy)))


def _of_batch(p: _Parts) -> tuple[Any, Any, Any]:
    u = _less(p.x, p.mean(p.x))
    r = p.narrow(p.mean(apply_op("Square", u)))
    cube = _times(r, r, r)
    mean_a, mean_au = p.mean(p.of_x), p.mean(_times(p.of_x, u))
    mean_dyu = p.mean(_times(p.dy, u))
    sum_au = p.sum(_times(p.of_x, u))
    for_dy = _plus(
        _times(p.scale, r, _less(_less(p.of_x, mean_a), _times(r, r, mean_au, u))),
        _times(p.of_scale, r, u),
        p.of_offset,
    )
    straight = _less(p.sum(_times(p.of_x, p.dy)), _times(p.sum(p.of_x), p.mean(p.dy)))
    bent = _times(sum_au, mean_dyu)
    for_scale = _less(_times(r, straight), _times(cube, bent))
    # What changes with r, which changes with the variance.
    by_r = _plus(
        _times(p.scale, _less(straight, _times(r, r, bent, 3.0))),
        _times(p.of_scale, p.sum(_times(p.dy, u))),
    )
    count = p.sum(apply_op("OnesLike", u))
    by_u = _less(
        _times(p.of_scale, r, p.dy),
        _times(p.scale, cube, _plus(_times(p.of_x, mean_dyu), _times(mean_au, p.dy))),
    )
    by_u = _less(by_u, _times(by_r, cube, apply_op("RealDiv", u, count)))
    return for_dy, _less(by_u, p.mean(by_u)), for_scale
