"""Steps of dual coordinate ascent, beside TensorFlow's.

The order of examples is left to chance, there by the system's source.  What is compared does not
depend on it: batches of one example, and of examples that have no features in common.  Whether
examples are chosen by their worth (adaptive) changes only how often each is looked at, by chance
too; test_dual_ascent.py shows where that leads.
"""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F, I64 = np.float32, np.int64
LOSSES = ("logistic_loss", "squared_loss", "hinge_loss", "smooth_hinge_loss", "poisson_loss")
NAMED = {
    # Which features the examples have: 0 has two, 1 none, 2 one.
    "examples": [I64([0, 0, 2])],
    "features": [I64([5, 9, 3])],
    "values": [F([0.5, -2, 3])],
    "indices": [I64([3, 9, 5])],
    "sparse": [F([0.1, -0.3, 0.2])],
}


def step(
    op="SdcaOptimizerV2",
    examples=(),
    features=(),
    values=(),
    dense=(((0.5, -2, 0.25),),),
    weights=(1.5,),
    labels=(1,),
    indices=(),
    sparse=(),
    of_dense=((0.1, 0.4, -0.2),),
    state=None,
    **attrs,
):
    plain = {"loss_type": "logistic_loss", "l1": 0.1, "l2": 0.5, "num_loss_partitions": 1}
    plain |= {"num_inner_iterations": 1, "adaptive" if op.endswith("V2") else "adaptative": False}
    state = np.zeros((len(weights), 4), F) if state is None else F(state)
    inputs = [
        *map(list, (examples, features, values)),
        list(map(F, dense)),
        *(F(weights), F(labels)),
        *map(list, (indices, sparse)),
        list(map(F, of_dense)),
        state,
    ]
    # TensorFlow's kernel writes the new state over the old one, into an array that was fed.
    return Call(op, inputs, {**plain, **attrs}, fixed=True, rtol=1e-4, atol=1e-5)


APART = {
    "dense": [F([[0.5, -2, 0, 0, 0], [0, 0, 1, 3, 0], [0, 0, 0, 0, 0.3]])],
    "of_dense": [F([0.1, -0.4, 0.3, 0.01, 2])],
    "weights": [1, 2, 0.5],
    "labels": [0, 1, 1],
}
STEPS = [
    *(step(loss_type=loss) for loss in LOSSES),
    step("SdcaOptimizer"),
    *(
        step(**APART, **NAMED, loss_type=loss, state=[[dual, 3, 4, 5], *[[0] * 4] * 2])
        for loss in LOSSES
        for dual in (0, -0.5)
    ),
    step(**APART, **NAMED, l1=0.0),
    step(**APART, **NAMED, l2=3.0, num_loss_partitions=4),
    step(**(APART | NAMED | {"values": [], "dense": [], "of_dense": []})),
    step(**APART, loss_type="squared_loss", state=np.arange(12).reshape(3, 4)),
    step(**(APART | {"labels": [2.5, -1, 0]}), loss_type="squared_loss"),
    step(**(APART | {"labels": [2.5, 1, 0]}), loss_type="poisson_loss"),
    step(**(APART | {"labels": [2.5, -1, 0]}), loss_type="poisson_loss"),
    step(dense=[F([[0, 0, 0]])]),
    *(
        step(dense=[F([[0, 0, 0]])], loss_type=loss, labels=[label])
        for loss in LOSSES
        for label in (0, 1)
    ),
    step(dense=[F([[100, 200, -300]])], loss_type="poisson_loss", labels=[7]),
    step(labels=[0.5]),
    step(labels=[1, 1]),
    step(state=[[0, 0, 0]]),
    step(state=[0, 0, 0, 0]),
    step(dense=[F([1, 2, 3])]),
    step(dense=[F([[1, 2, 3, 4]])]),
    step(dense=[], of_dense=[]),
    step(**(APART | NAMED | {"features": [I64([5, 5, 3])]})),
    step(**(APART | NAMED | {"features": [I64([5, 9, 4])]})),
    step(**(APART | NAMED | {"features": [I64([5, 9])]})),
    step(**(APART | NAMED | {"examples": [I64([2, 0, 0])]})),
    step(weights=[0]),
]


@pytest.mark.parametrize("call", STEPS, ids=str)
def test_a_step_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
