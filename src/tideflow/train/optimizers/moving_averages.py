"""Averages that follow variables, giving old values less and less weight.

Source: tensorflow/python/training/moving_averages.py for names and formulas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import Hyperparameter, TensorLike
from tideflow.ops.control_flow import group
from tideflow.ops.export import export
from tideflow.ops.math import cast
from tideflow.ops.state import moving_average_variables, trainable_variables
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers.slots import filled_like, slot_variable
from tideflow.wire import dtypes

_AVERAGED = frozenset({dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64})


@export("train.assign_moving_average")
def assign_moving_average(
    variable: Any,
    value: TensorLike,
    decay: Hyperparameter,
    zero_debias: bool = True,
    name: str | None = None,
) -> Any:
    """Move a variable towards a value: `variable -= (1 - decay) * (variable - value)`.

    Args:
      variable: a variable of floating numbers.
      value: a tensor of its shape.
      decay: how much of the variable stays, near 1, a float or a scalar tensor.
      zero_debias: whether the bias of a variable that started at zero is removed, as in Adam; two
        more variables are then kept beside it.
    Returns: what the assignment returns.
    Example:
      >>> average = tf.get_variable("average", initializer=[0.0])
      >>> move = tf.train.assign_moving_average(average, [8.0], decay=0.75, zero_debias=False)
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     print(session.run(move))
      [2.]
    """
    graph = get_default_graph()
    with graph.name_scope(name or "AssignMovingAvg") as scope:
        with graph.colocate_with(variable.op):
            dtype = variable.dtype.base_dtype
            weight = _sub(1.0, convert_to_tensor(decay, name="decay"))
            weight = cast(weight, dtype)
            target = cast(convert_to_tensor(value), dtype)
            if zero_debias:
                step = _unbiased_step(variable, target, weight)
            else:
                step = _mul(_sub(convert_to_tensor(variable), target), weight)
            return variable.assign_sub(step, name=scope)


def _unbiased_step(variable: Any, value: TensorLike, weight: Any) -> Any:
    """Return what takes a variable to the unbiased average of the values so far."""
    graph = get_default_graph()
    biased = slot_variable(variable, lambda: filled_like(variable, 0), "biased")
    count = slot_variable(variable, lambda: convert_to_tensor(0, biased.dtype), "local_step")
    decayed = _mul(_sub(convert_to_tensor(biased), value), weight)
    with graph.control_dependencies([_op(biased.assign_sub(decayed)), _op(count.assign_add(1))]):
        total, steps = biased.read_value(), count.read_value()
    correction = _sub(1.0, apply_op("Pow", _sub(1.0, weight), steps))
    return _sub(variable.read_value(), apply_op("RealDiv", total, correction))


def _op(made: Any) -> Operation:
    found: Operation = made if isinstance(made, Operation) else made.op
    return found


def _mul(x: TensorLike, y: TensorLike) -> Any:
    return apply_op("Mul", x, y)


def _sub(x: TensorLike, y: TensorLike) -> Any:
    return apply_op("Sub", x, y)


@export("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Keeps for each variable an average: `average = decay * average + (1 - decay) * variable`.

    Averages of variables begin at the variables' initial values, those of tensors at zero.

    Args:
      decay: near 1, such as 0.999.
      num_updates: a step count; the decay is then min(decay, (1 + n) / (10 + n)), so that the
        average moves faster in the beginning.
      zero_debias: remove the bias of averages that begin at zero.
    Example:
      >>> w = tf.get_variable("w", initializer=[0.0])
      >>> averages = tf.train.ExponentialMovingAverage(decay=0.75)
      >>> with tf.control_dependencies([w.assign([8.0])]):
      ...     update = averages.apply([w])
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(update)
      ...     print(session.run(averages.average(w)))
      [2.]
    """

    def __init__(
        self,
        decay: Hyperparameter,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """The name given at construction; averages are called `<variable>/<name>`."""
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """Return an operation that updates the averages of variables or tensors.

        var_list: all trainable variables if left out.
        Raises: TypeError for a variable that is no float.
        """
        variables = trainable_variables() if var_list is None else list(var_list)
        graph = get_default_graph()
        unbiased = set()
        for var in variables:
            if var.dtype.base_dtype not in _AVERAGED:
                raise TypeError(f"{var.name!r} has type {var.dtype.name}; only floats average")
            if var.ref() not in self._averages:
                self._averages[var.ref()] = self._make(var)
                if self._zero_debias and not isinstance(var, Variable):
                    unbiased.add(var.ref())
        with graph.name_scope(self._name) as scope:
            decay = self._current_decay()
            updates = [
                assign_moving_average(
                    self._averages[var.ref()], var, decay, zero_debias=var.ref() in unbiased
                )
                for var in variables
            ]
            return group(*updates, name=scope)

    def _make(self, var: Any) -> Any:
        graph = get_default_graph()
        with graph.control_dependencies(None):
            if isinstance(var, Variable):
                first = var.initialized_value()
                average = slot_variable(var, lambda: first, self._name)
            else:
                average = slot_variable(_Primary(var), lambda: filled_like(var, 0), self._name)
        if isinstance(var, Variable):
            graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
        return average

    def _current_decay(self) -> Tensor:
        decay = convert_to_tensor(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        steps = cast(convert_to_tensor(self._num_updates), "float32")
        early = apply_op("RealDiv", apply_op("AddV2", 1.0, steps), apply_op("AddV2", 10.0, steps))
        least: Tensor = apply_op("Minimum", decay, early)
        return least

    def average(self, var: Any) -> Any:
        """Return the variable that holds the average of var, or None."""
        return self._averages.get(var.ref())

    def average_name(self, var: Any) -> str:
        """Return the name of the variable that holds (or would hold) the average of var."""
        average = self.average(var)
        if average is not None:
            found: str = average.op.name
            return found
        return f"{var.op.name}/{self._name}"

    def variables_to_restore(
        self, moving_avg_variables: Iterable[Any] | None = None
    ) -> dict[str, Any]:
        """Return what a Saver needs to restore averages into the variables themselves.

        A dict from the name in the checkpoint to the variable; others map to their own names.
        """
        if moving_avg_variables is None:
            averaged = [*trainable_variables(), *moving_average_variables()]
        else:
            averaged = list(moving_avg_variables)
        distinct = {var.ref(): var for var in averaged}
        found = {self.average_name(var): var for var in distinct.values()}
        for var in get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES):
            if var.ref() not in distinct and var.op.name not in found:
                found[var.op.name] = var
        return found


class _Primary:
    """A tensor in the place of a variable that has slots."""

    def __init__(self, tensor: Tensor) -> None:
        self.op = tensor.op
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.handle = tensor
