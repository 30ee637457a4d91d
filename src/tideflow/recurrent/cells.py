"""Cells: one step of a recurrent network, `(inputs, state) -> (output, next state)`.

Source: tensorflow/python/keras/layers/legacy_rnn/rnn_cell_impl.py for names, order of gates and
rules; S. Hochreiter, J. Schmidhuber, Long Short-Term Memory, 1997; H. Sak et al., Long Short-Term
Memory Based Recurrent Neural Network Architectures, 2014 (peepholes, projection); K. Cho et al.,
Learning Phrase Representations using RNN Encoder-Decoder, 2014 (GRU).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, exports
from tideflow.ops.framework import get_static_value, nest
from tideflow.ops.framework.constants import zeros
from tideflow.ops.math.clipping import clip_by_value
from tideflow.ops.nn.activations import tanh
from tideflow.ops.state import Ones, Zeros, variable_scope
from tideflow.ops.state.partitioners import fixed_size_partitioner
from tideflow.ops.state.scopes import VariableScope, get_variable_scope
from tideflow.recurrent.layer import InputSpec, Layer
from tideflow.wire import dtypes

Initializer = Callable[..., Any] | str | None
Activation = Callable[..., Any] | str | None


def require_cell(name: str, cell: object) -> None:
    """Raise TypeError for what is no cell.

    Args:
      name: of the argument.
    """
    lacking = [
        *(f"'{one}' property is missing" for one in ("output_size", "state_size")
          if not hasattr(cell, one)),
        *(["either 'zero_state' or 'get_initial_state' method is required"]
          if not hasattr(cell, "zero_state") and not hasattr(cell, "get_initial_state") else []),
        *([] if callable(cell) else ["is not callable"]),
    ]  # fmt: skip
    if lacking:
        raise TypeError(f"The argument {name!r} ({cell}) is not an RNNCell: {', '.join(lacking)}.")


def with_batch(batch_size: int | Tensor, size: TensorLike) -> tuple[Any, TensorShape]:
    """Return a shape with the batch in front, as an argument of ops and as far as it is known.

    Args:
      batch_size: a number, or an int32 scalar.
      size: a number, or the shape of what each member of the batch has.
    """
    tail = TensorShape(size if isinstance(size, (TensorShape, list, tuple)) else [size]).as_list()
    known = get_static_value(batch_size) if isinstance(batch_size, Tensor) else batch_size
    static = TensorShape([None if known is None else int(known), *tail])
    if static.is_fully_defined():
        return static.as_list(), static
    batch = apply_op("ExpandDims", convert_to_tensor(batch_size, dtypes.int32), 0)
    return apply_op("ConcatV2", [batch, convert_to_tensor(tail, dtypes.int32)], 0), static


def zeros_for(size: TensorLike, batch_size: int | Tensor, dtype: DTypeLike) -> Tensor:
    """Return zeros of the shape of `with_batch`."""
    sizes, static = with_batch(batch_size, size)
    made = zeros(sizes, dtype)
    if not get_default_graph().is_eager:
        made.set_shape(static)
    return made


@export("nn.rnn_cell.RNNCell")
class RNNCell(Layer):
    """Base of cells.

    A subclass says `state_size` and `output_size`, and computes a step in `call(inputs, state)`,
    with variables from get_variable or from `build`; or overrides `__call__`.
    """

    def __call__(
        self, inputs: TensorLike, state: Any, scope: VariableScope | str | None = None
    ) -> Any:
        """Return the output and the next state of one step.

        Args:
          inputs: [batch, features].
          state: a tensor [batch, size], or a structure of them, as `state_size` says.
          scope: the variable scope of the first call; by default the class's name in that in force.
        """
        if scope is not None:
            with variable_scope(scope, custom_getter=self._noting) as entered:
                return super().__call__(inputs, state, scope=entered)
        with variable_scope(get_variable_scope(), custom_getter=self._noting):
            return super().__call__(inputs, state)

    def _noting(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        self.note_variable(variable, getattr(variable, "trainable", True))
        return variable

    @property
    def state_size(self) -> Any:
        """A number, a shape, or a structure of them: the sizes of the state beside the batch."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The sizes of the output beside the batch."""
        raise NotImplementedError("Abstract method")

    def get_initial_state(
        self,
        inputs: TensorLike | None = None,
        batch_size: int | Tensor | None = None,
        dtype: DTypeLike | None = None,
    ) -> Any:
        """Return the state before the first step, of zeros.

        Args:
          inputs: what the batch's size and the type are taken from.
        Raises: ValueError where neither inputs nor both others are given, or they contradict it.
        """
        if inputs is not None:
            found = convert_to_tensor(inputs)
            known = found.dims[0] if found.dims else None
            stated = get_static_value(batch_size) if isinstance(batch_size, Tensor) else batch_size
            if batch_size is not None and stated is not None and known not in (None, int(stated)):
                raise ValueError(
                    "batch size from input tensor is different from the input param. Input tensor "
                    f"batch: {known}, batch_size: {stated}"
                )
            if dtype is not None and found.dtype.base_dtype != dtype:
                raise ValueError(
                    "dtype from input tensor is different from the input param. Input tensor "
                    f"dtype: {found.dtype}, dtype: {dtype}"
                )
            batch_size = known or apply_op("StridedSlice", apply_op("Shape", found), [0], [1], [1],
                                           shrink_axis_mask=1)  # fmt: skip
            dtype = found.dtype.base_dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                "batch_size and dtype cannot be None while constructing initial state: "
                f"batch_size={batch_size}, dtype={dtype}"
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: int | Tensor, dtype: DTypeLike) -> Any:
        """Return a state of zeros, in the structure of state_size."""
        with get_default_graph().name_scope(type(self).__name__ + "ZeroState"):
            return nest.map_structure(
                lambda size: zeros_for(size, batch_size, dtype), self.state_size
            )


