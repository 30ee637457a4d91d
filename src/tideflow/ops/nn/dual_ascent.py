"""Linear models trained by stochastic dual coordinate ascent.

An example has features that are given (dense) and features that are named by indices (sparse), a
label and a weight.  A step looks at each example of a batch once, finds its best dual variable, and
adds to what the weights have changed by.  The order of examples is left to chance, as in
TensorFlow, where the system's source decides; in a process of several threads they even overlap
there, which they do not here.
Source: Shalev-Shwartz and Zhang (2013); tensorflow/core/kernels/sdca_ops.cc, sdca_internal.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op, with_attrs
from tideflow.graph.shape_rules import ShapeContext, no_outputs
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn.dual_losses import LOSSES, DualLoss
from tideflow.wire import errors

_F: Any = np.float32


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise errors.InvalidArgumentError(message)


def _shrunk(weights: Any, by: float) -> Any:
    """Return weights nearer to zero, float32: how L1 regularisation pulls."""
    return np.sign(weights) * np.maximum(np.abs(weights) - _F(by), _F(0))


# ---- weights and features


class _Group:
    """Weights of one group of features, and by how much they have changed.

    Attributes:
      at: for each example the places of its features among the weights, and their values.
    """

    __slots__ = ("at", "before", "change")

    def __init__(self, weights: Array, at: list[tuple[Any, Any]]) -> None:
        self.before = weights.reshape(-1)
        self.change = np.zeros(self.before.size, _F)
        self.at = at

    def predictions(self, example: int, partitions: int, shrinkage: float) -> tuple[float, float]:
        """Return the part of w.x for the weights as they are now, and as they were."""
        at, values = self.at[example]
        before = self.before[at]
        now = before + self.change[at] * _F(partitions)
        found = ((values * _shrunk(one, shrinkage)).sum(dtype=np.float64) for one in (now, before))
        return float(next(found)), float(next(found))

    def add(self, example: int, change: float) -> None:
        """Change the weights of an example's features."""
        at, values = self.at[example]
        self.change[at] += (values * change).astype(_F)

    def squared_norm(self, example: int) -> float:
        values = np.float64(self.at[example][1])
        return float((values * values).sum())


def _dense_groups(
    features: Sequence[Array], weights: Sequence[Array], count: int
) -> Iterator[_Group]:
    for i, (given, of_them) in enumerate(zip(features, weights)):
        _require(
            given.ndim == 2,
            f"Dense features at index {i} must be rank 2 but is rank {given.ndim}",
        )
        _require(
            given.shape == (count, of_them.size) and of_them.size > 0,
            f"dense features at index {i} must be [{count}, {of_them.size}], one for each example "
            f"and weight; found {list(given.shape)}",
        )
        yield _Group(of_them, [(slice(None), row) for row in given])


def _sparse_group(
    examples: Array,
    features: Array,
    values: Array | None,
    indices: Array,
    weights: Array,
    count: int,
) -> _Group:
    """Return a group of features that are named; those of an example stand behind each other."""
    examples, features, indices = (one.reshape(-1) for one in (examples, features, indices))
    values = np.ones(features.size, _F) if values is None else values.reshape(-1)
    _require(
        examples.size == features.size == values.size,
        "Found mismatched example_indices and feature_indices, or feature_values: "
        f"{examples.size}, {features.size}, {values.size}",
    )
    places = {index: place for place, index in enumerate(indices[: weights.size].tolist())}
    at, end = [], 0
    for example in range(count):
        start = end
        while end < examples.size and examples[end] == example:
            end += 1
        named = features[start:end].tolist()
        unknown = [index for index in named if index not in places]
        _require(not unknown, f"Found sparse feature indices out of valid range: {unknown}")
        _require(len(set(named)) == len(named), "Duplicate index in sparse vector.")
        found = np.array([places[index] for index in named], np.int64)
        at.append((found, values[start:end]))
    return _Group(weights, at)


# ---- the order of examples


def _order(chances: Any, draws: np.random.Generator) -> list[int]:
    """Return examples in the order of draws by their chances, a tenth of them after each draw."""
    count = chances.size
    whole = float(chances.sum())
    if not np.isfinite(whole) or whole <= 0:
        return [int(one) for one in draws.permutation(count)]
    drawn, refused = np.zeros(count, int), 0
    found: list[int] = []
    while len(found) < count and refused < count:
        one = int(draws.choice(count, p=chances / whole))
        if draws.random() > 0.1 ** drawn[one]:
            refused += 1
            continue
        drawn[one] += 1
        found.append(one)
    unseen = sorted(np.flatnonzero(drawn == 0).tolist(), key=lambda one: -chances[one])
    return found + unseen[: count - len(found)]


# ---- one step


