"""Distributions of TensorFlow 1 do what TensorFlow's do: each of them with each of CALLS."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as ours
from eager import api_compare

tensorflow = pytest.importorskip("tensorflow")
theirs = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

# Each with values at which densities are asked for.
DISTRIBUTIONS = {
    "D.Normal(1.0, [2.0, 3.0])": "[0.5, -1.0]",
    "D.Normal(np.zeros([2, 1]), np.ones([1]), validate_args=True)": "np.array([-40.0, 30.0, 0.1])",
    "D.Normal(0.0, -1.0, validate_args=True)": "0.0",
    "D.Laplace([0.0, 1.0], 2.0)": "[[0.5, 2.0], [-3.0, 1.0]]",
    "D.StudentT(df=[0.5, 1.5, 4.0], loc=1.0, scale=[1.0, 2.0, 3.0])": "[0.1, 2.0, -3.0]",
    "D.StudentT(df=0.5, loc=1.0, scale=2.0, allow_nan_stats=False)": "0.1",
    "D.Uniform(low=[0.0, -1.0], high=2.0)": "[1.0, 3.0]",
    "D.Uniform(2.0, 1.0, validate_args=True)": "1.0",
    "D.Gamma(concentration=[0.5, 2.0, 3.0], rate=2.0)": "[0.5, 1.0, 2.0]",
    "D.Gamma(2.0, np.float64(1.0))": "1.0",
    "D.Exponential([0.5, 2.0])": "[1.0, 0.1]",
    "D.Beta([0.5, 2.0], 3.0)": "[0.25, 0.5]",
    "D.Beta(2.0, 3.0, validate_args=True, allow_nan_stats=False)": "1.5",
    "D.Bernoulli(probs=[0.25, 0.5])": "[1, 0]",
    "D.Bernoulli(logits=[1.0, -2.0], dtype=tf.float32)": "[1.0, 1.0]",
    "D.Bernoulli(probs=0.5, logits=0.0)": "1",
    "D.Categorical(probs=[[0.25, 0.75], [0.5, 0.5]])": "[1, 0]",
    "D.Categorical(logits=[1.0, 2.0, 0.5])": "[[0, 1], [2, 1]]",
    "D.Multinomial(4.0, probs=[0.25, 0.75])": "[1.0, 3.0]",
    "D.Multinomial([3.0, 2.0], logits=[[1.0, 2.0], [0.0, 1.0]], validate_args=True)": (
        "[[1.0, 2.0], [1.0, 3.0]]"
    ),
    "D.Dirichlet([2.0, 3.0, 1.5])": "[0.2, 0.3, 0.5]",
    "D.Dirichlet([[1.5, 3.0], [2.0, 2.0]])": "[[0.2, 0.8], [0.5, 0.5]]",
    "D.Dirichlet([1.0], validate_args=True)": "[1.0]",
    "D.DirichletMultinomial(4.0, [2.0, 3.0])": "[1.0, 3.0]",
}
CALLS = [
    "[d.batch_shape, d.event_shape, d.dtype.name, d.allow_nan_stats, d.validate_args]",
    "[d.batch_shape_tensor(), d.event_shape_tensor(), d.is_scalar_batch(), d.is_scalar_event()]",
    "[repr(d.reparameterization_type), sorted(d.parameters)]",
    "d.sample(seed=3)",
    "d.sample([2, 3], seed=4)",
    "d.prob(x)",
    "d.log_prob(x)",
    "d.cdf(x)",
    "d.log_cdf(x)",
    "d.survival_function(x)",
    "d.log_survival_function(x)",
    "d.quantile([0.1, 0.9])",
    "d.mean()",
    "d.mode()",
    "d.variance()",
    "d.stddev()",
    "d.covariance()",
    "d.entropy()",
    "d.kl_divergence(d)",
    "d.cross_entropy(d)",
    "d.copy().mean()",
    "type(d).param_static_shapes([2])['loc']",
]
OTHERS = [
    "D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 2.0))",
    "D.kl_divergence(D.Gamma(2.0, 1.0), D.Gamma(1.0, 3.0))",
    "D.kl_divergence(D.Exponential(2.0), D.Gamma(1.0, 3.0))",
    "D.kl_divergence(D.Beta(2.0, 1.0), D.Beta(1.0, 3.0))",
    "D.kl_divergence(D.Bernoulli(probs=0.3), D.Bernoulli(probs=0.6))",
    "D.kl_divergence(D.Categorical(probs=[0.3, 0.7]), D.Categorical(probs=[0.5, 0.5]))",
    "D.kl_divergence(D.Dirichlet([2.0, 1.0]), D.Dirichlet([1.0, 3.0]))",
    "D.kl_divergence(D.Normal(0.0, 1.0), D.Laplace(0.0, 1.0))",
    "D.kl_divergence(D.Normal(np.nan, 1.0), D.Normal(0.0, 1.0), allow_nan_stats=False)",
    "D.RegisterKL(D.Normal, D.Normal)(lambda a, b, name=None: 0)",
    "D.RegisterKL(D.Normal, D.Uniform)(3)",
    "D.FULLY_REPARAMETERIZED == D.NOT_REPARAMETERIZED",
    "D.Normal.param_static_shapes([2, 3])['scale']",
    "D.Normal(0.0, 1.0).copy(scale=3.0).stddev()",
    "D.Categorical(probs=[0.5, 0.5]).event_size",
    "D.Normal(0.0, 1.0).sample([[2]])",
    "D.Distribution(tf.float32, D.NOT_REPARAMETERIZED, False, True).mean()",
    "tf.gradients is not None and isinstance(D.Exponential(1.0), D.Gamma)",
]


def _outcome(expression: str, names: dict[str, Any]) -> Any:
    try:
        return api_compare.plain(eval(expression, names))
    except Exception as error:
        return ("error", type(error).__name__)


def _names(tf: Any) -> dict[str, Any]:
    return {"tf": tf, "D": tf.distributions, "np": np}


def _differing(names: list[dict[str, Any]], calls: list[str]) -> list[str]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [(call, [_outcome(call, known) for known in names]) for call in calls]
    return [f"{call}: {both}" for call, both in found if not api_compare.same(*both)]


@pytest.mark.parametrize("expression", DISTRIBUTIONS)
def test_a_distribution_does_what_tensorflows_does(expression: str) -> None:
    names = [_names(tf) for tf in (ours, theirs)]
    made = [_outcome(expression, known) for known in names]
    assert made[0] == made[1]
    if made[0] == ("object",):
        for known in names:
            known["d"] = eval(expression, known)
            known["x"] = eval(DISTRIBUTIONS[expression], known)
        assert _differing(names, CALLS) == []


@pytest.mark.parametrize("expression", DISTRIBUTIONS)
def test_a_distribution_in_a_graph_is_tensorflows(expression: str) -> None:
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:
            names = _names(tf)
            try:
                d = eval(expression, names)
                x = tf.placeholder_with_default(eval(DISTRIBUTIONS[expression], names), None)
                fetches = [d.log_prob(tf.cast(x, d.dtype)), d.sample(2, seed=1), d.mean()]
                shapes = [str(fetch.shape) for fetch in fetches[1:]]
                said = [d.name, str(d), repr(d), *shapes]
                found.append([said, api_compare.plain(session.run(fetches))])
            except Exception as error:
                found.append([type(error).__name__])
    assert api_compare.same(*found), found


def test_other_calls_give_what_tensorflow_gives() -> None:
    assert _differing([_names(tf) for tf in (ours, theirs)], OTHERS) == []