class LayerRNNCell(RNNCell):
    """Base of cells whose variables lie right below the scope that a caller gives."""

    def __call__(
        self,
        inputs: TensorLike,
        state: Any,
        scope: VariableScope | str | None = None,
        *args: Any,
        **kw: Any,
    ) -> Any:
        """Return the output and the next state of one step (see RNNCell)."""
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kw)


def activation_of(given: Activation) -> Callable[..., Any]:
    """Return an activation by its name, or as it is; tanh for none."""
    found: Callable[..., Any] = _named("nn", given) if isinstance(given, str) else given or tanh
    return found


def initializer_of(given: Initializer) -> Any:
    """Return an initializer by its name, or as it is."""
    return _named("initializers", given)() if isinstance(given, str) else given


def _named(namespace: str, name: str) -> Any:
    found = exports().get(f"{namespace}.{name}")
    if found is None:
        raise ValueError(f"there is no tf.{namespace}.{name}")
    return found


def _require_floats(*values: Any) -> None:
    for tensor in nest.flatten(values):
        if not tensor.dtype.is_floating and not tensor.dtype.is_complex:
            raise ValueError(f"RNN cell only supports floating point inputs, but saw dtype: {tensor.dtype}")  # fmt: skip  # noqa: E501


def _depth(shape: ShapeLike) -> int:
    sizes = TensorShape(shape).sizes
    depth = sizes[-1] if sizes else None
    if depth is None:
        raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
    return int(depth)


def _affine(parts: Sequence[Any], kernel: TensorLike, bias: TensorLike) -> Tensor:
    """Return [part, ...] @ kernel + bias."""
    joined = apply_op("ConcatV2", list(parts), 1) if len(parts) > 1 else parts[0]
    made: Tensor = apply_op("BiasAdd", apply_op("MatMul", joined, kernel), bias)
    return made


def _halves(state: Any, first: int, second: int) -> tuple[Any, Any]:
    """Return the first columns of a state, and those after them."""
    left = apply_op("Slice", state, [0, 0], [-1, first])
    return left, apply_op("Slice", state, [0, first], [-1, second])