class _Step:
    """One step over a batch."""

    def __init__(self, given: dict[str, Any], attrs: dict[str, Any]) -> None:
        self.weights = given["example_weights"].reshape(-1)
        self.given_labels = given["example_labels"].reshape(-1)
        self.state = given["example_state_data"].copy()
        count = self.count = self.weights.size
        _require(
            attrs["num_sparse_features"] + attrs["num_dense_features"] > 0,
            "Requires at least one feature to train.",
        )
        _require(
            self.given_labels.size == count,
            f"Expected {count} example labels but got {self.given_labels.size}",
        )
        _require(
            self.state.shape == (count, 4),
            f"Expected shape [{count},4] for example_state_data, got {list(self.state.shape)}",
        )
        self.loss: DualLoss = LOSSES[attrs["loss_type"]]
        self.l2 = float(_F(attrs["l2"]))
        with np.errstate(all="ignore"):
            self.shrinkage = float(_F(attrs["l1"]) / _F(attrs["l2"]))
        self.partitions = attrs["num_loss_partitions"]
        values = given["sparse_feature_values"]
        self.sparse = [
            _sparse_group(*parts, count=count)
            for parts in zip(
                given["sparse_example_indices"],
                given["sparse_feature_indices"],
                [*values, *[None] * len(given["sparse_indices"])],
                given["sparse_indices"],
                given["sparse_weights"],
            )
        ]
        self.dense = list(_dense_groups(given["dense_features"], given["dense_weights"], count))
        self.labels = [self.loss.label(label) for label in self.given_labels.tolist()]

    @property
    def groups(self) -> list[_Group]:
        return [*self.sparse, *self.dense]

    def predictions(self, example: int) -> tuple[float, float]:
        """Return w.x of an example by the weights as they are now, and as they were."""
        parts = [one.predictions(example, self.partitions, self.shrinkage) for one in self.groups]
        return sum(now for now, _ in parts), sum(before for _, before in parts)

    def squared_norm(self, example: int) -> float:
        return sum(one.squared_norm(example) for one in self.groups)

    def chance(self, example: int) -> float:
        """Return how much an example's dual variable is worth being looked at."""
        label, smooth = self.labels[example], self.l2 * self.loss.smoothness
        away = self.state[example, 0] + self.loss.slope(self.predictions(example)[0], label)
        size = np.sqrt(self.squared_norm(example) + smooth)
        return float(self.weights[example] * size * abs(away))

    def learn(self, example: int) -> None:
        """Give an example the best dual variable, and the weights what follows from it."""
        label, weight = self.labels[example], float(self.weights[example])
        old = float(self.state[example, 0])
        now, before = self.predictions(example)
        norm = np.float64(self.squared_norm(example)) / self.l2
        new = self.loss.best_dual(label, old, now, float(self.partitions * norm * weight))
        change = float(np.float64((new - old) * weight) / self.l2)
        for one in self.groups:
            one.add(example, change)
        losses = self.loss.primal(before, label), self.loss.dual(old, label)
        self.state[example] = [new, *(one * weight for one in losses), weight]

    def run(self, is_adaptive: bool) -> None:
        """Look at all examples once, in the mean."""
        draws = np.random.default_rng()
        # Numbers that are none, or too large, go on as such.
        with np.errstate(all="ignore"):
            order = draws.permutation(self.count)
            if is_adaptive:
                chances = np.array([self.chance(example) for example in range(self.count)])
                order = np.array(_order(chances, draws), np.int64)
            for example in order.tolist():
                self.learn(example)


_INPUTS = """(sparse_example_indices: num_sparse_features * int64, \
sparse_feature_indices: num_sparse_features * int64, \
sparse_feature_values: num_sparse_features_with_values * float, \
dense_features: num_dense_features * float, example_weights: float, example_labels: float, \
sparse_indices: num_sparse_features * int64, sparse_weights: num_sparse_features * float, \
dense_weights: num_dense_features * float, example_state_data: float)"""
_NAMES = [one.split(":")[0].strip() for one in _INPUTS[1:-1].split(",")]


def _declare(name: str, adaptive: str) -> None:
    """Declare the op of one step; `adaptive` is what it calls the choice of examples."""

    def kernel(ctx: KernelContext, *inputs: Any, **attrs: Any) -> Any:
        given = dict(zip(_NAMES, inputs))
        step = _Step(given, attrs)
        step.run(attrs[adaptive])
        return (
            step.state,
            [one.change.reshape(w.shape) for one, w in zip(step.sparse, given["sparse_weights"])],
            [one.change.reshape(w.shape) for one, w in zip(step.dense, given["dense_weights"])],
        )

    counts = ["num_sparse_features", "num_dense_features"]
    attrs = ["loss_type", adaptive, *counts, "l1", "l2", "num_loss_partitions"]
    op(
        f"""
        {name}{_INPUTS} -> out_example_state_data: float, \
out_delta_sparse_weights: num_sparse_features * float, \
out_delta_dense_weights: num_dense_features * float
        loss_type: string in {{{", ".join(LOSSES)}}}
        {adaptive}: bool = false
        num_sparse_features: int >= 0
        num_sparse_features_with_values: int >= 0
        num_dense_features: int >= 0
        l1: float
        l2: float
        num_loss_partitions: int >= 1
        num_inner_iterations: int >= 1
        """,
        shape=_step_shape,
    )(with_attrs(kernel, attrs, first="ctx"))


