"""`tf.layers`: layers as functions, whose variables live in a variable scope.

A layer called twice with the same name and reuse=True shares its variables; without a name each
call makes new ones under dense, dense_1 and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import cond
from tideflow.ops.export import export
from tideflow.ops.nn.avg_pools import avg_pool
from tideflow.ops.nn.batch_norm import batch_normalization as normalize
from tideflow.ops.nn.bias import bias_add
from tideflow.ops.nn.convolutions import conv2d as convolve
from tideflow.ops.nn.dropouts import dropout as drop
from tideflow.ops.nn.moment_ops import moments
from tideflow.ops.nn.pools import max_pool
from tideflow.ops.state import Ones, Zeros, get_variable, variable_scope

Activation = Callable[[Tensor], Any] | None


def _layout(data_format: str) -> str:
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(
            f"data_format must be 'channels_last' or 'channels_first'; found {data_format!r}"
        )
    return "NCHW" if data_format == "channels_first" else "NHWC"


def _known(x: Tensor, axis: int, rank: int | None = None) -> int:
    """Return one static size of a layer's inputs.  Raises: ValueError when it is not known."""
    found = x.shape.rank
    if found is None or (rank is not None and found != rank):
        raise ValueError(f"inputs must have rank {rank or 'known'}; their shape is {x.shape}")
    size = x.shape.as_list()[axis]
    if size is None:
        raise ValueError(f"size {axis} of the inputs must be known; their shape is {x.shape}")
    return int(size)


def _finished(x: Tensor, activation: Activation, activity_regularizer: Any) -> Any:
    found = x if activation is None else activation(x)
    if activity_regularizer is not None:
        loss = activity_regularizer(found)
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return found


@export("layers.dense")
def dense(
    inputs: TensorLike,
    units: int,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., Any] | None = None,
    bias_initializer: Callable[..., Any] | None = None,
    kernel_regularizer: Callable[..., Any] | None = None,
    bias_regularizer: Callable[..., Any] | None = None,
    activity_regularizer: Callable[..., Any] | None = None,
    kernel_constraint: Callable[..., Any] | None = None,
    bias_constraint: Callable[..., Any] | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: bool | None = None,
) -> Any:
    """Return activation(inputs @ kernel + bias), with variables of a scope of its own.

    Args:
      inputs: floating numbers [..., in].
      units: how many outputs there are, an int.
      activation: a function of a tensor, or None.
      use_bias: whether a bias [units] is added.
      kernel_initializer, bias_initializer: called with a shape; the variable scope's and zeros by
        default.
      kernel_regularizer, bias_regularizer: called with the variable; what they give goes into the
        collection REGULARIZATION_LOSSES.
      activity_regularizer: the same, called with the outputs.
      kernel_constraint, bias_constraint: called with the variable after each step of an optimizer;
        give its new value.
      trainable: whether the variables are in the collection TRAINABLE_VARIABLES.
      reuse: whether variables are taken that are there already.
    Returns: [..., units], in the type of inputs.
    Raises: ValueError when the last size of inputs is not known.
    Example:
      >>> ones = tf.ones_initializer()
      >>> y = tf.layers.dense([[1.0, 2.0]], units=2, kernel_initializer=ones)
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(y).tolist()
      [[3.0, 3.0]]
    """
    x = convert_to_tensor(inputs)
    with variable_scope(name, default_name="dense", reuse=reuse):
        width = _known(x, -1)
        kernel = get_variable(
            "kernel", [width, units], x.dtype, kernel_initializer, kernel_regularizer, trainable,
            constraint=kernel_constraint,
        )  # fmt: skip
        if x.shape.rank == 2:
            y = apply_op("MatMul", x, kernel)
        else:
            rows = apply_op("MatMul", apply_op("Reshape", x, [-1, width]), kernel)
            outer = apply_op("StridedSlice", apply_op("Shape", x), [0], [-1], [1], begin_mask=1)
            y = apply_op("Reshape", rows, apply_op("ConcatV2", [outer, [units]], 0))
            y.set_shape([*x.shape[:-1], units])
        if use_bias:
            bias = get_variable(
                "bias", [units], x.dtype, bias_initializer or Zeros(), bias_regularizer, trainable,
                constraint=bias_constraint,
            )  # fmt: skip
            y = bias_add(y, bias)
        return _finished(y, activation, activity_regularizer)


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


