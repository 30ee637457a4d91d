"""Recurrent networks over sequences in one loop: `dynamic_rnn`, and both ways at once.

The loop reads its inputs from TensorArrays and writes its outputs into others, and is compiled as
one region where its cell can be.

Source: tensorflow/python/ops/rnn.py for names and rules.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array.padding import reverse, reverse_sequence
from tideflow.ops.control_flow import while_loop
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.state import variable_scope
from tideflow.ops.tensor_arrays import TensorArray
from tideflow.recurrent.cells import require_cell, with_batch, zeros_for
from tideflow.recurrent.sequences import (
    first_state,
    kept_after_end,
    known_size,
    lengths_of,
    size_of,
)
from tideflow.wire import dtypes


@export("nn.dynamic_rnn")
def dynamic_rnn(
    cell: Any,
    inputs: TensorLike,
    sequence_length: TensorLike | None = None,
    initial_state: Any = None,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Run a cell over sequences; returns all outputs, and the state after the last step.

    Args:
      cell: a cell (see tf.nn.rnn_cell).
      inputs: [batch, time, ...], [time, batch, ...] with time_major, or a structure of such.
      sequence_length: int [batch]; beyond its end the outputs of a sequence are 0, and its state
        stays.
      initial_state: in the structure of cell.state_size; zeros of `dtype` by default.
      parallel_iterations: how many steps may run at once where they do not wait for each other.
      swap_memory: see while_loop.
      scope: the name of the variable scope, "rnn" by default, or a scope.
    Returns: outputs as inputs, in the structure of cell.output_size; a state.
    Raises: TypeError for what is no cell; ValueError for inputs of different sizes, of unknown
      depth or without time, and for neither initial_state nor dtype.
    """
    require_cell("cell", cell)
    with variable_scope(scope or "rnn"):
        given = nest.map_structure(convert_to_tensor, inputs)
        steps = given if time_major else nest.map_structure(_swapped, given)
        flat = nest.flatten(steps)
        batch_size = size_of(flat, 1, "Batch_size")
        lengths = None if sequence_length is None else lengths_of(sequence_length, batch_size)
        state = first_state(cell, initial_state, batch_size, dtype)
        outputs, last = _loop(
            cell, steps, state, batch_size, lengths, dtype, parallel_iterations or 32, swap_memory
        )
        return outputs if time_major else nest.map_structure(_swapped, outputs), last


def _swapped(x: Tensor) -> Tensor:
    """Return a tensor with its first two axes swapped: [batch, time, ...], [time, batch, ...]."""
    rank = None if x.dims is None else len(x.dims)
    if rank is not None and rank < 2:
        raise ValueError(f"Input tensor should have rank >= 2. Received input={x} of rank {rank}")
    order: Any = [1, 0, *range(2, rank or 2)]
    if rank is None:
        order = apply_op("ConcatV2", [order, apply_op("Range", 2, apply_op("Rank", x), 1)], 0)
    made: Tensor = apply_op("Transpose", x, order)
    return made


