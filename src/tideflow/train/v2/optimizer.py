"""The base of the optimizers of the TF2 shape: steps, slots, bounds on gradients.

Source: keras/src/optimizers of Keras 3 for names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tideflow.distribute.replica_context import current
from tideflow.eager.backprop import GradientTape
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export_v2
from tideflow.ops.framework import IndexedSlices, Trackable, nest, resume_restoring
from tideflow.ops.math import clip_by_global_norm, clip_by_norm, clip_by_value
from tideflow.ops.state import VariableAggregation, init_scope
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers import Optimizer
from tideflow.wire import dtypes

Optimizer.tapes = GradientTape


# The name of the state that holds a variable's moving average.
_AVERAGE = "average"


@export_v2("optimizers.Optimizer")
class OptimizerV2(Trackable):
    """A rule by which gradients change variables; the base of all optimizers of the TF2 shape.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      name: the prefix of the optimizer's variables; the class's name in lower case if left out.
      weight_decay: the share of each variable that is taken away in each step, times the rate.
      clipnorm: the largest norm of one gradient; larger ones are scaled down.
      clipvalue: the largest magnitude of an element of a gradient.
      global_clipnorm: the largest norm of all gradients together.
      loss_scale_factor: what `scale_loss` multiplies by, and gradients are divided by.
      use_ema: whether a moving average of each variable is kept, which `finalize_variable_values`
        puts in its place.
      ema_momentum: the share of the average that stays in a step, from 0 to 1.
      ema_overwrite_frequency: after how many steps, each time, variables become their averages;
        None for never.
      gradient_accumulation_steps: not supported.
    Raises: ValueError for what is not supported, for several bounds, and for a momentum or
      frequency without sense; TypeError for arguments that no optimizer takes (unknown).
    Source: keras.optimizers.Optimizer for names and defaults.
    Example:
      >>> w = tf.Variable(3.0)
      >>> optimizer = tf.optimizers.SGD(0.1)
      >>> with tf.GradientTape() as tape:
      ...     loss = w * w
      >>> _ = optimizer.apply_gradients([(tape.gradient(loss, w), w)])
      >>> round(float(w), 4)
      2.4
    """

    # Names of the state kept for each variable.
    slot_names: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate: Any = 0.01,
        name: str | None = None,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise TypeError(f"{type(self).__name__} does not take {', '.join(sorted(unknown))}")
        if sum(bound is not None for bound in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError("give only one of clipnorm, clipvalue and global_clipnorm")
        if gradient_accumulation_steps:
            raise ValueError("gradient_accumulation_steps is not supported")
        if use_ema:
            _check_averages(ema_momentum, ema_overwrite_frequency)
        self.use_ema, self.ema_momentum = use_ema, ema_momentum
        self.ema_overwrite_frequency = ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor
        self.name = name or type(self).__name__.lower()
        self.weight_decay = weight_decay
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self._schedule: Callable[[Any], Any] | None = None
        self._slots: dict[str, list[Any]] = {}
        self._trainables: list[Any] = []
        self._index: dict[int, int] = {}
        self.iterations: Any
        self._rate: Any
        with init_scope():
            self.iterations = Variable(
                0,
                trainable=False,
                name=f"{self.name}/iteration",
                dtype=dtypes.int64,
                aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
            )
            if callable(learning_rate):
                self._schedule = learning_rate
            else:
                self._rate = Variable(
                    learning_rate,
                    trainable=False,
                    name=f"{self.name}/learning_rate",
                    dtype=dtypes.float32,
                    aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
                )

    # ---- what it keeps

    @property
    def learning_rate(self) -> Any:
        """The rate now: a variable, or what the schedule gives."""
        if self._schedule is not None:
            return convert_to_tensor(self._schedule(self.iterations.value()), dtypes.float32)
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value: TensorLike) -> None:
        if self._schedule is not None:
            raise TypeError("the learning rate follows a schedule, so it cannot be set")
        self._rate.assign(value)

    lr = learning_rate

    @property
    def variables(self) -> list[Any]:
        """The optimizer's own variables: steps, rate, and state of each variable."""
        rate = [] if self._schedule is not None else [self._rate]
        return [self.iterations, *rate, *(v for slots in self._slots.values() for v in slots)]

    def build(self, var_list: Sequence[Any]) -> None:
        """Make the state of variables.  Called by the first apply_gradients."""
        with init_scope():
            for variable in var_list:
                if id(variable) not in self._index:
                    self._index[id(variable)] = len(self._trainables)
                    self._trainables.append(variable)
                    for slot in (*self._common_slots(), *self.slot_names):
                        made = self._make_slot(slot, variable)
                        self._slots.setdefault(slot, []).append(made)
        resume_restoring(self)

    # Of those states that checkpoints list apart from the others, in this order.
    _slots_listed_apart = False

    def _checkpoint_children(self) -> dict[str, Any]:
        """Return what Keras's optimizers hold, under their names."""
        rate = {} if self._schedule is not None else {"_learning_rate": self._rate}
        lists = [self._slots.get(name, []) for name in self._saved_slots()]
        if not self._slots_listed_apart:
            lists = [list(states) for states in zip(*lists)]
        averages = self._slots.get(_AVERAGE, [])
        states = [*averages, *(state for each in lists for state in each)]
        return {
            "_variables": [self.iterations, *rate.values(), *states],
            "_trainable_variables": list(self._trainables),
            "_iterations": self.iterations,
            **rate,
            **({"_model_variables_moving_average": averages} if self.use_ema else {}),
            **{self._plural(name): self._slots.get(name, []) for name in self._saved_slots()},
        }

    def _saved_slots(self) -> tuple[str, ...]:
        """Return which states checkpoints keep."""
        return self.slot_names

    def _plural(self, slot: str) -> str:
        """Return the attribute in which Keras's optimizer has the states of a name."""
        return f"_{slot[:-1]}ies" if slot.endswith("y") else f"_{slot}s"

    def _common_slots(self) -> tuple[str, ...]:
        """Return what is kept of each variable, whatever the rule."""
        return (_AVERAGE,) if self.use_ema else ()

    def _make_slot(self, slot: str, variable: Any) -> Any:
        name = f"{self.name}/{variable.name.split(':')[0]}_{slot}"
        # Rules say the first values of their own states.
        first = OptimizerV2.initial_slot if slot == _AVERAGE else type(self).initial_slot
        with get_default_graph().device(variable.device):
            return Variable(lambda: first(self, slot, variable), trainable=False, name=name)

    def initial_slot(self, slot: str, variable: Any) -> Any:
        """Return a new variable's state; zeros unless the rule says otherwise."""
        zero = convert_to_tensor(0, variable.dtype.base_dtype)
        return apply_op("Fill", [int(n or 0) for n in variable.shape.as_list()], zero)

    def slot(self, name: str, variable: Any) -> Any:
        """Return a variable's state of a name."""
        return self._slots[name][self._index[id(variable)]]

    # ---- steps

    def minimize(self, loss: Any, var_list: Any, tape: GradientTape | None = None) -> Any:
        """Change variables so that the loss falls.

        Args:
          loss: a function without arguments, or a tensor with the tape that recorded it.
          var_list: variables, or a function that gives them.
        Raises: ValueError for a tensor without a tape.
        """
        if callable(loss):
            with tape or GradientTape() as tape:
                value = loss()
        else:
            if tape is None:
                raise ValueError("`tape` is required when a `Tensor` loss is passed")
            value = loss
        variables = nest.flatten(var_list() if callable(var_list) else var_list)
        return self.apply_gradients(zip(tape.gradient(value, variables), variables))

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> Any:
        """Change variables by their gradients; in replicas, by the sums over all of them.

        Returns: the number of steps made.
        Raises: ValueError where no variable has a gradient.
        """
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable: none depends on the loss")
        variables = [v for _, v in pairs]
        self.build(variables)
        grads = [self._unscaled(g) for g, _ in pairs]
        entry = current()
        if entry.replica is not None and entry.strategy.num_replicas_in_sync > 1:
            entry.replica.merge_call(self._apply_across, args=(grads, variables))
        else:
            self._apply_all(grads, variables, _call_here)
        return self.iterations

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss times loss_scale_factor, so that small gradients are not lost."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def _unscaled(self, grad: TensorLike) -> Any:
        if self.loss_scale_factor is None:
            return grad
        if isinstance(grad, IndexedSlices):
            return IndexedSlices(self._unscaled(grad.values), grad.indices, grad.dense_shape)
        return apply_op("RealDiv", grad, number_for(self.loss_scale_factor, grad))

    def _apply_across(self, strategy: Any, grads: Sequence[Any], variables: Sequence[Any]) -> None:
        """Sum the gradients of all replicas, and change all copies."""
        sums = strategy.extended.batch_reduce_to("SUM", list(zip(grads, variables)))
        self._apply_all(sums, variables, strategy.extended.update)

    def _apply_all(
        self, grads: Sequence[Any], variables: Sequence[Any], update: Callable[..., Any]
    ) -> None:
        grads = self._clipped(list(grads))
        rate = convert_to_tensor(self.learning_rate)
        step = self.iterations.value()
        self.prepare_step(step)
        for grad, variable in zip(grads, variables):

            def change(
                copy: Any, grad: TensorLike, rate: TensorLike, whole: Any = variable
            ) -> None:
                self._decay(copy, rate)
                if isinstance(grad, IndexedSlices) and not self.takes_slices:
                    grad = convert_to_tensor(grad)
                self.update_step(grad, copy, whole, as_type_of(rate, copy), step)
                if self.use_ema:
                    self._average(copy, whole, step)
                if copy.constraint is not None:
                    copy.assign(copy.constraint(copy.value()))

            update(variable, change, args=(grad, rate))
        self.iterations.assign_add(1)

    takes_slices = False

    def prepare_step(self, step: TensorLike) -> None:
        """Change what all variables share, before they change.  step: how many were made before."""

    def _average(self, variable: Any, whole: Any, step: TensorLike) -> None:
        """Take a variable's new value into its average, which begins with the first one."""
        average = self.slot(_AVERAGE, whole)
        began = apply_op(
            "Cast", apply_op("NotEqual", step, as_type_of(0, step)), DstT=variable.dtype
        )
        kept = apply_op("Mul", began, number_for(self.ema_momentum, variable))
        added = apply_op("Sub", number_for(1.0, variable), kept)
        mean = apply_op(
            "AddV2",
            apply_op("Mul", kept, average.value()),
            apply_op("Mul", added, variable.value()),
        )
        average.assign(mean)
        if self.ema_overwrite_frequency:
            number = apply_op("AddV2", step, as_type_of(1, step))
            left = apply_op("FloorMod", number, as_type_of(self.ema_overwrite_frequency, step))
            is_due = apply_op("Equal", left, as_type_of(0, step))
            variable.assign(apply_op("SelectV2", is_due, mean, variable.value()))

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """Put the averages in the place of variables, with use_ema, as the end of training does.

        Args:
          var_list: the variables that are trained, as many as averages are kept.
        Raises: ValueError for another number of variables.
        Example:
          >>> w = tf.Variable(4.0)
          >>> optimizer = tf.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
          >>> for _ in range(2):
          ...     _ = optimizer.apply_gradients([(tf.constant(1.0), w)])
          >>> optimizer.finalize_variable_values([w])
          >>> float(w)
          2.5
        """
        if not self.use_ema:
            return
        averages = self._slots.get(_AVERAGE, [])
        if len(var_list) != len(averages):
            raise ValueError(
                f"The number of model variables ({len(var_list)}) does not match the number of "
                f"model variables with moving average ({len(averages)})."
            )
        for variable, average in zip(var_list, averages):
            variable.assign(average.value())

    def _decay(self, variable: Any, rate: TensorLike) -> None:
        if self.weight_decay:
            share = apply_op(
                "Mul", as_type_of(rate, variable), number_for(self.weight_decay, variable)
            )
            variable.assign_sub(apply_op("Mul", variable.value(), share))

    def _clipped(self, grads: list[Any]) -> list[Any]:
        if self.clipnorm is not None:
            return [clip_by_norm(convert_to_tensor(g), self.clipnorm) for g in grads]
        if self.clipvalue is not None:
            bound = self.clipvalue
            return [clip_by_value(convert_to_tensor(g), -bound, bound) for g in grads]
        if self.global_clipnorm is not None:
            return list(clip_by_global_norm(grads, self.global_clipnorm)[0])
        return grads

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable.

        Args:
          variable: the copy to change; `whole` is the variable that its state is kept for.
          rate: of the variable's type.
          step: how many steps were made before.
        """
        raise TypeError(f"{type(self).__name__} has no rule; override update_step")


def _check_averages(momentum: float, frequency: int | None) -> None:
    """Check the arguments of moving averages.  Raises: ValueError."""
    if not 0 <= momentum <= 1:
        raise ValueError(
            f"`ema_momentum` must be in the range [0, 1]. Received: ema_momentum={momentum}"
        )
    if frequency and (not isinstance(frequency, int) or frequency < 1):
        raise ValueError(
            "`ema_overwrite_frequency` must be an integer >= 1 or None. Received: "
            f"ema_overwrite_frequency={frequency}"
        )


def _call_here(variable: Any, change: Callable[..., Any], args: Sequence[Any]) -> None:
    change(variable, *args)


def number_of(step: TensorLike, like: Any, ahead: int = 1) -> Any:
    """Return the number of a step, from 1, in the type of a variable.

    step: how many steps were made; ahead: which step after these is meant.
    """
    return as_type_of(apply_op("AddV2", step, convert_to_tensor(ahead, dtypes.int64)), like)


def as_type_of(value: TensorLike, variable: Any) -> Any:
    """Return a value in the element type of a variable or tensor."""
    tensor = convert_to_tensor(value)
    wanted = variable.dtype.base_dtype
    return tensor if tensor.dtype == wanted else apply_op("Cast", tensor, DstT=wanted)


def number_for(value: float, variable: Any) -> Any:
    return convert_to_tensor(value, variable.dtype.base_dtype)
