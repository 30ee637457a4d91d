"""Learning rates at given steps, by their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tideflow.client.session import Session
from tideflow.graph.graph import Graph
from tideflow.ops.framework.constants import placeholder
from tideflow.train.optimizers import learning_rate_decay as decay

CASES = [
    ("exponential_decay", (0.1, 10, 0.5), {}, {5: 0.1 * 0.5**0.5, 20: 0.025}),
    ("exponential_decay", (0.1, 10, 0.5), {"staircase": True}, {9: 0.1, 19: 0.05}),
    ("natural_exp_decay", (0.1, 10, 0.5), {}, {10: 0.1 * math.exp(-0.5)}),
    ("inverse_time_decay", (0.1, 10, 0.5), {}, {20: 0.05}),
    ("polynomial_decay", (0.1, 10, 0.02), {}, {5: 0.06, 10: 0.02, 30: 0.02}),
    ("polynomial_decay", (0.1, 10, 0.02, 2.0), {"cycle": True}, {0: 0.1, 15: 0.02 + 0.08 / 16}),
    ("cosine_decay", (0.1, 10), {}, {0: 0.1, 5: 0.05, 10: 0.0, 20: 0.0}),
    ("cosine_decay", (0.1, 10, 0.5), {}, {10: 0.05}),
    ("cosine_decay_restarts", (0.1, 10), {}, {5: 0.05, 10: 0.1, 20: 0.05, 30: 0.1}),
    ("cosine_decay_restarts", (0.1, 10, 1.0, 0.5), {}, {5: 0.05, 10: 0.05, 25: 0.0125}),
    ("linear_cosine_decay", (0.1, 10), {"beta": 0.0}, {0: 0.1, 10: 0.0}),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "expected"), CASES)
def test_rates_follow_their_formula(name, args, kwargs, expected):
    with Graph().as_default():
        step = placeholder("int64", [])
        rate, *rest = args
        tensor = getattr(decay, name)(rate, step, *rest, **kwargs)
        with Session() as session:
            found = [session.run(tensor, {step: at}) for at in expected]
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-5, atol=1e-7)


def test_piecewise_rates_change_after_their_boundary():
    with Graph().as_default():
        step = placeholder("int64", [])
        rate = decay.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.1])
        with Session() as session:
            found = [session.run(rate, {step: at}) for at in (0, 10, 11, 20, 21)]
    np.testing.assert_allclose(found, [1.0, 1.0, 0.5, 0.5, 0.1])


def test_piecewise_needs_one_value_more():
    with pytest.raises(ValueError, match="2 boundaries need 3 values"):
        decay.piecewise_constant(0, [1, 2], [1.0, 2.0])


def test_a_decay_needs_a_step():
    with pytest.raises(ValueError, match="needs a global_step"):
        decay.exponential_decay(0.1, None, 10, 0.5)
