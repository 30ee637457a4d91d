"""Cells made of cells: stacked ones, and such that drop, add or place what a cell gives.

Source: tensorflow/python/keras/layers/legacy_rnn/rnn_cell_wrapper_impl.py for names and rules;
Y. Gal, Z. Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks,
2016 (variational_recurrent).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_static_value, nest
from tideflow.ops.nn.dropouts import dropout
from tideflow.ops.random.draws import random_uniform
from tideflow.ops.state import variable_scope
from tideflow.ops.state.scopes import VariableScope
from tideflow.ops.tensor_arrays import TensorArray
from tideflow.recurrent.cells import LSTMStateTuple, RNNCell, require_cell

Step = Callable[..., Any]


class _Wrapper(RNNCell):
    """Base of wrappers: sizes and variables are those of the cell inside."""

    def __init__(self, cell: RNNCell, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_cell("cell", cell)
        self.cell = cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self.cell

    @property
    def state_size(self) -> Any:
        """The state's size of the cell inside."""
        return self.cell.state_size

    @property
    def output_size(self) -> Any:
        """The output's size of the cell inside."""
        return self.cell.output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables of the cell inside that are trained."""
        return list(getattr(self.cell, "trainable_weights", [])) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables of the cell inside."""
        name = "non_trainable_weights" if self.trainable else "weights"
        return list(getattr(self.cell, name, []))

    def zero_state(self, batch_size: int | Tensor, dtype: DTypeLike) -> Any:
        """Return the state of zeros of the cell inside."""
        with get_default_graph().name_scope(type(self).__name__ + "ZeroState"):
            return self.cell.zero_state(batch_size, dtype)

    def __call__(
        self, inputs: TensorLike, state: Any, scope: VariableScope | str | None = None
    ) -> Any:
        """Return the output and the next state; `scope` is for the cell inside."""

        def step(inputs: TensorLike, state: Any) -> Any:
            # A cell of a user's own may take no scope.
            given = {} if scope is None else {"scope": scope}
            return self.cell(inputs, state, **given)

        return self._around(inputs, state, step)

    def _around(self, inputs: TensorLike, state: Any, step: Step) -> Any:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same wrapper."""
        inner = {"class_name": type(self.cell).__name__, "config": self.cell.get_config()}
        return {**super().get_config(), "cell": inner}


def _keeps_all_but_cells(substate: Any) -> Any:
    """Say which parts of a state are dropped: of an LSTM's the output alone, no TensorArrays."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(substate, TensorArray)