@export("layers.conv2d")
def conv2d(
    inputs: TensorLike,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., Any] | None = None,
    bias_initializer: Callable[..., Any] | None = None,
    kernel_regularizer: Callable[..., Any] | None = None,
    bias_regularizer: Callable[..., Any] | None = None,
    activity_regularizer: Callable[..., Any] | None = None,
    kernel_constraint: Callable[..., Any] | None = None,
    bias_constraint: Callable[..., Any] | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: bool | None = None,
) -> Any:
    """Convolve images with filters, with variables of a scope of its own.

    Args:
      inputs: floating numbers [batch, height, width, in], or [batch, in, height, width] for
        "channels_first".
      filters: how many outputs each position has, an int.
      kernel_size, strides, dilation_rate: one int, or one each for height and width.
      padding: "valid" or "same".
      data_format: "channels_last" or "channels_first".
      activation: a function of a tensor, or None.
      use_bias: whether a bias [filters] is added.
      kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, reuse: as of dense.
    Returns: [batch, height, width, filters], or the layout of data_format, in the type of inputs.
    Raises: ValueError when the number of channels is not known, and for another data_format.
    Example:
      >>> x, ones = tf.ones([1, 3, 3, 1]), tf.ones_initializer()
      >>> y = tf.layers.conv2d(x, filters=1, kernel_size=2, kernel_initializer=ones)
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(y)[0, :, :, 0].tolist()
      [[4.0, 4.0], [4.0, 4.0]]
    """
    layout = _layout(data_format)
    x = convert_to_tensor(inputs)
    with variable_scope(name, default_name="conv2d", reuse=reuse):
        channels = _known(x, 1 if layout == "NCHW" else 3, rank=4)
        kernel = get_variable(
            "kernel", [*_pair(kernel_size), channels, filters], x.dtype, kernel_initializer,
            kernel_regularizer, trainable, constraint=kernel_constraint,
        )  # fmt: skip
        y = convolve(
            x,
            kernel,
            _pair(strides),
            padding.upper(),
            data_format=layout,
            dilations=_pair(dilation_rate),
        )
        if use_bias:
            bias = get_variable(
                "bias", [filters], x.dtype, bias_initializer or Zeros(), bias_regularizer,
                trainable, constraint=bias_constraint,
            )  # fmt: skip
            y = bias_add(y, bias, layout)
        return _finished(y, activation, activity_regularizer)


