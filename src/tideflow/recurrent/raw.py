"""`raw_rnn`: a loop in which a function of the program says what comes next.

Source: tensorflow/python/ops/rnn.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.ops.control_flow import while_loop
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.state import variable_scope
from tideflow.ops.tensor_arrays import TensorArray
from tideflow.recurrent.cells import require_cell, with_batch, zeros_for
from tideflow.recurrent.sequences import as_value, kept_after_end, size_of
from tideflow.wire import dtypes


@export("nn.raw_rnn")
def raw_rnn(
    cell: Any,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run a cell on what a function of the program gives it, until that says that all has ended.

    Args:
      cell: a cell (see tf.nn.rnn_cell).
      loop_fn: `loop_fn(time, output, state, loop_state)` gives `(has_ended, next input, next state,
        what to emit, next loop_state)`, has_ended as bool [batch].  At time 0 output, state and
        loop_state are None, and it emits None, or what says shapes (without the batch) and types of
        what it will emit.
    Returns: a TensorArray, or a structure of them, of what was emitted, with zeros after the ends;
      the last state; the last loop_state.
    Raises: TypeError for what is no cell or function.
    """
    require_cell("cell", cell)
    if not callable(loop_fn):
        raise TypeError(f"Argument `loop_fn` must be a callable. Received: {loop_fn}.")
    with variable_scope(scope or "rnn"):
        start = convert_to_tensor(0, dtypes.int32, name="time")
        has_ended, first_input, state, emitted, given_loop_state = loop_fn(start, None, None, None)
        first_input = nest.map_structure(convert_to_tensor, first_input)
        state = nest.map_structure(as_value, state)
        nest.assert_same_structure(state, cell.state_size)
        batch_size = size_of(nest.flatten(first_input), 0, "Batch_size")
        shapes, types = _emissions(emitted, cell, state)
        structure = cell.output_size if emitted is None else emitted
        arrays = [
            TensorArray(
                dtype,
                size=convert_to_tensor(0),
                dynamic_size=True,
                element_shape=with_batch(batch_size, shape)[1],  # type: ignore[arg-type]
                tensor_array_name=f"rnn_output_{i}",
            )
            for i, (shape, dtype) in enumerate(zip(shapes, types))
        ]
        nothing = nest.pack_sequence_as(
            structure, [zeros_for(shape, batch_size, dtype) for shape, dtype in zip(shapes, types)]
        )
        loop_state = 0 if given_loop_state is None else given_loop_state

        def step(
            time: Tensor, ended: Tensor, value: Any, written: Any, state: Any, loop_state: Any
        ) -> Any:
            output, found = cell(value, state)
            nest.assert_same_structure(state, found)
            following = apply_op("AddV2", time, 1)
            ends, next_value, next_state, emit, next_loop_state = loop_fn(
                following, output, found, loop_state
            )
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(value, next_value)
            emit = kept_after_end(ended, nothing, emit)
            next_state = kept_after_end(ended, state, next_state)
            parts = zip(written, nest.flatten(emit), strict=True)
            return (
                following,
                apply_op("LogicalOr", ended, ends),
                next_value,
                [array.write(time, part) for array, part in parts],
                next_state,
                loop_state if next_loop_state is None else next_loop_state,
            )

        _, _, _, filled, last, last_loop_state = while_loop(
            lambda time, ended, *_: apply_op("LogicalNot", apply_op("All", ended, [0])),
            step,
            (start, convert_to_tensor(has_ended), first_input, arrays, state, loop_state),
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
        found = nest.pack_sequence_as(structure, filled)
        return found, last, None if given_loop_state is None else last_loop_state


def _emissions(emitted: Any, cell: Any, state: Any) -> tuple[list[Any], list[Any]]:
    """Return shapes, without the batch, and types of what is emitted."""
    if emitted is None:
        sizes = nest.flatten(cell.output_size)
        return sizes, [nest.flatten(state)[0].dtype.base_dtype] * len(sizes)
    leaves = [convert_to_tensor(leaf) for leaf in nest.flatten(emitted)]
    return [TensorShape(leaf.dims) for leaf in leaves], [leaf.dtype.base_dtype for leaf in leaves]
