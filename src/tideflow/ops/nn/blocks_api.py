"""Functions that rearrange bits, grids, and blocks of space, depth and batch.

Source: tensorflow/python/ops/array_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2


@export("bitcast")
def bitcast(input: TensorLike, type: DTypeLike, name: str | None = None) -> Tensor:
    """Return the same bytes read as another type.

    Args:
      input: a tensor [...] of numbers.
      type: the new type.  Where it is smaller, the result has a further last dimension; where it is
        greater, the last dimension of input must make up one number, and is gone.
    Returns: a tensor of that type.
    Raises: ValueError for a last dimension that does not make up one number.
    Example:
      >>> hex(int(tf.bitcast(1.0, tf.uint32)))
      '0x3f800000'
      >>> tf.bitcast(tf.constant(258, tf.int32), tf.uint8).numpy().tolist()
      [2, 1, 0, 0]
    """
    made: Tensor = apply_op("Bitcast", input, type=type, name=name)
    return made


@export("meshgrid")
def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Return for each vector a tensor over the grid of all of them.

    Args:
      args: n vectors, [a], [b], [c] and so on, of one type.
      kwargs: indexing, "xy" (default: the first two dimensions are swapped) or "ij"; and name.
    Returns: n tensors of the vectors' type, [b, a, c...] for "xy" and [a, b, c...] for "ij".
    Raises: ValueError for other keywords and another indexing.
    Example:
      >>> across, down = tf.meshgrid([1, 2, 3], [4, 5])
      >>> across.numpy().tolist(), down.numpy().tolist()
      ([[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]])
    """
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", "meshgrid")
    if kwargs or indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid takes indexing 'xy' or 'ij', and name; found {indexing!r}")
    with get_default_graph().name_scope(name):
        vectors = [convert_to_tensor(x) for x in args]
        rank = len(vectors)
        order = list(range(rank))
        if indexing == "xy" and rank > 1:
            order[:2] = [1, 0]
        sizes = [apply_op("Size", vectors[i]) for i in order]
        whole = apply_op("Pack", sizes) if sizes else None
        made: list[Tensor] = []
        for i, vector in enumerate(vectors):
            shape = [-1 if order[axis] == i else 1 for axis in range(rank)]
            made.append(apply_op("BroadcastTo", apply_op("Reshape", vector, shape), whole))
        return made


@export("space_to_batch_nd")
def space_to_batch_nd(
    input: TensorLike, block_shape: TensorLike, paddings: TensorLike, name: str | None = None
) -> Tensor:
    """Return a tensor padded, with each place within a block moved to the batch dimension.

    Args:
      input: [batch, space..., rest...], of any type, with n spatial dimensions.
      block_shape: int32 or int64 [n], the block's size in each of them.
      paddings: int32 or int64 [n, 2], zeros to add before and after each of them; the sums must be
        multiples of the block's sizes.
    Returns: [batch * product of block_shape, padded space / block_shape..., rest...].
    Raises: InvalidArgumentError for sizes that are no multiples, and negative paddings.
    Example:
      >>> x = tf.reshape(tf.range(4), [1, 4, 1])
      >>> tf.space_to_batch_nd(x, [2], [[0, 0]])[:, :, 0].numpy().tolist()
      [[0, 2], [1, 3]]
    """
    made: Tensor = apply_op("SpaceToBatchND", input, block_shape, paddings, name=name)
    return made


@export("batch_to_space_nd")
def batch_to_space_nd(
    input: TensorLike, block_shape: TensorLike, crops: TensorLike, name: str | None = None
) -> Tensor:
    """Return what space_to_batch_nd with the same block and paddings was given.

    Args:
      input: [batch * product of block_shape, space..., rest...], of any type.
      block_shape: int32 or int64 [n], the block's size in each of n spatial dimensions.
      crops: int32 or int64 [n, 2], how much to cut off before and after each of them.
    Returns: [batch, space * block_shape - crops..., rest...].
    Raises: InvalidArgumentError for a batch that does not divide by the block, and crops that are
      negative or leave nothing.
    Example:
      >>> x = tf.constant([[[0], [2]], [[1], [3]]])
      >>> whole = tf.batch_to_space_nd(x, [2], [[0, 0]])
      >>> tf.Session().run(whole)[:, :, 0].tolist()
      [[0, 1, 2, 3]]
    """
    made: Tensor = apply_op("BatchToSpaceND", input, block_shape, crops, name=name)
    return made