@export("layers.max_pooling2d")
def max_pooling2d(
    inputs: TensorLike,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the greatest element of each window of images.

    Args:
      inputs: numbers [batch, height, width, channels], or [batch, channels, height, width] for
        "channels_first".
      pool_size: the windows' size: one int, or one each for height and width.
      strides: how far apart windows begin: one int, or one each for height and width.
      padding: "valid" or "same".
      data_format: "channels_last" or "channels_first".
    Returns: images in the layout and type of inputs.
    Raises: ValueError for another data_format, and for shapes that cannot fit.
    Example:
      >>> x = tf.reshape(tf.range(4.0), [1, 2, 2, 1])
      >>> tf.Session().run(tf.layers.max_pooling2d(x, pool_size=2, strides=2)).tolist()
      [[[[3.0]]]]
    """
    layout = _layout(data_format)
    with get_default_graph().name_scope(name or "max_pooling2d"):
        return max_pool(inputs, _pair(pool_size), _pair(strides), padding.upper(), layout)


@export("layers.average_pooling2d")
def average_pooling2d(
    inputs: TensorLike,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of images.

    Args:
      inputs: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for "channels_first".
      pool_size: the windows' size: one int, or one each for height and width.
      strides: how far apart windows begin: one int, or one each for height and width.
      padding: "valid" or "same"; what is added does not count.
      data_format: "channels_last" or "channels_first".
    Returns: images in the layout and type of inputs.
    Raises: ValueError for another data_format, and for shapes that cannot fit.
    Example:
      >>> x = tf.reshape(tf.range(4.0), [1, 2, 2, 1])
      >>> tf.Session().run(tf.layers.average_pooling2d(x, pool_size=2, strides=2)).tolist()
      [[[[1.5]]]]
    """
    layout = _layout(data_format)
    with get_default_graph().name_scope(name or "average_pooling2d"):
        return avg_pool(inputs, _pair(pool_size), _pair(strides), padding.upper(), layout)


@export("layers.flatten")
def flatten(
    inputs: TensorLike, name: str | None = None, data_format: str = "channels_last"
) -> Tensor:
    """Return inputs with all dimensions but the first joined.

    Args:
      inputs: a tensor [batch, ...] of any type.
      data_format: "channels_last" or "channels_first"; with the latter the channels become the last
        dimension before they are joined.
    Returns: [batch, n], in the type of inputs.
    Raises: ValueError for another data_format.
    Example:
      >>> tf.layers.flatten(tf.zeros([2, 3, 4])).shape.as_list()
      [2, 12]
    """
    first = _layout(data_format) == "NCHW"
    with get_default_graph().name_scope(name or "flatten"):
        x = convert_to_tensor(inputs)
        rank = x.shape.rank
        if first and rank is not None and rank > 2:
            x = apply_op("Transpose", x, [0, *range(2, rank), 1])
        count = x.shape[1:].num_elements() if rank else None
        batch = x.dims[0] if x.dims else None
        if count:
            made: Tensor = apply_op("Reshape", x, [-1, count])
        else:
            rows = apply_op("StridedSlice", apply_op("Shape", x), [0], [1], [1])
            made = apply_op("Reshape", x, apply_op("ConcatV2", [rows, [-1]], 0))
        made.set_shape([batch, count])
        return made


@export("layers.dropout")
def dropout(
    inputs: TensorLike,
    rate: TensorLike = 0.5,
    noise_shape: TensorLike | None = None,
    seed: int | None = None,
    training: TensorLike = False,
    name: str | None = None,
) -> Tensor:
    """Set a random share of the elements to 0 while training, and scale up the others.

    Args:
      inputs: floating numbers of any shape.
      rate: the share, a scalar in [0, 1); the others are multiplied by 1 / (1 - rate).
      noise_shape: int32; where it is 1, elements along that dimension are dropped together.
      seed: an int, for the same draws in each run of the program.
      training: whether to do so: a bool, or a bool scalar tensor.
    Returns: a tensor of the shape and type of inputs.
    Example:
      >>> x = tf.ones([4, 100])
      >>> kept, dropped = tf.layers.dropout(x), tf.layers.dropout(x, rate=0.5, training=True)
      >>> with tf.Session() as session:
      ...     same, some = session.run([kept, dropped])
      >>> same.sum().item(), sorted({x.item() for x in some.ravel()})
      (400.0, [0.0, 2.0])
    """
    with get_default_graph().name_scope(name or "dropout"):
        x = convert_to_tensor(inputs)

        def dropped() -> Tensor:
            return drop(x, noise_shape=noise_shape, seed=seed, rate=rate)

        def kept() -> Tensor:
            made: Tensor = apply_op("Identity", x)
            return made

        found: Tensor = _when(training, dropped, kept)
        return found


def _when(training: TensorLike, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Choose now where training is a Python value, else when the graph runs."""
    if isinstance(training, (bool, int)):
        return then() if training else otherwise()
    return cond(training, then, otherwise)


@export("layers.batch_normalization")
def batch_normalization(
    inputs: TensorLike,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Callable[..., Any] | None = None,
    gamma_initializer: Callable[..., Any] | None = None,
    moving_mean_initializer: Callable[..., Any] | None = None,
    moving_variance_initializer: Callable[..., Any] | None = None,
    beta_regularizer: Callable[..., Any] | None = None,
    gamma_regularizer: Callable[..., Any] | None = None,
    beta_constraint: Callable[..., Any] | None = None,
    gamma_constraint: Callable[..., Any] | None = None,
    training: TensorLike = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: bool | None = None,
) -> Tensor:
    """Normalise inputs along axis by the batch's moments, or by moving ones when not training.

    The updates of the moving moments go into the collection UPDATE_OPS; run them with each
    training step.

    Args:
      inputs: floating numbers of known rank.
      axis: the dimension of the channels, each of which is normalised by itself.
      momentum: how much of the moving moments an update keeps, near 1.
      epsilon: added to the variance, so that the division is safe.
      center: whether a trained offset, beta, is added.
      scale: whether there is a trained factor, gamma.
      beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer:
        called with a shape; zeros, ones, zeros and ones by default.
      beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint, trainable, reuse: as
        the kernel's of dense.
      training: whether the batch's moments are used: a bool, or a bool scalar tensor.
    Returns: a tensor of the shape and type of inputs.
    Raises: ValueError when the size along axis is not known.
    Example:
      >>> y = tf.layers.batch_normalization([[1.0], [3.0]], training=True, epsilon=0.0)
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(y).tolist()
      [[-1.0], [1.0]]
    """
    x = convert_to_tensor(inputs)
    with variable_scope(name, default_name="batch_normalization", reuse=reuse):
        size = [_known(x, axis)]
        rank = len(x.shape)
        gamma = beta = None
        if scale:
            gamma = get_variable(
                "gamma", size, x.dtype, gamma_initializer or Ones(), gamma_regularizer, trainable,
                constraint=gamma_constraint,
            )  # fmt: skip
        if center:
            beta = get_variable(
                "beta", size, x.dtype, beta_initializer or Zeros(), beta_regularizer, trainable,
                constraint=beta_constraint,
            )  # fmt: skip
        moving = [
            get_variable("moving_mean", size, x.dtype, moving_mean_initializer or Zeros(),
                         trainable=False),
            get_variable("moving_variance", size, x.dtype, moving_variance_initializer or Ones(),
                         trainable=False),
        ]  # fmt: skip
        others = [i for i in range(rank) if i != axis % rank]
        by_axis = [1] * rank
        by_axis[axis % rank] = size[0]
        mean, variance = _when(
            training,
            lambda: list(moments(x, others)),
            lambda: [apply_op("Identity", v) for v in moving],
        )
        if training is not False:
            _add_updates(moving, [mean, variance], momentum, training)
        shaped_mean, shaped_variance, shaped_beta, shaped_gamma = (
            None if v is None else apply_op("Reshape", v, by_axis)
            for v in (mean, variance, beta, gamma)
        )
        return normalize(x, shaped_mean, shaped_variance, shaped_beta, shaped_gamma, epsilon)


def _add_updates(
    moving: list[Any], found: list[Tensor], momentum: float, training: TensorLike
) -> None:
    """Move the kept moments towards those of the batch; not at all when not training."""
    graph = get_default_graph()
    for variable, value in zip(moving, found):
        decay = _when(training, lambda: _constant(1 - momentum), lambda: _constant(0.0))
        if decay.dtype.base_dtype is not value.dtype.base_dtype:
            decay = apply_op("Cast", decay, DstT=value.dtype)
        distance = apply_op("Sub", variable, value)
        update = variable.assign_sub(apply_op("Mul", distance, decay), name="AssignMovingAvg")
        graph.add_to_collection(GraphKeys.UPDATE_OPS, getattr(update, "op", update))


def _constant(value: float) -> Tensor:
    return convert_to_tensor(value)
