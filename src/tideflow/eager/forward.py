"""Derivatives forwards: the tangent of each result is computed as soon as the operation was called.

An operation's gradient function takes gradients u of its results to J^T u, which is linear in u.
Its own gradient, with the tangents of the inputs arriving there, is J times these: the tangents of
the results.  So whatever can be differentiated twice has a forward derivative.

Source: tensorflow/python/eager/forwardprop.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tideflow.eager.backprop import Backward, GradientTape, Note, differentiate
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.defaults import local
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.ops.export import export_v2
from tideflow.ops.framework import IndexedSlices, nest
from tideflow.ops.gradients import (
    UnconnectedGradients,
    gradient_function,
    is_trainable,
    zeros_like_output,
)
from tideflow.wire import dtypes, errors


@export_v2("autodiff.ForwardAccumulator")
class ForwardAccumulator:
    """Computes the product of a Jacobian with a vector, together with the function itself.

    Args:
      primals: a tensor, variable or nested structure of these, by which is differentiated.
      tangents: the vector, in the same structure.
    Raises: ValueError for a primal that is given twice, or a tangent of another shape.
    Example:
      >>> x = tf.constant([2.0, 3.0])
      >>> with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
      ...     y = tf.reduce_sum(x * x)
      >>> print(acc.jvp(y).numpy())
      4.0
    """

    is_forward, is_persistent = True, False

    def __init__(self, primals: Any, tangents: Any) -> None:
        # By the id of a tensor: itself, held so that no id comes again, and its tangent.
        self._tangents: dict[int, tuple[Tensor, Tensor]] = {}
        # What loops and branches are given for their gradients, which has no tangent.
        self._lost: dict[int, Tensor] = {}
        self._graph: Graph | None = None
        nest.assert_same_structure(primals, tangents, check_types=False)
        given = nest.flatten(primals, expand_composites=True)
        if len({id(primal) for primal in given}) < len(given):
            raise ValueError(
                "a tensor was specified as a primal multiple times. This may indicate an error. "
                "If it was intended, please sum the corresponding tangents"
            )
        for primal, tangent in zip(given, nest.flatten(tangents, expand_composites=True)):
            self._watch(primal, tangent)

    def _watch(self, primal: Any, tangent: Any) -> None:
        key = _key(primal)
        value = primal if key is not primal else key
        if not is_trainable(value):
            return
        given = convert_to_tensor(tangent, value.dtype)
        if not given.shape.is_compatible_with(value.shape):
            raise ValueError(f"a primal of shape {value.shape} has a tangent of {given.shape}")
        self._tangents[id(key)] = key, given

    # ---- recording

    def __enter__(self) -> ForwardAccumulator:
        if self._graph is not None:
            raise ValueError("Accumulator is already recording.")
        self._graph = get_default_graph()
        local.tapes = (*local.tapes, self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._graph = None
        local.tapes = tuple(tape for tape in local.tapes if tape is not self)

    def wants(self, inputs: Sequence[Tensor]) -> bool:
        """Whether a call on these tensors has tangents."""
        return any(id(tensor) in self._tangents or id(tensor) in self._lost for tensor in inputs)

    def watch_accessed(self, variable: Any) -> None:
        """Do nothing: only primals have tangents."""

    def record(
        self, op: Operation, inputs: Sequence[Tensor], backward: Backward | None = None
    ) -> None:
        """Compute the tangents of what an operation gave, if it was called on what has some.

        Branches and loops are differentiated as a whole, not within their bodies.
        Raises: UnimplementedError for the gradient of one in a graph.
        """
        if op.graph is not self._graph or not self.wants(inputs):
            return
        if any(id(tensor) in self._lost for tensor in inputs):
            raise errors.UnimplementedError(
                f"{op.name} is of the gradient of a loop or branch in a graph; forward "
                "derivatives of that are not supported. Differentiate outside of a tf.function, "
                "or by two tapes"
            )
        if backward is None and gradient_function(op) is None:
            return
        note = Note(op, inputs, backward)
        fresh: Sequence[Tensor] = op.outputs
        # Differentiating gives a call of a function more outputs, on which gradients depend.
        while fresh:
            count = len(op.outputs)
            with self._outer_tapes():
                found = self._pushed(note)
            self._tangents.update((id(one), (one, tangent)) for one, tangent in found)
            fresh = op.outputs[count:]
            if any(one.dtype.base_dtype is dtypes.variant for one in fresh):
                # Lists of what a loop went through would be given lists of their own, without end.
                self._lost.update((id(one), one) for one in fresh)
                break

    def hand_on(self, known: Sequence[Tensor], others: Sequence[Tensor]) -> None:
        """Give tensors the tangents of others that they are copies of."""
        for tensor, copy in zip(known, others):
            found = self._tangents.get(id(tensor))
            if found is not None:
                self._tangents[id(copy)] = copy, found[1]

    def extend(self, op: Operation, outputs: Sequence[Tensor]) -> None:
        """Do nothing: an operation was given all that its gradient needs when it was recorded."""

    @contextlib.contextmanager
    def _outer_tapes(self) -> Iterator[None]:
        """Have those take notes that began before: they differentiate the tangents, too."""
        tapes = local.tapes
        local.tapes = tapes[: tapes.index(self)] if self in tapes else ()
        try:
            yield
        finally:
            local.tapes = tapes

    def _pushed(self, note: Note) -> list[tuple[Tensor, Tensor]]:
        """Return the outputs of a call that have tangents, with these."""
        outputs = list(note.op.outputs)
        arriving = [_zeros(one) if is_trainable(one) else None for one in outputs]
        sources = [one for one in arriving if one is not None]
        with GradientTape() as tape:
            for one in sources:
                tape.watch(one)
            grads = differentiate(note, list(arriving))
        targets, tangents = [], []
        for tensor, grad in zip(note.inputs, grads):
            known = self._tangents.get(id(tensor))
            if known is None or grad is None:
                continue
            if isinstance(grad, IndexedSlices):
                tangents.append(apply_op("GatherV2", known[1], grad.indices, 0))
                targets.append(grad.values)
            else:
                tangents.append(known[1])
                targets.append(grad)
        if not targets:
            return []
        found = iter(tape.gradient(targets, sources, output_gradients=tangents))
        made = [(one, next(found)) for one, grad in zip(outputs, arriving) if grad is not None]
        return [(one, convert_to_tensor(tangent)) for one, tangent in made if tangent is not None]

    # ---- results

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """Return the tangents of what was computed: the Jacobian times the vector.

        Args:
          primals: tensors or variables, in any structure.
          unconnected_gradients: None or zeros for what does not depend on what was watched.
        Raises: ValueError for another word than UnconnectedGradients has.
        """
        unconnected = UnconnectedGradients(unconnected_gradients)

        def find(primal: Any) -> Any:
            if isinstance(primal, IndexedSlices):
                values = find(primal.values)
                slices = IndexedSlices(values, primal.indices, primal.dense_shape)
                return None if values is None else slices
            known = self._tangents.get(id(_key(primal)))
            if known is not None:
                return known[1]
            if unconnected is UnconnectedGradients.ZERO:
                return zeros_like_output(convert_to_tensor(primal))
            return None

        return nest.map_structure(find, primals)


def _zeros(output: Tensor) -> Tensor | None:
    """Return zeros of an output's type and shape, a list of zeros for a list; None for a handle."""
    if output.dtype.base_dtype is dtypes.variant:
        made: Tensor = apply_op("ZerosLike", output)
        return made
    return zeros_like_output(output)


def _key(value: Any) -> Any:
    """Return the tensor by which tapes know a value: a variable's handle."""
    node = getattr(value, "_node", None)
    return node if isinstance(node, Tensor) else value
