"""How the tensors of a checkpoint are shared out among its files.

`tf.train.CheckpointOptions(experimental_sharding_callback=...)` takes a callback; without one, a
task writes one file.
"""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.ops.export import export
from tideflow.wire import dtypes
from tideflow.wire.device_name import parse_device_name
from tideflow.wire.dtypes import DType

_log = logging.getLogger("tensorflow")

# What a file holds: tensors by key, and by which part of the whole they are ("" for a whole).
Shard = Mapping[str, Mapping[str, Tensor]]


@export("train.experimental.ShardableTensor")
@dataclass(frozen=True, eq=False)
class ShardableTensor:
    """A tensor that a checkpoint will hold.

    Attributes: tensor, with its dtype, shape and device; name and checkpoint_key, under which it
    is saved; slice_spec, which part of a whole it is ("6 2 0,3:0,2"), "" for a whole; trackable,
    the object that it is of.
    """

    _tensor_save_spec: Any
    tensor: Tensor
    dtype: DType
    device: Any
    name: str
    shape: TensorShape
    slice_spec: str
    checkpoint_key: str
    trackable: Any


@export("train.experimental.ShardingCallback")
class ShardingCallback(abc.ABC):
    """Says which tensors of a task go into which of its files."""

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """What it does, for messages."""

    @abc.abstractmethod
    def __call__(self, shardable_tensors: Sequence[ShardableTensor]) -> Sequence[Shard]:
        """Return the files, each as tensors by key and part."""

    def share_out(
        self, tensors: Sequence[tuple[str, str, Tensor]]
    ) -> list[list[tuple[str, str, Tensor]]]:
        """Return a task's tensors by files; each has a key, and says which part of a whole it is.

        Raises: RuntimeError where the callback leaves out a key, or adds one.
        """
        given = [
            ShardableTensor(
                _tensor_save_spec=None,
                tensor=tensor,
                dtype=tensor.dtype,
                device=parse_device_name(tensor.device),
                name=key,
                shape=tensor.shape,
                slice_spec=part,
                checkpoint_key=key,
                trackable=None,
            )
            for key, part, tensor in tensors
        ]
        files = [
            [(key, part, tensor) for key, parts in file.items() for part, tensor in parts.items()]
            for file in self(given)
        ]
        found = {key for file in files for key, _, _ in file}
        wanted = {key for key, _, _ in tensors}
        if found != wanted:
            raise RuntimeError(
                f"the sharding callback {self.description!r} must return the tensors that it is "
                f"given: {sorted(wanted - found)} lack, {sorted(found - wanted)} are new"
            )
        return [file for file in files if file]

    def __hash__(self) -> int:
        known = [value for value in vars(self).values() if isinstance(value, Hashable)]
        return hash((self.description, *vars(self), *known))


@export("train.experimental.ShardByTaskPolicy")
class ShardByTaskPolicy(ShardingCallback):
    """Writes one file for each task, as is done without a callback."""

    @property
    def description(self) -> str:
        """What it does, for messages."""
        return "Split tensors into shards based on their device spec task."

    def __call__(self, shardable_tensors: Sequence[ShardableTensor]) -> Sequence[Shard]:
        """Return one file with all tensors."""
        found: dict[str, dict[str, Tensor]] = {}
        for one in shardable_tensors:
            found.setdefault(one.checkpoint_key, {})[one.slice_spec] = one.tensor
        return [found]


@export("train.experimental.MaxShardSizePolicy")
class MaxShardSizePolicy(ShardingCallback):
    """Writes files whose tensors have so many bytes at most; large tensors are cut.

    A single element, or a tensor of text, that has more makes a file of its own.
    """

    def __init__(self, max_shard_size: int) -> None:
        self.max_shard_size = max_shard_size

    @property
    def description(self) -> str:
        """What it does, for messages."""
        return "Split tensors into shards with a max shard size."

    def __call__(self, shardable_tensors: Sequence[ShardableTensor]) -> Sequence[Shard]:
        """Return the files, filled one after another."""
        files = _Files(self.max_shard_size)
        for one in shardable_tensors:
            files.place(one, (0,) * len(one.tensor.dims or ()), tuple(one.tensor.dims or ()))
        return files.shards


class _Files:
    """Files that are filled one after another, up to a number of bytes each."""

    def __init__(self, most_bytes: int) -> None:
        self.shards: list[dict[str, dict[str, Tensor]]] = [{}]
        self._most = most_bytes
        self._left = most_bytes

    def place(self, one: ShardableTensor, begin: tuple[Any, ...], sizes: tuple[Any, ...]) -> None:
        """Put part of a tensor into the last file, and what it has no room for into new ones."""
        size_bytes = _size_bytes(one, sizes)
        axis = _first_to_cut(one, sizes)
        if size_bytes <= self._left or (axis is None and not self.shards[-1]):
            if size_bytes > self._left:
                _log.warning("%s is larger than a file of a checkpoint may be", one.checkpoint_key)
            self._add(one, begin, sizes, size_bytes)
            return
        row_bytes = size_bytes if axis is None else size_bytes // sizes[axis]
        if row_bytes > self._left and (axis is None or row_bytes <= self._most or self.shards[-1]):
            self.shards.append({})
            self._left = self._most
            self.place(one, begin, sizes)
            return
        assert axis is not None
        taken = max(1, self._left // row_bytes)
        rest_begin = (*begin[:axis], begin[axis] + taken, *begin[axis + 1 :])
        self.place(one, begin, (*sizes[:axis], taken, *sizes[axis + 1 :]))
        self.place(one, rest_begin, (*sizes[:axis], sizes[axis] - taken, *sizes[axis + 1 :]))

    def _add(
        self, one: ShardableTensor, begin: tuple[Any, ...], sizes: tuple[Any, ...], size_bytes: int
    ) -> None:
        spec, tensor = one.slice_spec, one.tensor
        if sizes != tuple(one.tensor.dims or ()):
            spec = _part(one, begin, sizes)
            tensor = tensor[tuple(slice(at, at + size) for at, size in zip(begin, sizes))]
        self.shards[-1].setdefault(one.checkpoint_key, {})[spec] = tensor
        self._left -= size_bytes


def _size_bytes(one: ShardableTensor, sizes: tuple[Any, ...]) -> int:
    if one.dtype is dtypes.string:
        return sum(len(text) for text in np.asarray(one.tensor).reshape(-1).tolist())
    return int(math.prod(sizes) * one.dtype.size)


def _first_to_cut(one: ShardableTensor, sizes: tuple[Any, ...]) -> int | None:
    if one.dtype is dtypes.string:
        return None
    return next((axis for axis, size in enumerate(sizes) if size > 1), None)


def _part(one: ShardableTensor, begin: tuple[Any, ...], sizes: tuple[Any, ...]) -> str:
    """Return which part of the whole it is, as checkpoints say it."""
    whole = " ".join(map(str, one.tensor.dims or ()))
    if one.slice_spec:
        whole, _, own = one.slice_spec.rpartition(" ")
        starts = [int(extent.partition(",")[0]) for extent in own.split(":")]
        begin = tuple(start + at for start, at in zip(starts, begin))
    extents = ":".join(f"{at},{size}" for at, size in zip(begin, sizes))
    return f"{whole} {extents}"