@export("nn.rnn_cell.DropoutWrapper")
class DropoutWrapper(_Wrapper):
    """A cell whose inputs, outputs and states lose a random share of their elements.

    Args:
      cell: the cell inside.
      input_keep_prob, output_keep_prob, state_keep_prob: which share is kept, numbers or scalar
        tensors in [0, 1].
      variational_recurrent: whether one choice is made for all steps of a run.
      input_size, dtype: of the inputs; needed for that.
      seed: of the choices.
      dropout_state_filter_visitor: a function that says of a state which parts of it may be
        dropped, as a structure of bools; by default those that are no cells of an LSTM.
    Raises: TypeError for what is no cell or function; ValueError for a share beyond [0, 1], and
      where one choice for all steps is asked for without dtype or input_size.
    """

    def __init__(
        self,
        cell: RNNCell,
        input_keep_prob: TensorLike = 1.0,
        output_keep_prob: TensorLike = 1.0,
        state_keep_prob: TensorLike = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: DTypeLike | None = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(cell, dtype=dtype, **kwargs)
        visitor = dropout_state_filter_visitor
        if visitor is not None and not callable(visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._filter = visitor or _keeps_all_but_cells
        with get_default_graph().name_scope("DropoutWrapperInit"):
            self._input_keep_prob = _share("input_keep_prob", input_keep_prob)
            self._state_keep_prob = _share("state_keep_prob", state_keep_prob)
            self._output_keep_prob = _share("output_keep_prob", output_keep_prob)
        self._variational_recurrent = variational_recurrent
        self._input_size = input_size
        self._seed = seed
        self._noise: dict[str, Any] = {}
        if variational_recurrent:
            self._draw_noise(dtype)

    def _draw_noise(self, dtype: DTypeLike | None) -> None:
        """Draw what is the same for all steps and all members of a batch."""
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        sizes = {"state": self.cell.state_size, "output": self.cell.output_size}
        if _drops(self._input_keep_prob):
            if self._input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, "
                    "input_size must be provided"
                )
            sizes["input"] = self._input_size
        for what, size in sizes.items():
            leaves = [
                random_uniform(_one_row(leaf), seed=self._seed_of(what, i), dtype=dtype)
                for i, leaf in enumerate(nest.flatten(size))
            ]
            self._noise[what] = nest.pack_sequence_as(size, leaves)

    def _seed_of(self, what: str, index: int) -> int | None:
        if self._seed is None:
            return None
        text = f"{self._seed}{what}_{index}".encode()
        return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _around(self, inputs: TensorLike, state: Any, step: Step) -> Any:
        if _drops(self._input_keep_prob):
            inputs = self._dropped(inputs, "input", self._input_keep_prob)
        output, new_state = step(inputs, state)
        if _drops(self._state_keep_prob):
            chosen = _filtered(self._filter, new_state)
            new_state = self._dropped(new_state, "state", self._state_keep_prob, chosen)
        if _drops(self._output_keep_prob):
            output = self._dropped(output, "output", self._output_keep_prob)
        return output, new_state

    def _dropped(
        self, values: TensorLike, what: str, keep_prob: Any, chosen: Sequence[bool] | None = None
    ) -> Any:
        """Return the leaves of a structure, those that are chosen after dropout."""
        leaves = nest.flatten(values)
        noises = nest.flatten(self._noise[what]) if self._variational_recurrent else leaves
        found = []
        for i, (leaf, noise) in enumerate(zip(leaves, noises)):
            if chosen is not None and not chosen[i]:
                found.append(leaf)
            elif self._variational_recurrent:
                found.append(_masked(leaf, noise, keep_prob))
            else:
                seed = self._seed_of(what, i)
                rate = 1.0 - keep_prob
                found.append(dropout(leaf, rate=rate, seed=seed))
        return nest.pack_sequence_as(values, found)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same wrapper."""
        names = ("input_keep_prob", "output_keep_prob", "state_keep_prob", "variational_recurrent",
                 "input_size", "seed")  # fmt: skip
        return {**super().get_config(), **{name: getattr(self, f"_{name}") for name in names}}


def _share(name: str, given: Any) -> Any:
    """Return a share as a float where it is known, else as a tensor."""
    tensor = convert_to_tensor(given)
    known = get_static_value(tensor)
    if known is None:
        return tensor
    if not 0 <= known <= 1:
        raise ValueError(f"Parameter {name} must be between 0 and 1: {known}")
    return float(known)


def _drops(keep_prob: TensorLike) -> bool:
    return not isinstance(keep_prob, float) or keep_prob < 1


def _one_row(size: ShapeLike) -> list[Any]:
    tail = TensorShape(size if isinstance(size, (TensorShape, list, tuple)) else [size])
    return [1, *tail.as_list()]


def _masked(value: Tensor, noise: Tensor, keep_prob: TensorLike) -> Tensor:
    """Return a value with those elements kept for which noise is at least 1 - keep_prob."""
    share = convert_to_tensor(keep_prob, value.dtype)
    kept = apply_op("Floor", apply_op("AddV2", noise, share))
    made: Tensor = apply_op("RealDiv", value, share) * kept
    made.set_shape(value.shape)
    return made


def _filtered(visitor: Callable[[Any], Any], state: Any) -> list[bool]:
    """Return for each leaf of a state whether it may be dropped."""
    said = visitor(state)
    if isinstance(said, bool):
        if nest.is_nested(state) and said:
            parts = state.values() if isinstance(state, dict) else state
            return [one for part in parts for one in _filtered(visitor, part)]
        return [said] * len(nest.flatten(state))
    return [bool(one) for one in nest.flatten(said)]


@export("nn.rnn_cell.ResidualWrapper")
class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs.

    Args:
      cell: the cell inside.
      residual_fn: a function of inputs and outputs that gives what is the output instead.
    """

    def __init__(
        self, cell: RNNCell, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _around(self, inputs: TensorLike, state: Any, step: Step) -> Any:
        outputs, new_state = step(inputs, state)
        nest.assert_same_structure(inputs, outputs)
        return (self._residual_fn or _added)(inputs, outputs), new_state


def _added(inputs: TensorLike, outputs: Any) -> Any:
    """Return the sums of leaves.  Raises: ValueError for other shapes."""

    def add(given: Any, made: Any) -> Any:
        given = convert_to_tensor(given)
        if not given.shape.is_compatible_with(made.shape):
            raise ValueError(f"Shapes {given.shape} and {made.shape} are incompatible")
        return given + made

    return nest.map_structure(add, inputs, outputs)


@export("nn.rnn_cell.DeviceWrapper")
class DeviceWrapper(_Wrapper):
    """A cell that runs on a device.

    Args:
      device: a name or a function of operations, as for tf.device.
    """

    def __init__(self, cell: RNNCell, device: Any, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: int | Tensor, dtype: DTypeLike) -> Any:
        """Return the state of zeros, on the device."""
        with get_default_graph().device(self._device):
            return super().zero_state(batch_size, dtype)

    def _around(self, inputs: TensorLike, state: Any, step: Step) -> Any:
        with get_default_graph().device(self._device):
            return step(inputs, state)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same wrapper."""
        return {**super().get_config(), "device": self._device}


@export("nn.rnn_cell.MultiRNNCell")
class MultiRNNCell(RNNCell):
    """Cells on top of each other: each takes the output of the one before it.

    Args:
      cells: the cells, the first one takes the inputs.
      state_is_tuple: whether the state is a tuple of their states, rather than one tensor with all
        columns.
    Raises: ValueError for no cells, or states that are tuples where one tensor is asked for;
      TypeError for what is no list, and members that are no cells.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        for number, cell in enumerate(cells):
            require_cell(f"cells[{number}]", cell)
        self._cells = cells
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.  "
                f"State sizes are: {[cell.state_size for cell in cells]}"
            )

    @property
    def cells(self) -> Sequence[Any]:
        """The cells."""
        return self._cells

    @property
    def state_size(self) -> Any:
        """The sizes of the cells' states, as a tuple, or their sum."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The output's size of the last cell."""
        return self._cells[-1].output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables of the cells that are trained."""
        return _joined(self._cells, "trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables of the cells."""
        return _joined(self._cells, "non_trainable_weights" if self.trainable else "weights")

    def zero_state(self, batch_size: int | Tensor, dtype: DTypeLike) -> Any:
        """Return the cells' states of zeros."""
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        with get_default_graph().name_scope(type(self).__name__ + "ZeroState"):
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: TensorLike, state: Any) -> Any:
        """Return the output of the last cell, and the next states of all."""
        if self._state_is_tuple:
            if not nest.is_nested(state):
                raise ValueError(
                    f"Expected state to be a tuple of length {len(self.state_size)}, but received: "
                    f"{state}"
                )
            states = list(state)
        else:
            sizes = [cell.state_size for cell in self._cells]
            starts = [sum(sizes[:i]) for i in range(len(sizes))]
            states = [
                apply_op("Slice", state, [0, at], [-1, size]) for at, size in zip(starts, sizes)
            ]
        following = []
        for i, cell in enumerate(self._cells):
            with variable_scope(f"cell_{i}"):
                inputs, made = cell(inputs, states[i])
            following.append(made)
        if self._state_is_tuple:
            return inputs, tuple(following)
        return inputs, apply_op("ConcatV2", following, 1)


def _joined(cells: Sequence[Any], name: str) -> list[Any]:
    return [one for cell in cells for one in getattr(cell, name, [])]