class _UnitsCell(LayerRNNCell):
    """Base of the cells below: a number of units, an activation, one kernel and more."""

    def __init__(
        self,
        num_units: int,
        activation: Activation,
        reuse: bool | None,
        name: str | None,
        dtype: DTypeLike | None,
        kwargs: dict[str, Any],
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = activation_of(activation)

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same cell."""
        name = getattr(self._activation, "__name__", None)
        own = {"num_units": self._num_units, "activation": name, "reuse": self._reuse}
        return {**super().get_config(), **own}


@export("nn.rnn_cell.BasicRNNCell")
class BasicRNNCell(_UnitsCell):
    """A cell whose output is its state: activation([inputs, state] @ kernel + bias)."""

    def __init__(
        self,
        num_units: int,
        activation: Activation = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, kwargs)

    def build(self, inputs_shape: ShapeLike) -> None:
        """Make kernel [inputs + units, units] and bias [units]."""
        units = self._num_units
        self._kernel = self.add_variable("kernel", shape=[_depth(inputs_shape) + units, units])
        self._bias = self.add_variable("bias", shape=[units], initializer=Zeros())
        self.built = True

    def call(self, inputs: TensorLike, state: Any) -> Any:
        """Return the output twice: it is the next state."""
        _require_floats(inputs, state)
        output = self._activation(_affine([inputs, state], self._kernel, self._bias))
        return output, output


@export("nn.rnn_cell.GRUCell")
class GRUCell(_UnitsCell):
    """A gated recurrent unit.

    Args:
      kernel_initializer, bias_initializer: of gates and candidate; the gates' biases are 1 and the
        candidate's 0 by default.
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation = None,
        reuse: bool | None = None,
        kernel_initializer: Initializer = None,
        bias_initializer: Initializer = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, kwargs)
        self._kernel_initializer = initializer_of(kernel_initializer)
        self._bias_initializer = initializer_of(bias_initializer)

    def build(self, inputs_shape: ShapeLike) -> None:
        """Make gates/kernel [inputs + units, 2 * units], candidate/kernel [..., units], biases."""
        units = self._num_units
        rows = _depth(inputs_shape) + units
        kernel, bias = self._kernel_initializer, self._bias_initializer
        self._gate_kernel = self.add_variable("gates/kernel", [rows, 2 * units], initializer=kernel)
        self._gate_bias = self.add_variable(
            "gates/bias", [2 * units], initializer=Ones() if bias is None else bias
        )
        self._candidate_kernel = self.add_variable(
            "candidate/kernel", [rows, units], initializer=kernel
        )
        self._candidate_bias = self.add_variable(
            "candidate/bias", [units], initializer=Zeros() if bias is None else bias
        )
        self.built = True

    def call(self, inputs: TensorLike, state: Any) -> Any:
        """Return the output twice: it is the next state."""
        _require_floats(inputs, state)
        gates = apply_op("Sigmoid", _affine([inputs, state], self._gate_kernel, self._gate_bias))
        reset, update = apply_op("Split", 1, gates, num_split=2)
        candidate = self._activation(
            _affine([inputs, reset * state], self._candidate_kernel, self._candidate_bias)
        )
        output = update * state + (1 - update) * candidate
        return output, output

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same cell."""
        own = {
            "kernel_initializer": self._kernel_initializer,
            "bias_initializer": self._bias_initializer,
        }
        return {**super().get_config(), **own}


@export("nn.rnn_cell.LSTMStateTuple")
class LSTMStateTuple(namedtuple("LSTMStateTuple", ("c", "h"))):
    """The state of an LSTM cell: the cell's own, and its output."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of both.  Raises: TypeError where they differ."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class _LSTM(_UnitsCell):
    """What both LSTM cells share: forget_bias, and a state as a tuple or as one tensor."""

    _forget_bias: float
    _state_is_tuple: bool

    def _packed(self, c: TensorLike, h: TensorLike) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else apply_op("ConcatV2", [c, h], 1)

    def _gates(
        self, inputs: TensorLike, h: TensorLike, kernel: TensorLike, bias: TensorLike
    ) -> Any:
        """Return i, j, f and o before their activations; forget_bias is added to f."""
        i, j, f, o = apply_op("Split", 1, _affine([inputs, h], kernel, bias), num_split=4)
        return i, j, f + convert_to_tensor(self._forget_bias, f.dtype), o

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same cell."""
        own = {"forget_bias": self._forget_bias, "state_is_tuple": self._state_is_tuple}
        return {**super().get_config(), **own}


@export("nn.rnn_cell.BasicLSTMCell")
class BasicLSTMCell(_LSTM):
    """An LSTM cell without peepholes, clipping or projection.

    Args:
      forget_bias: added to the biases of the forget gate; 1 lets it remember in the beginning.
      state_is_tuple: whether states are LSTMStateTuples, rather than [batch, 2 * units], c first.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, kwargs)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(units, units), or 2 * units."""
        units = self._num_units
        return LSTMStateTuple(units, units) if self._state_is_tuple else 2 * units

    def build(self, inputs_shape: ShapeLike) -> None:
        """Make kernel [inputs + units, 4 * units] and bias [4 * units], in the order i, j, f, o."""
        units = self._num_units
        self._kernel = self.add_variable("kernel", shape=[_depth(inputs_shape) + units, 4 * units])
        self._bias = self.add_variable("bias", shape=[4 * units], initializer=Zeros())
        self.built = True

    def call(self, inputs: TensorLike, state: Any) -> Any:
        """Return h, and the next state."""
        _require_floats(inputs, state)
        units = self._num_units
        c, h = state if self._state_is_tuple else _halves(state, units, units)
        i, j, f, o = self._gates(inputs, h, self._kernel, self._bias)
        new_c = c * apply_op("Sigmoid", f) + apply_op("Sigmoid", i) * self._activation(j)
        new_h = self._activation(new_c) * apply_op("Sigmoid", o)
        return new_h, self._packed(new_c, new_h)


@export("nn.rnn_cell.LSTMCell")
class LSTMCell(_LSTM):
    """An LSTM cell with peepholes, clipping and projection, each where it is asked for.

    Args:
      use_peepholes: whether the gates see the cell's state, each unit its own.
      cell_clip, proj_clip: the greatest absolute value of the cell's state, and of the output after
        projection; None for any.
      initializer: of kernels and peepholes.
      num_proj: to how many columns the output is projected; None for none.
      num_unit_shards, num_proj_shards: into how many parts the kernel and the projection are cut.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Initializer = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, kwargs)
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer_of(initializer)
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def output_size(self) -> Any:
        """The number of units, or of the columns of the projection."""
        return self._num_proj or self._num_units

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(units, output_size), or their sum."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    def build(self, inputs_shape: ShapeLike) -> None:
        """Make kernel, bias, w_f_diag, w_i_diag, w_o_diag and projection/kernel, as asked for."""
        units, first = self._num_units, self._initializer
        rows = _depth(inputs_shape) + self.output_size
        self._kernel = self.add_variable(
            "kernel", [rows, 4 * units], initializer=first, partitioner=_cut(self._num_unit_shards)
        )
        self._bias = self.add_variable("bias", [4 * units], initializer=Zeros())
        if self._use_peepholes:
            self._peepholes = [
                self.add_variable(f"w_{gate}_diag", [units], initializer=first) for gate in "fio"
            ]
        if self._num_proj is not None:
            self._projection = self.add_variable(
                "projection/kernel",
                [units, self._num_proj],
                initializer=first,
                partitioner=_cut(self._num_proj_shards),
            )
        self.built = True

    def call(self, inputs: TensorLike, state: Any) -> Any:
        """Return the output, and the next state."""
        _require_floats(inputs, state)
        units = self._num_units
        c, h = state if self._state_is_tuple else _halves(state, units, self.output_size)
        i, j, f, o = self._gates(inputs, h, self._kernel, self._bias)
        if self._use_peepholes:
            w_f, w_i, w_o = self._peepholes
            f, i = f + w_f * c, i + w_i * c
        new_c = apply_op("Sigmoid", f) * c + apply_op("Sigmoid", i) * self._activation(j)
        new_c = _clipped(new_c, self._cell_clip)
        if self._use_peepholes:
            o = o + w_o * new_c
        new_h = apply_op("Sigmoid", o) * self._activation(new_c)
        if self._num_proj is not None:
            new_h = _clipped(apply_op("MatMul", new_h, self._projection), self._proj_clip)
        return new_h, self._packed(new_c, new_h)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same cell."""
        names = ("use_peepholes", "cell_clip", "initializer", "num_proj", "proj_clip",
                 "num_unit_shards", "num_proj_shards")  # fmt: skip
        return {**super().get_config(), **{name: getattr(self, f"_{name}") for name in names}}


def _clipped(x: TensorLike, limit: float | None) -> Any:
    return x if limit is None else clip_by_value(x, -limit, limit)


def _cut(shards: int | None) -> Any:
    """Return what cuts a variable into so many parts; None for none."""
    return None if shards is None else fixed_size_partitioner(shards)