def _loop(
    cell: Any,
    inputs: TensorLike,
    first: Any,
    batch_size: Any,
    lengths: Tensor | None,
    dtype: DTypeLike | None,
    parallel_iterations: int,
    swap_memory: bool,
) -> tuple[Any, Any]:
    """Run the cell over [time, batch, ...]; returns the same, and the last state."""
    flat = nest.flatten(inputs)
    _require_depth(flat)
    time_steps = size_of(flat, 0, "Time steps")
    sizes = nest.flatten(cell.output_size)
    element = _state_type(dtype, first)
    arrays = [
        TensorArray(
            element,
            size=time_steps,
            element_shape=with_batch(batch_size, size)[1],  # type: ignore[arg-type]
            tensor_array_name=f"dynamic_rnn/output_{i}",
        )
        for i, size in enumerate(sizes)
    ]
    rows = [
        TensorArray(
            x.dtype.base_dtype,
            size=time_steps,
            element_shape=x.shape[1:],
            tensor_array_name=f"dynamic_rnn/input_{i}",
        ).unstack(x)
        for i, x in enumerate(flat)
    ]
    zero_output = None
    if lengths is not None:
        zeros = [zeros_for(size, batch_size, element) for size in sizes]
        zero_output = nest.pack_sequence_as(cell.output_size, zeros)

    def step(time: Tensor, written: list[TensorArray], state: Any) -> Any:
        values = [array.read(time) for array in rows]
        for value, x in zip(values, flat):
            value.set_shape(x.shape[1:])
        output, following = cell(nest.pack_sequence_as(inputs, values), state)
        nest.assert_same_structure(cell.output_size, output)
        if lengths is not None:
            has_ended = apply_op("GreaterEqual", time, lengths)
            output = kept_after_end(has_ended, zero_output, output)
            following = kept_after_end(has_ended, state, following)
        _keep_shapes(state, following)
        parts = zip(written, nest.flatten(output), strict=True)
        following = nest.pack_sequence_as(state, nest.flatten(following))
        return (
            apply_op("AddV2", time, 1),
            [array.write(time, part) for array, part in parts],
            following,
        )

    bound = _bound(time_steps, lengths)
    _, filled, last = while_loop(
        lambda time, *_: apply_op("Less", time, bound),
        step,
        (convert_to_tensor(0, dtypes.int32, name="time"), arrays, first),
        parallel_iterations=parallel_iterations,
        swap_memory=swap_memory,
    )
    outputs = [array.stack() for array in filled]
    if not get_default_graph().is_eager:
        known = known_size(flat, 0, "Time steps")
        for output, size in zip(outputs, sizes):
            output.set_shape([known, *with_batch(batch_size, size)[1].as_list()])
    return nest.pack_sequence_as(cell.output_size, outputs), last


def _require_depth(inputs: list[Tensor]) -> None:
    for x in inputs:
        if x.dims is None or None in x.dims[2:]:
            raise ValueError(
                "Input size (depth of inputs) must be accessible via shape inference, but saw "
                f"value None for input={x}."
            )


def _state_type(dtype: DTypeLike | None, state: Any) -> Any:
    """Return the type of outputs: what is asked for, else that of the state.

    Raises: ValueError for a state of several types, or none.
    """
    if dtype is not None:
        return dtype
    found = [leaf.dtype.base_dtype for leaf in nest.flatten(state)]
    if not found:
        raise ValueError(f"Unable to infer dtype from argument state={state}.")
    if any(one is not found[0] for one in found):
        raise ValueError(
            f"Argument state={state} has tensors of different inferred dtypes. Unable to infer a "
            f"single representative dtype. Dtypes received: {found}"
        )
    return found[0]


def _bound(time_steps: Any, lengths: Tensor | None) -> Any:
    """Return how many steps there are.

    A number that is known before anything runs lets the loop be compiled for it, and outputs
    beyond all ends are 0 anyway; else it is enough to go to the last end.
    """
    if lengths is None or isinstance(time_steps, int):
        return time_steps
    longest = apply_op("Maximum", 1, apply_op("Max", lengths, [0]))
    return apply_op("Minimum", time_steps, longest)


def _keep_shapes(before: Any, after: Any) -> None:
    """Let a state have the shape that it had, where the cell's operations know less of it."""
    for old, new in zip(nest.flatten(before), nest.flatten(after), strict=True):
        if isinstance(new, Tensor) and not new.graph.is_eager:
            new.set_shape(old.shape)


@export("nn.bidirectional_dynamic_rnn")
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: TensorLike,
    sequence_length: TensorLike | None = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Run a cell over sequences, and another one over them from their ends.

    Args: as of dynamic_rnn, with a cell and a state for each way.
    Returns: (outputs forward, outputs backward), each in the order of inputs; and both last states.
    """
    require_cell("cell_fw", cell_fw)
    require_cell("cell_bw", cell_bw)
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def turned(x: Tensor) -> Tensor:
        if sequence_length is None:
            return reverse(x, [time_axis])
        return reverse_sequence(x, sequence_length, seq_axis=time_axis, batch_axis=batch_axis)

    common: dict[str, Any] = {
        "sequence_length": sequence_length,
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            outputs_fw, state_fw = dynamic_rnn(
                cell_fw, inputs, initial_state=initial_state_fw, scope=forward, **common
            )
        with variable_scope("bw") as backward:
            given = nest.map_structure(convert_to_tensor, inputs)
            outputs, state_bw = dynamic_rnn(
                cell_bw,
                nest.map_structure(turned, given),
                initial_state=initial_state_bw,
                scope=backward,
                **common,
            )
    return (outputs_fw, nest.map_structure(turned, outputs)), (state_fw, state_bw)
