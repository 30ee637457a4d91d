"""Datasets whose shards are filled in by whoever shares them out.

`shard(SHARD_HINT, SHARD_HINT)` says where a dataset may be cut; how many parts there are, and which
one is wanted, is known to a strategy or to the tf.data service.

Source: tensorflow/core/grappler/optimizers/data/auto_shard.cc (AutoShardPolicy.HINT).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.kernel import bind
from tideflow.graph.node import Node
from tideflow.ops.data.transformations import SHARD_HINT
from tideflow.ops.data.values import Dataset


def with_shards(dataset: Dataset, count: int, index: int) -> Dataset:
    """Return a dataset in which each hint is one of count shards, that of an index.

    Only datasets that are read in every run are looked at, not those that functions make.  What has
    no hint is handed on as it is.
    """
    return _Filled(count, index).replace(dataset)


class _Filled:
    """Makes datasets again, with shards in place of hints."""

    def __init__(self, count: int, index: int) -> None:
        self._count = count
        self._index = index
        # By identity: what was replaced, which is kept, and by what.
        self._made: dict[int, tuple[Dataset, Dataset]] = {}

    def replace(self, dataset: Dataset) -> Dataset:
        found = self._made.get(id(dataset))
        if found is None:
            found = self._made[id(dataset)] = dataset, self._replaced(dataset)
        return found[1]

    def _replaced(self, dataset: Dataset) -> Dataset:
        origin = dataset.origin
        if origin is None:
            return dataset
        node, attrs = origin.ctx.node, {}
        inputs = [self._input(value) for value in origin.inputs]
        if dataset.kind == "Shard" and int(inputs[1]) == SHARD_HINT:
            inputs[1:] = np.int64(self._count), np.int64(self._index)
            attrs = {"require_non_empty": True}
        elif all(new is old for new, old in zip(inputs, origin.inputs)):
            return dataset
        same = Node(node.name, node.op_def, [], [], {**node.attrs, **attrs}, node.device)
        made: Dataset = bind(same, origin.ctx)(*inputs)
        return made

    def _input(self, value: Any) -> Any:
        bare = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
        if not isinstance(bare, Dataset):
            return value
        found = self.replace(bare)
        return value if found is bare else found
