"""Gradients of what was called: tapes.

A tape watches tensors and takes note of every operation on them, and on what came of them; walking
its notes backwards gives gradients, by the same gradient functions as for graphs.  In a graph that
is being built (a function), the notes are the graph's operations, and the gradients become part of
it.

Source: tensorflow/python/eager/backprop.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.eager.variable import EagerVariable, variable_of
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.defaults import local
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.type_spec import Composite
from tideflow.ops.framework import IndexedSlices, nest
from tideflow.ops.gradients import (
    UnconnectedGradients,
    aggregate,
    gradient_function,
    is_trainable,
    ones_like_output,
    zeros_like_output,
)
from tideflow.ops.sparse import SparseTensor

# What gives the gradients of a call that is no registered op: of a function, say.
Backward = Callable[..., Sequence[Any]]


class Note:
    """One operation on a tape.

    Attributes:
      op: as its gradient function sees it.
      inputs: what it was called on; in a graph, before they were brought in.
      backward: takes a gradient for each output and gives one for each input; None for what is
        registered for the op.
    """

    __slots__ = ("backward", "inputs", "op")

    def __init__(
        self, op: Operation, inputs: Sequence[Tensor], backward: Backward | None = None
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.backward = backward


class GradientTape:
    """Records operations, to differentiate them.

    Args:
      persistent: gradients may be asked for more than once.
      watch_accessed_variables: watch every trainable variable that is read.
    """

    is_forward = False

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.is_persistent = persistent
        self._watches_variables = watch_accessed_variables
        self._notes: list[Note] = []
        # Everything that depends on what is watched, by id; held, so that no id comes again.
        self._known: dict[int, Tensor] = {}
        self._variables: dict[int, Any] = {}
        self._recording = False
        self._used = False

    def __enter__(self) -> GradientTape:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._recording:
            self._stop()

    def _start(self) -> None:
        if self._recording:
            raise ValueError("the tape is recording already")
        self._recording = True
        local.tapes = (*local.tapes, self)

    def _stop(self) -> None:
        if not self._recording:
            raise ValueError("the tape is not recording")
        self._recording = False
        local.tapes = tuple(tape for tape in local.tapes if tape is not self)

    # ---- what is watched

    def watch(self, tensor: Any) -> None:
        """Take note of operations on a tensor, variable, or nested structure of these.

        Raises: ValueError for something else.
        """
        for item in nest.flatten(tensor, expand_composites=True):
            if isinstance(item, EagerVariable):
                self._watch_variable(item)
            elif isinstance(getattr(item, "handle", None), Tensor):
                self._watch_tensor(item.handle)
            elif isinstance(item, Tensor):
                if is_trainable(item):
                    self._watch_tensor(item)
            else:
                raise ValueError(
                    f"a tape watches tensors and variables, not {type(item).__name__}; "
                    "tf.convert_to_tensor makes a tensor"
                )

    def _watch_tensor(self, tensor: Tensor) -> None:
        self._known[id(tensor)] = tensor

    def _watch_variable(self, variable: EagerVariable) -> None:
        self._watch_tensor(variable._node)
        self._variables[id(variable._node)] = variable

    def watch_accessed(self, variable: EagerVariable) -> None:
        """Watch a trainable variable that is read, if the tape watches such ones."""
        if self._watches_variables and id(variable._node) not in self._variables:
            self._watch_variable(variable)

    def watched_variables(self) -> tuple[Any, ...]:
        """Return the variables watched, in the order in which they were first read."""
        return tuple(self._variables.values())

    # ---- recording

    def wants(self, inputs: Sequence[Tensor]) -> bool:
        """Whether a call on these tensors would be noted."""
        known = self._known
        return any(id(tensor) in known for tensor in inputs)

    def record(
        self, op: Operation, inputs: Sequence[Tensor], backward: Backward | None = None
    ) -> None:
        """Note an operation, if it was called on something that is watched."""
        if self.wants(inputs):
            self._notes.append(Note(op, inputs, backward))
            for output in op.outputs:
                if is_trainable(output):
                    self._known[id(output)] = output

    def extend(self, op: Operation, outputs: Sequence[Tensor]) -> None:
        """Know further outputs that an operation was given, if the operation was noted."""
        if any(id(output) in self._known for output in op.outputs):
            self._known.update((id(t), t) for t in outputs if is_trainable(t))

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Take no notes inside `with`."""
        if not self._recording:
            raise RuntimeError(
                "Trying to stop recording a tape which is not recording; stop_recording belongs "
                "inside its `with`"
            )
        self._stop()
        try:
            yield
        finally:
            self._start()

    def reset(self) -> None:
        """Forget everything; recording goes on.  What the user watched must be watched again.

        Raises: ValueError outside of the tape's `with`.
        """
        if not self._recording:
            raise ValueError("Tape is not recording.")
        self._notes.clear()
        self._known.clear()
        self._variables.clear()

    # ---- gradients

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Return the gradient of the sum of target with respect to sources, in their structure.

        Args:
          target: a tensor, variable or structure of these.
          sources: likewise; watched ones.
          output_gradients: gradients arriving at target, in its structure; ones by default.
          unconnected_gradients: None or zeros for a source on which target does not depend.
        Raises: RuntimeError when a tape that is not persistent was used before.
        """
        if self._used and not self.is_persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients; "
                "use tf.GradientTape(persistent=True) to ask for more"
            )
        try:
            unconnected = UnconnectedGradients(unconnected_gradients)
        except ValueError:
            raise ValueError(
                f"Unknown value for unconnected_gradients: {unconnected_gradients!r}"
            ) from None
        was_recording = self._recording
        # A persistent tape goes on: gradients of gradients are taken of its own notes.
        if was_recording and not self.is_persistent:
            self._stop()
        given = [None] if output_gradients is None else nest.flatten(output_gradients)
        _require_differentiable(target, sources)
        targets = [_target(t) for t in nest.flatten(target, expand_composites=True)]
        if output_gradients is None:
            given = [None] * len(targets)
        flat = nest.flatten(sources)
        parts = [_differentiable_parts(source) for source in flat]
        keys = {id(part): _source(part) for some in parts for part in some}
        arrived = self._walk(targets, given, list(keys.values()))
        self._used = True
        if not self.is_persistent:
            self._notes.clear()
        made = {
            id(part): self._result(arrived, part, keys[id(part)], unconnected)
            for some in parts
            for part in some
        }
        return nest.pack_sequence_as(sources, [_gradient_of(source, made) for source in flat])

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Return the derivatives of every element of target: shape target.shape + source.shape.

        parallel_iterations is accepted; a gradient is taken for each element.
        Raises: ValueError for a target whose shape is not known; RuntimeError where TensorFlow
          needs a persistent tape for experimental_use_pfor=False.
        """
        del parallel_iterations
        self._check_loops("jacobian", experimental_use_pfor)
        y, dims = _of_known_shape(target)
        size = int(np.prod(dims, dtype=np.int64))
        rows = self._rows(y, sources, np.eye(size).reshape(size, *dims), unconnected_gradients)
        columns = list(zip(*(nest.flatten(row) for row in rows)))
        found = [_stacked(column, dims) for column in columns]
        return nest.pack_sequence_as(sources, found)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Return for each row of target the derivatives by the same row of source: shape
        [batch, target's rest, source's rest].

        Raises: ValueError for shapes that are not known, or batches that differ.
        """
        del parallel_iterations
        self._check_loops("batch_jacobian", experimental_use_pfor)
        y, dims = _of_known_shape(target)
        if not dims or source.shape.as_list()[:1] != [dims[0]]:
            raise ValueError(
                f"target {list(dims)} and source {source.shape} need the same first dimension"
            )
        size = int(np.prod(dims[1:], dtype=np.int64))
        bases = np.broadcast_to(
            np.eye(size).reshape(size, 1, *dims[1:]), (size, dims[0], *dims[1:])
        )
        rows = self._rows(y, source, bases, unconnected_gradients)
        rest = [int(n or 0) for n in source.shape.as_list()[1:]]
        if rows[0] is None:  # zeros, whatever is asked for where nothing is connected
            return apply_op("Fill", [*dims, *rest], np.zeros((), y.dtype.as_numpy_dtype))
        joined = apply_op("Pack", [convert_to_tensor(row) for row in rows], axis=1)
        return apply_op("Reshape", joined, [*dims, *rest])

    def _check_loops(self, what: str, at_once: bool) -> None:
        """Refuse what TensorFlow cannot do without persistent=True, though it is possible here."""
        if not at_once and not self.is_persistent and get_default_graph().is_eager:
            raise RuntimeError(
                f"GradientTape must be created with persistent=True to compute the {what} with "
                "eager execution enabled and with experimental_use_pfor set to False."
            )

    def _rows(self, y: Any, sources: Any, bases: Any, unconnected: Any) -> list[Any]:
        """Return the gradients for each of several gradients that arrive at y."""
        was_persistent, self.is_persistent = self.is_persistent, True
        try:
            kind = y.dtype.base_dtype.as_numpy_dtype
            return [self.gradient(y, sources, basis.astype(kind), unconnected) for basis in bases]
        finally:
            self.is_persistent = was_persistent
            if not was_persistent:
                self._notes.clear()

    def _result(
        self, arrived: dict[int, list[Any]], source: Any, key: Tensor, unconnected: Any
    ) -> Any:
        grad = aggregate(arrived.get(id(key), []))
        if grad is None and unconnected is UnconnectedGradients.ZERO:
            value = source.value() if isinstance(source, EagerVariable) else key
            return zeros_like_output(value)
        return grad

    def _walk(
        self, targets: Sequence[Tensor], given: Sequence[Any], sources: Sequence[Tensor]
    ) -> dict[int, list[Any]]:
        """Return the gradients that arrive at each tensor between sources and targets, by id."""
        notes = list(self._notes)  # gradients may add to them
        needed = {id(source) for source in sources}
        on_way = []
        for note in notes:
            if any(id(tensor) in needed for tensor in note.inputs):
                on_way.append(note)
                needed.update(id(output) for output in note.op.outputs)
        arrived: dict[int, list[Any]] = {}
        wanted = {id(source) for source in sources}
        for tensor, grad in zip(targets, given):
            if id(tensor) in needed:
                seed = _ones_like(tensor) if grad is None else convert_to_tensor(grad)
                arrived.setdefault(id(tensor), []).append(seed)
        for note in reversed(on_way):
            outputs = note.op.outputs
            grads = [
                aggregate(arrived.get(id(o), []) if id(o) in wanted else arrived.pop(id(o), []))
                for o in outputs
            ]
            if any(g is not None for g in grads):
                for tensor, grad in zip(note.inputs, differentiate(note, grads)):
                    if grad is not None and id(tensor) in needed:
                        arrived.setdefault(id(tensor), []).append(grad)
        return arrived


def differentiate(note: Note, grads: list[Any]) -> Sequence[Any]:
    """Return the gradients of the inputs of a call, given those that arrive at its outputs."""
    op = note.op
    if note.backward is not None:
        return note.backward(*grads)
    function = gradient_function(op)
    if function is None:
        return ()
    for i, grad in enumerate(grads):
        if grad is None and is_trainable(op.outputs[i]):
            grads[i] = zeros_like_output(op.outputs[i])
    results = function(op, *grads)
    return results if isinstance(results, (list, tuple)) else [results]


def _ones_like(target: Tensor) -> Any:
    variable = variable_of(target)
    return ones_like_output(target if variable is None else variable.read_value())


def _require_differentiable(*structures: Any) -> None:
    """Raise ValueError for what has no gradients: sparse tensors, values of users' classes."""
    for leaf in nest.flatten(list(structures)):
        if isinstance(leaf, (Composite, SparseTensor)):
            raise ValueError(
                f"Type {type(leaf).__name__} is not supported as a gradient source or gradient "
                "target."
            )


