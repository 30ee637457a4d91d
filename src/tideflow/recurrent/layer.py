"""A layer in the manner of TensorFlow 1: an object whose variables lie in a variable scope.

The scope is settled by the first call, from the scopes in force there and the layer's name; later
calls use the same variables.

Source: tensorflow/python/keras/legacy_tf_layers/base.py for names and rules.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Graph, get_default_graph
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export
from tideflow.ops.framework import nest, snake_case
from tideflow.ops.state import get_variable, variable_scope
from tideflow.ops.state.scopes import VariableScope
from tideflow.wire.dtypes import DType, as_dtype


@export("layers.InputSpec")
class InputSpec:
    """What a layer takes: a rank, or bounds of it, sizes of some axes, a type.

    Args:
      dtype: the type; None for any.
      shape: the whole shape, with None for sizes that do not matter.
      ndim: the rank; that of `shape` where it is given.
      axes: sizes by axis.
    Raises: TypeError for axes that are no dict of integers, or lie beyond the rank.
    """

    def __init__(
        self,
        dtype: DTypeLike | None = None,
        shape: ShapeLike | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False,
        name: str | None = None,
    ) -> None:
        self.dtype = None if dtype is None else as_dtype(dtype).name
        self.shape = None if shape is None else tuple(shape)  # type: ignore[arg-type]
        self.ndim = ndim if self.shape is None else len(self.shape)
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.name = name
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        try:
            self.axes = {int(axis): size for axis, size in (axes or {}).items()}
        except (AttributeError, TypeError, ValueError):
            raise TypeError("The keys in axes must be integers.") from None
        known = self.ndim if self.ndim is not None else self.max_ndim
        if self.axes and known is not None and max(self.axes) > known - 1:
            raise ValueError(
                f"Axis {max(self.axes)} is greater than the maximum allowed value: {known - 1}"
            )

    def __repr__(self) -> str:
        stated = {
            "dtype": self.dtype,
            "shape": self.shape,
            "ndim": self.ndim,
            "max_ndim": self.max_ndim,
            "min_ndim": self.min_ndim,
            "axes": self.axes,
        }
        return f"InputSpec({', '.join(f'{key}={value}' for key, value in stated.items() if value)})"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same spec."""
        names = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> InputSpec:
        """Return the spec of a config."""
        return cls(**config)

    def check(self, value: Any, layer: str, index: int) -> None:
        """Raise ValueError for an input that is not what the layer takes."""
        shape = value.shape
        if shape.rank is None:
            return
        start = f"Input {index} of layer {layer} is incompatible with the layer: "
        if self.ndim is not None and shape.rank != self.ndim:
            raise ValueError(
                f"{start}expected ndim={self.ndim}, found ndim={shape.rank}. Full shape received: "
                f"{shape}"
            )
        if self.max_ndim is not None and shape.rank > self.max_ndim:
            raise ValueError(f"{start}expected max_ndim={self.max_ndim}, found ndim={shape.rank}")
        if self.min_ndim is not None and shape.rank < self.min_ndim:
            raise ValueError(f"{start}expected min_ndim={self.min_ndim}, found ndim={shape.rank}")
        sizes = shape.as_list()
        for axis, size in self.axes.items():
            if size is not None and sizes[axis] not in (size, None):
                raise ValueError(
                    f"{start}expected axis {axis} of input shape to have value {size} but received "
                    f"input with shape {shape}"
                )
        for wanted, size in zip(self.shape or (), sizes):
            if wanted is not None and size not in (wanted, None):
                raise ValueError(f"{start}expected shape={self.shape}, found shape={shape}")


# How many layers of a name each graph has.
_counts: weakref.WeakKeyDictionary[Graph, Counter[str]] = weakref.WeakKeyDictionary()