def _step_shape(c: ShapeContext) -> list[Dims]:
    sparse, dense = (c.attrs[f"num_{kind}_features"] for kind in ("sparse", "dense"))
    weights = list(c.inputs[len(c.inputs) - 1 - sparse - dense : -1])
    return [(None, 4), *weights]


_declare("SdcaOptimizer", "adaptative")
_declare("SdcaOptimizerV2", "adaptive")


@op(
    """
    SdcaShrinkL1(weights: Ref num_features * float)
    num_features: int >= 0
    l1: float
    l2: float
    """,
    shape=no_outputs,
)
def sdca_shrink_l1_kernel(ctx: KernelContext, weights: list[Any], *, l1: float, l2: float) -> None:
    """Bring variables nearer to zero, as L1 regularisation asks for."""
    with np.errstate(all="ignore"):
        by = float(_F(l1) / _F(l2))
    for ref in weights:
        ref.assign(_shrunk(ref.read(), by))


not_differentiable("SdcaOptimizer", "SdcaOptimizerV2", "SdcaShrinkL1")


# ---- public names


class SdcaOptimizer(NamedTuple):
    """What `train.sdca_optimizer` gives."""

    out_example_state_data: Tensor
    out_delta_sparse_weights: list[Tensor]
    out_delta_dense_weights: list[Tensor]


@export("train.sdca_optimizer")
def sdca_optimizer(
    sparse_example_indices: list[TensorLike],
    sparse_feature_indices: list[TensorLike],
    sparse_feature_values: list[TensorLike],
    dense_features: list[TensorLike],
    example_weights: TensorLike,
    example_labels: TensorLike,
    sparse_indices: list[TensorLike],
    sparse_weights: list[TensorLike],
    dense_weights: list[TensorLike],
    example_state_data: TensorLike,
    loss_type: str,
    l1: float,
    l2: float,
    num_loss_partitions: int,
    num_inner_iterations: int,
    adaptative: bool = True,
    name: str | None = None,
) -> SdcaOptimizer:
    """Make one step of dual coordinate ascent over a batch of n examples.

    Args:
      sparse_example_indices, sparse_feature_indices: int64 [k] for each group of sparse features,
        which feature which example has, in the order of examples; sparse_feature_values: float32
        [k], for the first groups; all others have values of 1.
      dense_features: float32 [n, m] for each group.
      example_weights: float32 [n], how much each example counts.
      example_labels: float32 [n]; 0 or 1 for losses of classes.
      sparse_indices: int64, to which features sparse_weights belong; dense_weights: float32 [m].
      example_state_data: float32 [n, 4], of the step before, at first zeros: dual variable, primal
        loss, dual loss, weight.
      loss_type: logistic_loss, squared_loss, hinge_loss, smooth_hinge_loss or poisson_loss.
      l1, l2: floats, how much the regularization by absolute values and by squares counts.
      num_loss_partitions: an int, over how many workers the examples are divided.
      num_inner_iterations: an int, how often the step goes over the batch.
      adaptative: whether examples are chosen by how much they are worth it.

    Returns: the new state, and what to add to the weights.
    Example:
      >>> made = tf.train.sdca_optimizer(
      ...     [], [], [], [[[1.0]]], [1.0], [3.0], [], [], [[0.0]], tf.zeros([1, 4]),
      ...     loss_type="squared_loss", l1=0.0, l2=2.0, num_loss_partitions=1,
      ...     num_inner_iterations=1)
      >>> print(tf.Session().run(made.out_delta_dense_weights[0]))
      [1.]
    """
    made = apply_op(
        "SdcaOptimizer", sparse_example_indices, sparse_feature_indices, sparse_feature_values,
        dense_features, example_weights, example_labels, sparse_indices, sparse_weights,
        dense_weights, example_state_data, loss_type=loss_type, adaptative=adaptative, l1=l1,
        l2=l2, num_loss_partitions=num_loss_partitions, num_inner_iterations=num_inner_iterations,
        name=name,
    )  # fmt: skip
    return SdcaOptimizer(*made)


@export("train.sdca_shrink_l1")
def sdca_shrink_l1(weights: list[Any], l1: float, l2: float, name: str | None = None) -> Operation:
    """Bring reference variables nearer to zero, by l1 / l2.

    Args:
      weights: a list of float32 reference variables.
      l1, l2: floats, as of sdca_optimizer.
    Returns: the operation.
    Example:
      >>> weight = tf.get_variable("weight", initializer=[3.0, 0.25], use_resource=False)
      >>> shrink = tf.train.sdca_shrink_l1([weight], l1=1.0, l2=2.0)
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(shrink)
      ...     print(session.run(weight))
      [2.5 0. ]
    """
    made: Operation = apply_op("SdcaShrinkL1", weights, l1=l1, l2=l2, name=name)
    return made