def _target(value: Any) -> Tensor:
    """Return the tensor that stands for a target: a variable's handle."""
    if isinstance(value, EagerVariable):
        return value._node
    if isinstance(value, IndexedSlices):
        return value.values
    return convert_to_tensor(value)


def _differentiable_parts(source: Any) -> list[Any]:
    """Return a source, or the tensors of one that is made of several which have gradients."""
    if not nest.is_composite(source):
        return [source]
    parts = nest.flatten(source, expand_composites=True)
    return [part for part in parts if part.dtype.is_floating or part.dtype.is_complex]


def _gradient_of(source: Any, made: dict[int, Any]) -> Any:
    """Return the gradient of a source: one of its kind for what is made of several tensors.

    Its parts without gradients stay as they are; None where no part has arrived.
    """
    if not nest.is_composite(source):
        return made[id(source)]
    parts = nest.flatten(source, expand_composites=True)
    if all(made.get(id(part)) is None for part in parts):
        return None
    found = [_part_gradient(part, made) for part in parts]
    return nest.pack_sequence_as(source, found, expand_composites=True)


def _part_gradient(part: Any, made: dict[int, Any]) -> Any:
    if id(part) not in made:
        return part
    found = made[id(part)]
    return apply_op("ZerosLike", part) if found is None else found