class Layer:
    """Base of cells: keeps the scope and the variables of what a subclass computes in `call`.

    Args:
      trainable: whether variables are trained, unless they say themselves.
      name: of the scope; the class's name in snake case, made unique in the scope of the first
        call, by default.
      dtype: of the variables; that of the first input by default.
      kwargs: `_reuse`, whether variables are there already; `_scope`, in which they are.
    Raises: TypeError for other arguments.
    """

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        self._reuse = kwargs.pop("_reuse", None)
        scope = kwargs.pop("_scope", None)
        for word in kwargs:
            raise TypeError("Keyword argument not understood:", word)
        self.trainable = trainable
        self.built = False
        self.input_spec: Any = None
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._base_name = name or snake_case(type(self).__name__)
        self._name = name or _numbered(self._base_name)
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        self._scope: VariableScope | None = None
        if scope:
            with variable_scope(scope) as found:
                self._scope = found

    # ---- what it is

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def dtype(self) -> DType | None:
        """The type of the variables; None before the first call if it was not given."""
        return self._dtype

    @property
    def scope_name(self) -> str:
        """The name of the variable scope.  Raises: ValueError before the first call."""
        if self._scope is None:
            raise ValueError(f'No name available for layer scope because the layer "{self._name}" '
                             "has not been used yet. The scope name is determined the first time "
                             "the layer instance is called.")  # fmt: skip
        name: str = self._scope.name
        return name

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that are trained."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables that are not trained."""
        trained = [] if self.trainable else self._trainable_weights
        return [*trained, *self._non_trainable_weights]

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that are trained."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables that are not trained."""
        return self.non_trainable_weights

    @property
    def variables(self) -> list[Any]:
        """All variables, those that are trained first."""
        return self.weights

    @property
    def losses(self) -> list[Any]:
        """Losses of regularizers are in the graph's collection; a layer keeps none itself."""
        return []

    @property
    def updates(self) -> list[Any]:
        """What has to run beside training: nothing."""
        return []

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same layer."""
        stated = None if self._dtype is None else self._dtype.name
        return {"name": self._name, "trainable": self.trainable, "dtype": stated}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """Return the layer of a config."""
        return cls(**config)

    # ---- variables

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of a shape; a subclass does so by `add_weight`."""
        self.built = True

    def add_weight(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        initializer: Callable[..., Any] | None = None,
        regularizer: Callable[..., Any] | None = None,
        trainable: bool | None = None,
        constraint: Callable[..., Any] | None = None,
        partitioner: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return a variable of the layer's scope, made or found as get_variable does.

        Args:
          kwargs: further arguments of get_variable.
        """
        self._settle_scope(None)
        assert self._scope is not None
        is_trained = self.trainable if trainable is None else trainable and self.trainable
        with (
            variable_scope(
                self._scope, reuse=self.built or self._reuse, auxiliary_name_scope=False
            ) as scope,
            get_default_graph().name_scope(scope.original_name_scope),
        ):
            made = get_variable(
                name,
                shape=shape,
                dtype=dtype or self._dtype,
                initializer=initializer,
                regularizer=regularizer,
                trainable=is_trained,
                constraint=constraint,
                partitioner=partitioner,
                **kwargs,
            )
        self.note_variable(made, is_trained)
        return made

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Return a variable of the layer (the old name of add_weight)."""
        return self.add_weight(*args, **kwargs)

    def note_variable(self, variable: Any, is_trained: bool) -> None:
        """Count a variable as the layer's."""
        held = self._trainable_weights if is_trained else self._non_trainable_weights
        if all(variable is not other for other in held):
            held.append(variable)

    # ---- calls

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what the layer computes."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Make the variables unless they are there, and return what `call` does.

        Keyword arguments: scope, the variable scope to use if none is settled.
        """
        self._settle_scope(kwargs.pop("scope", None))
        assert self._scope is not None
        tensors = nest.map_structure(convert_to_tensor, inputs)
        with (
            variable_scope(
                self._scope, reuse=True if self.built else self._reuse, auxiliary_name_scope=False
            ) as scope,
            get_default_graph().name_scope(scope.original_name_scope),
        ):
            self._check(nest.flatten(tensors))
            if not self.built:
                self._build_for(tensors)
            return self.call(tensors, *args, **kwargs)

    def _settle_scope(self, scope: Any) -> None:
        """Settle the variable scope, unless it is."""
        if self._scope is not None:
            return
        if self._reuse:
            # It is there already, under the name itself.
            entered = variable_scope(self._base_name if scope is None else scope)
        else:
            entered = variable_scope(scope, default_name=self._base_name)
        with entered as found:
            self._scope = found

    def _check(self, tensors: Sequence[Any]) -> None:
        if self.input_spec is None:
            return
        specs = nest.flatten(self.input_spec)
        for index, (spec, tensor) in enumerate(zip(specs, tensors)):
            spec.check(tensor, self._name, index)

    def _build_for(self, tensors: Any) -> None:
        flat = nest.flatten(tensors)
        if self._dtype is None and flat:
            self._dtype = flat[0].dtype.base_dtype
        self.build(nest.map_structure(lambda tensor: tensor.shape, tensors))
        self.built = True


def _numbered(base: str) -> str:
    """Return a name that no other layer of the graph has by itself."""
    counts = _counts.setdefault(get_default_graph(), Counter())
    counts[base] += 1
    return f"{base}_{counts[base]}"
