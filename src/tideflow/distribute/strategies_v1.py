"""Strategies in the shape of TensorFlow 1: with iterators of their own, and in graphs of sessions.

In a graph a strategy has one device; where operations are called at once, any number.

Source: tensorflow/python/distribute/distribute_lib.py for names and rules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.distribute import mirrored
from tideflow.distribute.input import InputContext
from tideflow.distribute.reduce_op import ReduceOp
from tideflow.distribute.replica_context import get_strategy, has_strategy
from tideflow.distribute.strategy import Strategy, StrategyExtended
from tideflow.graph.graph import get_default_graph
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.data.session_iterators import make_initializable_iterator
from tideflow.ops.export import export, export_value
from tideflow.ops.framework import nest
from tideflow.wire import messages as pb
from tideflow.wire.errors import UnimplementedError


class InputIterator:
    """Walks over a dataset that is parted among the replicas, again after each `initialize`."""

    def __init__(self, strategy: Strategy, dataset: Any) -> None:
        self._strategy = strategy
        self._dataset = dataset
        self._in_graph = not get_default_graph().is_eager
        self._walk: Any = None
        if self._in_graph:
            self._walk = make_initializable_iterator(dataset)
        else:
            self.initialize()

    def get_next(self) -> Any:
        """Return the next element, a part for each replica."""
        return self._walk.get_next()

    def initialize(self) -> Any:
        """Begin at the first element; in a graph, by the operation that is returned."""
        if self._in_graph:
            return self._walk.initializer
        self._walk = iter(self._strategy.experimental_distribute_dataset(self._dataset))
        return None

    @property
    def initializer(self) -> Any:
        """What `initialize` returns."""
        return self.initialize()


@export("distribute.Strategy")
class StrategyV1(Strategy):
    """A way to run one program on many replicas, with TensorFlow 1's names for its input."""

    def make_dataset_iterator(self, dataset: Any) -> InputIterator:
        """Return an iterator over a dataset, each element of which is parted among the replicas."""
        return InputIterator(self, dataset)

    def make_input_fn_iterator(
        self, input_fn: Callable[[Any], Any], replication_mode: Any = None
    ) -> InputIterator:
        """Return an iterator over what input_fn(InputContext) gives."""
        return InputIterator(self, input_fn(InputContext(1, 0, self.num_replicas_in_sync)))

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Any:
        """Return a dataset of the rows of arrays."""
        return Dataset.from_tensor_slices(nest.map_structure(np.asarray, numpy_input))

    def experimental_run(
        self, fn: Callable[..., Any], input_iterator: InputIterator | None = None
    ) -> Any:
        """Return what fn gives in each replica for the next element of an iterator, if any."""
        with self.scope():
            args = () if input_iterator is None else (input_iterator.get_next(),)
            return self.run(fn, args)

    def update_config_proto(self, config_proto: Any) -> Any:
        """Return a copy of a configuration: the strategy needs nothing of it."""
        return pb.ConfigProto.FromString(config_proto.SerializeToString())


@export("distribute.OneDeviceStrategy")
class OneDeviceStrategyV1(mirrored.OneDeviceStrategy, StrategyV1):
    """One replica, on one device, with its variables.

    Args:
      device: a name, in full or in part.
    """


@export("distribute.MirroredStrategy")
class MirroredStrategyV1(mirrored.MirroredStrategy, StrategyV1):
    """One replica on each of several devices, with variables mirrored on all of them.

    Arguments as in the TF2 shape.
    Raises: UnimplementedError for several devices in a graph of sessions.
    """

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: Any = None) -> None:
        super().__init__(devices, cross_device_ops)
        if get_default_graph().is_eager:
            return
        if self.num_replicas_in_sync > 1:
            raise UnimplementedError(
                "a MirroredStrategy of several devices needs operations that are called at once: "
                "call tf.enable_eager_execution() first, or give one device"
            )
        self.extended = mirrored.OneDeviceExtended(self, self.extended.worker_devices)


@export("distribute.get_loss_reduction")
def get_loss_reduction() -> ReduceOp:
    """Return how losses of replicas become one: they are added up, as optimizers expect."""
    return ReduceOp.SUM


@export("distribute.experimental_set_strategy")
def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Have a strategy in force for what is not in a scope of its own; None for none any more.

    Raises: RuntimeError inside a strategy's scope.
    """
    if has_strategy() and _global.strategy is not get_strategy():
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    _global.change(strategy)


class _Global:
    """The strategy that is in force for the whole program, if one is."""

    def __init__(self) -> None:
        self.strategy: Strategy | None = None
        self._scope = contextlib.ExitStack()

    def change(self, strategy: Strategy | None) -> None:
        """Leave the scope of one strategy, and enter that of another."""
        self._scope.close()
        self.strategy = strategy
        if strategy is not None:
            self._scope.enter_context(strategy.scope())


_global = _Global()

export_value("distribute.StrategyExtended", StrategyExtended)
