"""Recurrent networks over lists of inputs, each step by itself in the graph: `static_rnn`.

Source: tensorflow/python/ops/rnn.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array.joining import concat, stack, unstack
from tideflow.ops.array.padding import reverse_sequence
from tideflow.ops.control_flow import control_dependencies
from tideflow.ops.export import export
from tideflow.ops.framework import identity, nest
from tideflow.ops.state import variable_scope
from tideflow.recurrent.cells import require_cell, zeros_for
from tideflow.recurrent.sequences import first_state, kept_after_end, lengths_of, size_of


@export("nn.static_rnn")
def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: DTypeLike | None = None,
    sequence_length: TensorLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs; returns the list of outputs, and the last state.

    Args:
      cell: a cell (see tf.nn.rnn_cell).
      inputs: for each step [batch, features], or a structure of such.
      initial_state: in the structure of cell.state_size; zeros of `dtype` by default.
      sequence_length: int [batch]; beyond its end the outputs of a sequence are 0, and its state
        stays.
      scope: the name of the variable scope, "rnn" by default, or a scope.
    Raises: TypeError for what is no cell or list; ValueError for no inputs, inputs of unknown
      depth, and for neither initial_state nor dtype.
    """
    require_cell("cell", cell)
    _require_steps(inputs)
    outputs = []
    with variable_scope(scope or "rnn") as entered:
        steps = [nest.map_structure(convert_to_tensor, step) for step in inputs]
        flat = nest.flatten(steps[0])
        _require_depth(flat)
        batch_size = size_of(flat, 0, "Batch_size")
        state = first_state(cell, initial_state, batch_size, dtype)
        lengths = None if sequence_length is None else lengths_of(sequence_length, batch_size)
        for time, value in enumerate(steps):
            if time > 0:
                entered.reuse_variables()
            output, following = cell(value, state)
            if lengths is not None:
                has_ended = apply_op("GreaterEqual", time, lengths)
                element = nest.flatten(state)[0].dtype.base_dtype
                zeros = [
                    zeros_for(size, batch_size, element) for size in nest.flatten(cell.output_size)
                ]
                nothing = nest.pack_sequence_as(cell.output_size, zeros)
                output = kept_after_end(has_ended, nothing, output)
                following = kept_after_end(has_ended, state, following)
            state = following
            outputs.append(output)
    return outputs, state


def _require_steps(inputs: Any) -> None:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")


def _require_depth(inputs: list[Tensor]) -> None:
    for value in inputs:
        for axis, size in enumerate((value.dims or ())[1:], start=1):
            if size is None:
                raise ValueError(
                    f"Input size (dimension {axis} of input {value}) must be accessible via shape "
                    "inference, but saw value None."
                )


@export("nn.static_state_saving_rnn")
def static_state_saving_rnn(
    cell: Any,
    inputs: Sequence[Any],
    state_saver: Any,
    state_name: Any,
    sequence_length: TensorLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs, from a state that was saved; the last one is saved.

    Args:
      state_saver: has `state(name)`, which gives a part of the state, and
        `save_state(name, value)`, which gives an operation or a tensor.
      state_name: a name, or a structure of names like cell.state_size.
    Returns: as static_rnn; the last output waits until all has been saved.
    Raises: ValueError where state_name and cell.state_size differ in structure.
    """
    state_size = cell.state_size
    if nest.is_nested(state_size) != nest.is_nested(state_name):
        raise ValueError(
            "Argument `state_name` should be the same type as `cell.state_size`. Received: "
            f"state_name={state_name}, cell.state_size={state_size}."
        )
    names = nest.flatten(state_name)
    if len(names) != len(nest.flatten(state_size)):
        raise ValueError(
            "Number of elements in argument `state_name` and `cell.state_size` are mismatched. "
            f"Received state_name={state_name} with {len(names)} elements and "
            f"cell.state_size={state_size} with {len(nest.flatten(state_size))} elements."
        )
    first = nest.pack_sequence_as(state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(
        cell, inputs, initial_state=first, sequence_length=sequence_length, scope=scope
    )
    leaves = nest.flatten(state)
    saved = [state_saver.save_state(name, leaf) for name, leaf in zip(names, leaves)]
    with control_dependencies(saved):
        last = nest.map_structure(identity, outputs[-1])
        state = nest.pack_sequence_as(state, [identity(leaf) for leaf in leaves])
    return [*outputs[:-1], last], state


@export("nn.static_bidirectional_rnn")
def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: DTypeLike | None = None,
    sequence_length: TensorLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Run a cell over a list of inputs, and another one over it from the end.

    Returns: the outputs of both side by side, [batch, forward + backward] for each step; both last
      states.
    Raises: as static_rnn.
    """
    require_cell("cell_fw", cell_fw)
    require_cell("cell_bw", cell_bw)
    _require_steps(inputs)
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            outputs_fw, state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=forward
            )
        with variable_scope("bw") as backward:
            turned = _turned(inputs, sequence_length)
            outputs, state_bw = static_rnn(
                cell_bw, turned, initial_state_bw, dtype, sequence_length, scope=backward
            )
    outputs_bw = _turned(outputs, sequence_length)
    pairs = [
        nest.pack_sequence_as(
            one, [concat([a, b], 1) for a, b in zip(nest.flatten(one), nest.flatten(other))]
        )
        for one, other in zip(outputs_fw, outputs_bw)
    ]
    return pairs, state_fw, state_bw


def _turned(steps: Sequence[Any], lengths: TensorLike | None) -> list[Any]:
    """Return the steps in reverse, of each sequence up to its end."""
    if lengths is None:
        return list(reversed(steps))
    columns = zip(*(nest.flatten(step) for step in steps))
    turned = [
        unstack(reverse_sequence(stack(list(column)), lengths, seq_axis=0, batch_axis=1))
        for column in columns
    ]
    return [nest.pack_sequence_as(steps[0], list(leaves)) for leaves in zip(*turned)]