@export("space_to_batch", "nn.space_to_batch")
def space_to_batch(
    input: TensorLike,
    paddings: TensorLike,
    block_size: TensorLike | None = None,
    name: str | None = None,
    block_shape: TensorLike | None = None,
) -> Tensor:
    """Return images padded, with each place within a square block moved to the batch dimension.

    Args:
      input: images [batch, height, width, channels], of any type.
      paddings: int32 or int64 [2, 2], zeros to add before and after rows and columns.
      block_size: the block's side, an int; block_shape is another name for it.
    Returns: [batch * block_size ** 2, padded height / block_size, padded width / block_size,
      channels].
    Raises: InvalidArgumentError for sizes that are no multiples, and negative paddings.
    Example:
      >>> x = tf.reshape(tf.range(4), [1, 2, 2, 1])
      >>> moved = tf.space_to_batch(x, [[0, 0], [0, 0]], block_size=2)
      >>> tf.Session().run(moved)[:, 0, 0, 0].tolist()
      [0, 1, 2, 3]
    """
    block = block_size if block_shape is None else block_shape
    return space_to_batch_nd(input, _square(block), paddings, name)


@export_v2("space_to_batch", "nn.space_to_batch")
def space_to_batch_v2(
    input: TensorLike, block_shape: TensorLike, paddings: TensorLike, name: str | None = None
) -> Tensor:
    """Return a tensor padded, with each place within a block moved to the batch dimension.

    Args:
      input: [batch, space..., rest...], of any type, with n spatial dimensions.
      block_shape: int32 or int64 [n], the block's size in each of them.
      paddings: int32 or int64 [n, 2], zeros to add before and after each of them.
    Returns: [batch * product of block_shape, padded space / block_shape..., rest...].
    Raises: InvalidArgumentError for sizes that are no multiples, and negative paddings.
    Example:
      >>> x = tf.reshape(tf.range(4), [1, 2, 2, 1])
      >>> tf.space_to_batch(x, [1, 2], [[0, 0], [0, 0]])[..., 0].numpy().tolist()
      [[[0], [2]], [[1], [3]]]
    """
    return space_to_batch_nd(input, block_shape, paddings, name)


@export("batch_to_space")
def batch_to_space(
    input: TensorLike,
    crops: TensorLike,
    block_size: TensorLike | None = None,
    name: str | None = None,
    block_shape: TensorLike | None = None,
) -> Tensor:
    """Return what space_to_batch with the same block and paddings was given.

    Args:
      input: [batch * block_size ** 2, height, width, channels], of any type.
      crops: int32 or int64 [2, 2], how much to cut off before and after rows and columns.
      block_size: the block's side, an int; block_shape is another name for it.
    Returns: [batch, height * block_size - crops, width * block_size - crops, channels].
    Raises: InvalidArgumentError for a batch that does not divide by the block, and crops that are
      negative or leave nothing.
    Example:
      >>> x = tf.reshape(tf.range(4), [4, 1, 1, 1])
      >>> whole = tf.batch_to_space(x, [[0, 0], [0, 0]], block_size=2)
      >>> tf.Session().run(whole)[0, :, :, 0].tolist()
      [[0, 1], [2, 3]]
    """
    block = block_size if block_shape is None else block_shape
    return batch_to_space_nd(input, _square(block), crops, name)