def _source(value: Any) -> Tensor:
    """Return the tensor that stands for a source: a variable's handle."""
    if isinstance(value, EagerVariable):
        return value._node
    handle = getattr(value, "handle", None)
    if isinstance(handle, Tensor):
        return handle
    if isinstance(value, Tensor):
        return value
    raise ValueError(
        f"a source of gradients must be a tensor or variable that the tape watched, "
        f"not {type(value).__name__}"
    )


def _of_known_shape(target: Any) -> tuple[Any, tuple[int, ...]]:
    """Return a target, a variable as itself, and its shape.  Raises: ValueError."""
    # What a variable gives when it is read depends on it, but is not what a tape watched.
    y = target if isinstance(target, EagerVariable) else convert_to_tensor(target)
    if not y.shape.is_fully_defined():
        raise ValueError(f"a jacobian needs a target of known shape; it has {y.shape}")
    return y, tuple(int(n or 0) for n in y.shape.as_list())


def _stacked(rows: Sequence[Any], dims: tuple[int, ...]) -> Any:
    """Return the rows of a jacobian as one tensor, None where nothing is connected."""
    if rows[0] is None:
        return None
    tensors = [convert_to_tensor(row) for row in rows]
    joined = apply_op("Pack", tensors, axis=0)
    rest = [int(n or 0) for n in tensors[0].shape.as_list()]
    return apply_op("Reshape", joined, [*dims, *rest])


@contextlib.contextmanager
def no_tapes() -> Iterator[None]:
    """Let no tape take notes inside `with`."""
    tapes, local.tapes = local.tapes, ()
    try:
        yield
    finally:
        local.tapes = tapes
