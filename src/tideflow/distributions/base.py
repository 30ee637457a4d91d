"""tf.distributions.Distribution: what all distributions share.

A subclass says what it knows, in methods with a `_` before their names; what it does not say is
made of what it does: a density of its logarithm, a deviation of a variance.

Source: tensorflow/python/ops/distributions/distribution.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tideflow.distributions import divergence
from tideflow.distributions.formulas import exp, filled, joined, log, log1p, sqrt, square
from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import broadcast_dynamic_shape, shape
from tideflow.ops.checks import assert_same_float_dtype
from tideflow.ops.export import export, export_value
from tideflow.ops.framework import get_static_value
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("distributions.ReparameterizationType")
class ReparameterizationType:
    """How gradients pass through samples."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")
export_value("distributions.FULLY_REPARAMETERIZED", FULLY_REPARAMETERIZED)
export_value("distributions.NOT_REPARAMETERIZED", NOT_REPARAMETERIZED)


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, of its locals()."""
    return {name: v for name, v in arguments.items() if name not in ("self", "__class__")}


def _not_there(self: Any, name: str) -> Any:
    raise NotImplementedError(f"{name} is not implemented: {type(self).__name__}")


@export("distributions.Distribution")
class Distribution:
    """Base of distributions: a batch [batch_shape] of them, whose samples have event_shape.

    Args:
      dtype: of samples.
      reparameterization_type: FULLY_REPARAMETERIZED or NOT_REPARAMETERIZED.
      validate_args: whether what is given is checked, at some cost.
      allow_nan_stats: whether a statistic that is not defined is NaN; else it is an error.
      parameters: the arguments of the constructor, by which `copy` makes another one.
      graph_parents: tensors on which it depends.
      name: the class's by default.
    Raises: ValueError for a graph parent that is no tensor.
    Example:
      >>> normal = tf.distributions.Normal(loc=0.0, scale=1.0)
      >>> print(tf.Session().run(normal.prob(0.0)).round(4))
      0.3989
    """

    # The parameters whose shapes broadcast to that of the batch, where samples are scalars.
    _scalar_parameters: tuple[str, ...] = ()

    def __init__(
        self,
        dtype: DTypeLike,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: dict[str, Any] | None = None,
        graph_parents: list[Any] | None = None,
        name: str | None = None,
    ) -> None:
        for at, parent in enumerate(graph_parents or []):
            if not isinstance(parent, Tensor):
                raise ValueError(f"Graph parent item {at} is not a Tensor; {parent}.")
        if not name or not name.endswith("/"):
            with get_default_graph().name_scope(name or type(self).__name__) as scope:
                name = scope
        self._name = name
        self._dtype = as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._validate_args = validate_args
        self._allow_nan_stats = allow_nan_stats
        self._parameters = given(parameters or {})
        self._graph_parents = list(graph_parents or [])

    @contextlib.contextmanager
    def _beginning(
        self,
        parameters: dict[str, Any],
        reparameterization_type: ReparameterizationType,
        dtype: DTypeLike | None = None,
    ) -> Iterator[None]:
        """Let parameters be set in the scope of the name, and then what all distributions have.

        dtype: of samples; by default that of the parameters.
        """
        with get_default_graph().name_scope(parameters["name"]) as scope:
            yield
        found = self._parameter_type() if dtype is None else dtype
        checks = parameters["validate_args"], parameters["allow_nan_stats"]
        Distribution.__init__(
            self, found, reparameterization_type, *checks, parameters=parameters, name=scope
        )

    @contextlib.contextmanager
    def _name_scope(self, name: str) -> Iterator[str]:
        graph = get_default_graph()
        with graph.name_scope(self._name), graph.name_scope(name) as scope:
            yield scope

    # ---- what it is

    @classmethod
    def param_shapes(
        cls, sample_shape: ShapeLike, name: str = "DistributionParamShapes"
    ) -> dict[str, Tensor]:
        """Return the shapes of the parameters with which samples have a shape."""
        with get_default_graph().name_scope(name):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, TensorShape]:
        """Return the static shapes of the parameters with which samples have a shape.

        Raises: ValueError for a shape that is not known.
        """
        if isinstance(sample_shape, TensorShape):
            if not sample_shape.is_fully_defined():
                raise ValueError("TensorShape sample_shape must be fully defined")
            sample_shape = sample_shape.as_list()
        found = {k: get_static_value(v) for k, v in cls.param_shapes(sample_shape).items()}
        if any(value is None for value in found.values()):
            raise ValueError("sample_shape must be a fully-defined TensorShape or list/tuple")
        return {name: TensorShape(value.tolist()) for name, value in found.items()}

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Tensor]:
        if not cls._scalar_parameters:
            raise NotImplementedError("_param_shapes not implemented")
        wanted = convert_to_tensor(sample_shape, dtypes.int32)
        return dict.fromkeys(cls._scalar_parameters, wanted)

    @property
    def name(self) -> str:
        """The name, with the scope and `/`."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The type of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments by which it was made."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """How gradients pass through samples."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """Whether a statistic that is not defined is NaN."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """Whether what is given is checked."""
        return self._validate_args

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """Return a distribution with other values for some of its arguments."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    # ---- shapes

    def _tensors(self) -> list[Any]:
        return [getattr(self, name) for name in self._scalar_parameters]

    def _parameter_type(self) -> DType:
        """Return the one type of all parameters.  Raises: ValueError for several."""
        found: DType = assert_same_float_dtype(self._tensors())
        return found

    def _batch_shape(self) -> TensorShape:
        found = [tensor.shape for tensor in self._tensors()]
        if not found:
            return TensorShape(None)
        sizes = found[0].sizes
        for other in found[1:]:
            sizes = shapes.broadcast(sizes, other.sizes)
        return TensorShape(sizes)

    def _batch_shape_tensor(self) -> Any:
        found = [shape(tensor) for tensor in self._tensors()]
        if not found:
            return _not_there(self, "batch_shape_tensor")
        sizes = found[0]
        for other in found[1:]:
            sizes = broadcast_dynamic_shape(sizes, other)
        return sizes

    def _event_shape(self) -> TensorShape:
        return TensorShape([] if self._scalar_parameters else None)

    def _event_shape_tensor(self) -> Any:
        if not self._scalar_parameters:
            return _not_there(self, "event_shape_tensor")
        return convert_to_tensor(np.zeros([0], np.int32))

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape of the batch."""
        return self._batch_shape()

    @property
    def event_shape(self) -> TensorShape:
        """The static shape of a sample of one distribution."""
        return self._event_shape()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """Return the shape of the batch as a vector."""
        with self._name_scope(name):
            return _sizes(self.batch_shape, self._batch_shape_tensor)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """Return the shape of a sample of one distribution as a vector."""
        with self._name_scope(name):
            return _sizes(self.event_shape, self._event_shape_tensor)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Any:
        """Return whether samples of one distribution are scalars."""
        with self._name_scope(name):
            return _is_scalar(self.event_shape, self.event_shape_tensor)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Any:
        """Return whether it is one distribution, no batch."""
        with self._name_scope(name):
            return _is_scalar(self.batch_shape, self.batch_shape_tensor)

    def _filled(self, value: float) -> Any:
        return filled(self.batch_shape_tensor(), value, self.dtype)

    # ---- samples

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        return _not_there(self, "sample_n")

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Return samples [*sample_shape, *batch_shape, *event_shape].

        Raises: ValueError for a sample_shape that is neither a number nor a vector.
        """
        with self._name_scope(name):
            wanted = convert_to_tensor(sample_shape, dtypes.int32)
            if wanted.shape.rank not in (None, 0, 1):
                raise ValueError("Input is neither scalar nor vector.")
            sizes = apply_op("Reshape", wanted, [-1])
            drawn = self._sample_n(apply_op("Prod", sizes, [0]), seed)
            made = apply_op("Reshape", drawn, joined(sizes, shape(drawn)[1:]))
            return self._with_shape(made, sizes)

    def _with_shape(self, made: Any, sizes: Any) -> Any:
        """Return samples with what is known of their shape."""
        known = None if get_default_graph().is_eager else get_static_value(sizes)
        if known is not None:
            whole = TensorShape(known.tolist()).concatenate(self.batch_shape)
            made.set_shape(whole.concatenate(self.event_shape))
        return made

    # ---- densities and distribution functions

    def _log_prob(self, value: TensorLike) -> Any:
        return _not_there(self, "log_prob")

    def _prob(self, value: TensorLike) -> Any:
        return _not_there(self, "prob")

    def _log_cdf(self, value: TensorLike) -> Any:
        return _not_there(self, "log_cdf")

    def _cdf(self, value: TensorLike) -> Any:
        return _not_there(self, "cdf")

    def _log_survival_function(self, value: TensorLike) -> Any:
        return _not_there(self, "log_survival_function")

    def _survival_function(self, value: TensorLike) -> Any:
        return _not_there(self, "survival_function")

    def _quantile(self, value: TensorLike) -> Any:
        return _not_there(self, "quantile")

    def _value(self, value: TensorLike) -> Tensor:
        return convert_to_tensor(value, name="value", preferred_dtype=self.dtype)

    def log_prob(self, value: TensorLike, name: str = "log_prob") -> Any:
        """Return the logarithm of the density, or of the probability, at a value."""
        with self._name_scope(name):
            return _first(self._log_prob, self._prob, log, self._value(value))

    def prob(self, value: TensorLike, name: str = "prob") -> Any:
        """Return the density, or the probability, at a value."""
        with self._name_scope(name):
            return _first(self._prob, self._log_prob, exp, self._value(value))

    def log_cdf(self, value: TensorLike, name: str = "log_cdf") -> Any:
        """Return the logarithm of the probability that a sample is at most a value."""
        with self._name_scope(name):
            return _first(self._log_cdf, self._cdf, log, self._value(value))

    def cdf(self, value: TensorLike, name: str = "cdf") -> Any:
        """Return the probability that a sample is at most a value."""
        with self._name_scope(name):
            return _first(self._cdf, self._log_cdf, exp, self._value(value))

    def log_survival_function(self, value: TensorLike, name: str = "log_survival_function") -> Any:
        """Return the logarithm of the probability that a sample is greater than a value."""
        with self._name_scope(name):
            own = self._log_survival_function
            return _first(own, self.cdf, lambda found: log1p(-found), self._value(value))

    def survival_function(self, value: TensorLike, name: str = "survival_function") -> Any:
        """Return the probability that a sample is greater than a value."""
        with self._name_scope(name):
            own = self._survival_function
            return _first(own, self.cdf, lambda found: 1 - found, self._value(value))

    def quantile(self, value: TensorLike, name: str = "quantile") -> Any:
        """Return the value below which a sample is with a probability."""
        with self._name_scope(name):
            return self._quantile(self._value(value))

    # ---- statistics

    def _entropy(self) -> Any:
        return _not_there(self, "entropy")

    def _mean(self) -> Any:
        return _not_there(self, "mean")

    def _variance(self) -> Any:
        return _not_there(self, "variance")

    def _stddev(self) -> Any:
        return _not_there(self, "stddev")

    def _covariance(self) -> Any:
        return _not_there(self, "covariance")

    def _mode(self) -> Any:
        return _not_there(self, "mode")

    def entropy(self, name: str = "entropy") -> Any:
        """Return the entropy, in nats."""
        with self._name_scope(name):
            return self._entropy()

    def mean(self, name: str = "mean") -> Any:
        """Return the mean."""
        with self._name_scope(name):
            return self._mean()

    def variance(self, name: str = "variance") -> Any:
        """Return the variance."""
        with self._name_scope(name):
            return _first(self._variance, self._stddev, square)

    def stddev(self, name: str = "stddev") -> Any:
        """Return the standard deviation."""
        with self._name_scope(name):
            return _first(self._stddev, self._variance, sqrt)

    def covariance(self, name: str = "covariance") -> Any:
        """Return the covariances [..., K, K] of the elements of a sample."""
        with self._name_scope(name):
            return self._covariance()

    def mode(self, name: str = "mode") -> Any:
        """Return the most likely value."""
        with self._name_scope(name):
            return self._mode()

    # ---- two distributions

    def cross_entropy(self, other: Any, name: str = "cross_entropy") -> Any:
        """Return the entropy plus the divergence from another distribution."""
        with self._name_scope(name):
            return divergence.cross_entropy(self, other, self.allow_nan_stats)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Any:
        """Return the divergence from another distribution; see tf.distributions.kl_divergence."""
        with self._name_scope(name):
            return divergence.kl_divergence(self, other, self.allow_nan_stats)

    def __str__(self) -> str:
        parts = [f'"{self.name}"']
        for what, known in (("batch", self.batch_shape), ("event", self.event_shape)):
            parts += [f"{what}_shape={known}"] if known.rank is not None else []
        parts.append(f"dtype={self.dtype.name}")
        return f"tfp.distributions.{type(self).__name__}({', '.join(parts)})"

    def __repr__(self) -> str:
        return (
            f"<tfp.distributions.{type(self).__name__} '{self.name}' batch_shape="
            f"{self.batch_shape} event_shape={self.event_shape} dtype={self.dtype.name}>"
        )


def _first(
    own: Callable[..., Any],
    other: Callable[..., Any],
    convert: Callable[[Any], Any],
    *arguments: Any,
) -> Any:
    """Return what one function gives, or what is made of another where the one is not there."""
    try:
        return own(*arguments)
    except NotImplementedError as missing:
        try:
            found = other(*arguments)
        except NotImplementedError:
            raise missing from None
        return convert(found)


def _sizes(known: TensorShape, unknown: Callable[[], Any]) -> Any:
    if known.is_fully_defined():
        return convert_to_tensor(np.array(known.as_list(), np.int32))
    return unknown()


def _is_scalar(known: TensorShape, unknown: Callable[[], Any]) -> Any:
    if known.rank is not None:
        return convert_to_tensor(known.rank == 0)
    return apply_op("Equal", apply_op("Size", unknown()), 0)