@export_v2("batch_to_space")
def batch_to_space_v2(
    input: TensorLike, block_shape: TensorLike, crops: TensorLike, name: str | None = None
) -> Tensor:
    """Return what space_to_batch with the same block and paddings was given.

    Args:
      input: [batch * product of block_shape, space..., rest...], of any type.
      block_shape: int32 or int64 [n], the block's size in each of n spatial dimensions; one int is
        the side of a square.
      crops: int32 or int64 [n, 2], how much to cut off before and after each of them.
    Returns: [batch, space * block_shape - crops..., rest...].
    Raises: InvalidArgumentError for a batch that does not divide by the block, and crops that are
      negative or leave nothing.
    Example:
      >>> x = tf.reshape(tf.range(4), [4, 1, 1, 1])
      >>> tf.batch_to_space(x, 2, [[0, 0], [0, 0]])[0, :, :, 0].numpy().tolist()
      [[0, 1], [2, 3]]
    """
    return batch_to_space_nd(input, _square(block_shape), crops, name)


def _square(block: object) -> Any:
    return [block, block] if isinstance(block, int) else block


@export("required_space_to_batch_paddings")
def required_space_to_batch_paddings(
    input_shape: TensorLike,
    block_shape: TensorLike,
    base_paddings: TensorLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the paddings that make sizes multiples of a block's, and the crops that undo them.

    Args:
      input_shape: int32 [n], the sizes of the spatial dimensions.
      block_shape: int32 [n], the block's size in each of them.
      base_paddings: int32 [n, 2], paddings that are wanted anyway; zeros where None.
    Returns: paddings and crops, both int32 [n, 2].
    Example:
      >>> paddings, crops = tf.required_space_to_batch_paddings([5, 4], [2, 2])
      >>> paddings.numpy().tolist(), crops.numpy().tolist()
      ([[0, 1], [0, 0]], [[0, 1], [0, 0]])
    """
    with get_default_graph().name_scope(name or "required_space_to_batch_paddings"):
        sizes = convert_to_tensor(input_shape, "int32")
        block = convert_to_tensor(block_shape, "int32")
        zeros = apply_op("ZerosLike", sizes)
        if base_paddings is None:
            starts, ends = zeros, zeros
        else:
            base = convert_to_tensor(base_paddings, "int32")
            starts, ends = apply_op("Unpack", base, num=2, axis=1)
        extra = apply_op("FloorMod", apply_op("Neg", sizes + starts + ends), block)
        paddings = apply_op("Pack", [starts, ends + extra], axis=1)
        return paddings, apply_op("Pack", [zeros, extra], axis=1)


@export("depth_to_space", "nn.depth_to_space")
def depth_to_space(
    input: TensorLike, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Return images with depth moved into blocks of space.

    Args:
      input: images [batch, height, width, depth], of any type; [batch, depth, height, width] for
        "NCHW".  The depth divides by block_size ** 2.
      block_size: the blocks' side, an int of 2 or more.
      data_format: "NHWC" or "NCHW".
    Returns: images [batch, height * block_size, width * block_size, depth / block_size ** 2].
    Raises: ValueError for another rank or block_size; InvalidArgumentError, when run, for a depth
      that does not divide.
    Example:
      >>> x = tf.constant([[[[1, 2, 3, 4]]]])
      >>> tf.Session().run(tf.nn.depth_to_space(x, 2))[0, :, :, 0].tolist()
      [[1, 2], [3, 4]]
    """
    made: Tensor = apply_op(
        "DepthToSpace", input, block_size=block_size, data_format=data_format, name=name
    )
    return made


@export("space_to_depth", "nn.space_to_depth")
def space_to_depth(
    input: TensorLike, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Return images with blocks of space moved into depth.

    Args:
      input: images [batch, height, width, depth], of any type; [batch, depth, height, width] for
        "NCHW".  Height and width divide by block_size.
      block_size: the blocks' side, an int of 2 or more.
      data_format: "NHWC" or "NCHW".
    Returns: images [batch, height / block_size, width / block_size, depth * block_size ** 2].
    Raises: ValueError for another rank or block_size; InvalidArgumentError, when run, for a height
      or width that does not divide.
    Example:
      >>> x = tf.reshape(tf.range(1, 5), [1, 2, 2, 1])
      >>> tf.Session().run(tf.nn.space_to_depth(x, 2)).tolist()
      [[[[1, 2, 3, 4]]]]
    """
    made: Tensor = apply_op(
        "SpaceToDepth", input, block_size=block_size, data_format=data_format, name=name
    )
    return made
