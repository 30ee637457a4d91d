"""Gamma, Poisson and binomial values and shuffles: those that TensorFlow draws."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SEEDS = {"seed": 3, "seed2": 7}
SEED = np.array([1, 2])
ALPHAS = np.array([0.1, 0.5, 1.0, 1.5, 20.0, 1e4])
RATES = np.array([0.0, 0.3, 1.5, 9.99, 10.0, 30.0, 1e4])
COUNTS = np.array([10.0, 10.0, 10.0, 100.0, 1000.0, 5.0, 5.0, 0.0, 3e5, 40.0])
PROBS = np.array([0.5, 0.1, 0.9, 0.3, 0.7, 0.0, 1.0, 0.5, 1e-4, 0.25])
FLOATS = [np.float16, np.float32, np.float64]
INT32 = np.int32
KEY = np.array([2**63 + 5], np.uint64)
COUNTER = np.array([2**64 - 2, 7], np.uint64)

CALLS = [
    *[
        Call("RandomGamma", [[40], ALPHAS.astype(t)], SEEDS, id=f"gamma-{t.__name__}")
        for t in FLOATS
    ],
    Call("RandomGamma", [np.array([2, 3]), np.float32([[1.0], [0.2]])], SEEDS),
    Call("RandomGamma", [np.zeros(0, INT32), np.float32(2)], SEEDS, id="gamma-scalar"),
    Call("RandomGamma", [[0], np.float32(2)], SEEDS, id="gamma-none"),
    Call("RandomGamma", [[2], np.zeros(0, np.float32)], SEEDS, id="gamma-no-alpha"),
    Call("RandomGamma", [[-2], np.float32(2)], SEEDS, id="gamma-negative"),
    Call("RandomGamma", [np.int32(2), np.float32(2)], SEEDS, id="gamma-scalar-shape"),
    *[
        Call("StatelessRandomGammaV2", [[40, 6], SEED, ALPHAS.astype(t)], id=f"v2-{t.__name__}")
        for t in FLOATS
    ],
    *[
        Call("StatelessRandomGammaV3", [[9, 6], KEY, COUNTER, INT32(alg), ALPHAS], id=f"v3-{alg}")
        for alg in (1, 3)
    ],
    Call("StatelessRandomGammaV2", [[4, 5], SEED, ALPHAS], id="v2-other-shape"),
    Call("StatelessRandomGammaV2", [[4], [1, 2, 3], np.float32(1)], id="v2-seed"),
    Call("StatelessRandomGammaV2", [[0], SEED, np.float32(1)], id="v2-empty"),
    Call("StatelessRandomGammaV2", [[2, 0], SEED, np.zeros(0, np.float32)], id="v2-no-alpha"),
    *[
        Call("RandomPoissonV2", [[50], RATES.astype(r)], {**SEEDS, "dtype": t}, id=f"p-{r}-{t}")
        for r in FLOATS
        for t in ("half", "float", "double")
    ],
    *[
        Call("RandomPoissonV2", [[50], np.array([0, 3, 9, 10, 50], r)], {**SEEDS, "dtype": t})
        for r in (np.int32, np.int64, np.float32)
        for t in ("int32", "int64")
    ],
    Call("RandomPoissonV2", [[0], np.float32([1, 30])], SEEDS, id="poisson-none"),
    Call("RandomPoissonV2", [[3], np.zeros(0, np.float32)], SEEDS, id="poisson-no-rate"),
    Call("RandomPoissonV2", [[-3], np.float32(1)], SEEDS, id="poisson-negative"),
    *[
        Call("StatelessRandomPoisson", [[30, 2], SEED, np.array([3, 40], r)], {"dtype": t})
        for r in (np.float16, np.float32, np.float64, np.int32, np.int64)
        for t in ("int32", "int64", "float")
    ],
    Call("StatelessRandomPoisson", [[3], SEED, np.float32([1, 2])], {"dtype": "int32"}),
    Call("StatelessRandomPoisson", [[2], [1], np.float32(1)], {"dtype": "int32"}),
    *[
        Call(
            "StatelessRandomBinomial",
            [[40, 10], SEED, COUNTS.astype(t), PROBS.astype(t)],
            {"dtype": out},
            id=f"binomial-{t.__name__}-{out}",
        )
        for t in (np.float32, np.float64)
        for out in ("int32", "int64", "float", "double")
    ],
    Call("StatelessRandomBinomial", [[4, 2, 3], SEED, np.float32([[9], [80]]), np.float32(0.3)]),
    Call("StatelessRandomBinomial", [[5, 3], SEED, np.float32([[9], [80]]), np.float32([0.3] * 3)]),
    Call("StatelessRandomBinomial", [[2], SEED, np.float32([1, 2]), np.float32([0.3] * 3)]),
    Call("StatelessRandomBinomial", [[2], SEED[:1], np.float32(1), np.float32(0.3)]),
    *[
        Call("RandomIndexShuffle", [np.array(i, t), np.array([1, 2, 3], s), np.array(m, t)], a)
        for t, s in ((np.int32, np.int32), (np.int64, np.uint32), (np.uint32, np.int64))
        for i, m in ((0, 0), (3, 9), (9, 9), (70_000, 100_000), (1, 2**31 - 1))
        for a in ({}, {"rounds": 8})
    ],
    Call("RandomIndexShuffle", [np.arange(10), np.array([1, 2, 3]), np.int64(9)], id="all"),
    Call("RandomIndexShuffle", [np.int64(2), np.arange(12).reshape(4, 3), np.int64(9)], id="keys"),
    Call("RandomIndexShuffle", [np.int64(2**39), np.arange(3), np.int64(2**40 - 5)], id="wide"),
    Call("RandomIndexShuffle", [np.arange(2), np.arange(3), np.arange(5, 8)], id="rows-differ"),
    Call("RandomIndexShuffle", [np.int64(2), np.arange(2), np.int64(9)], id="short-seed"),
    *[
        Call("StatelessShuffle", [np.arange(n), KEY, COUNTER, INT32(1)], id=f"shuffle-{n}")
        for n in (0, 1, 2, 5, 100)
    ],
    Call("StatelessShuffle", [np.arange(12).reshape(4, 3), KEY, COUNTER, INT32(3)], id="rows"),
    Call("StatelessShuffle", [np.arange(4), COUNTER, COUNTER, INT32(1)], id="shuffle-key"),
    Call("StatelessShuffle", [np.arange(4), KEY, COUNTER, INT32(2)], id="shuffle-alg"),
    *[
        Call(
            "RandomGammaGrad", [np.array(a, t)[:, None], np.array(x, t)], rtol=2e-4, id=f"grad-{t}"
        )
        for t in (np.float32, np.float64)
        for a, x in [([0.1, 0.5, 1.0, 1.5, 7.0], [1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 45.0])]
    ],
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ops_give_what_tensorflow_gives(call: Call) -> None:
    check_ends_alike(tensorflow, call)


# ---- ops that programs of today do not make


def before_version_25(given):
    """TensorFlow took RandomPoisson out of later graphs."""
    given.versions.producer = 24


@pytest.mark.parametrize("shape_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_first_kind_of_poisson(dtype, shape_type):
    rates = RATES[:-1].astype(dtype)

    def build():
        shape = tf.constant(np.array([400], shape_type))
        seeded, other = (
            apply_op("RandomPoisson", shape, tf.constant(rates), seed=3, seed2=seed)
            for seed in (7, 8)
        )
        return [Run([seeded, other])] * 2

    found = check_both_run(build, ["RandomPoisson"], change=before_version_25)
    drawn = np.concatenate([run[0] for run in found]).astype(np.float64)
    assert drawn.shape == (800, len(rates))
    assert (found[0][0] != found[0][1]).any()
    # The mean of so many draws has a deviation of sqrt(rate / 800).
    assert (np.abs(drawn.mean(axis=0) - rates) <= 5 * np.sqrt(rates / 800)).all()


@pytest.mark.parametrize(
    ("shape", "rate"), [([-1], 1.0), (3, 1.0), ([[2]], 1.0)], ids=["negative", "scalar", "rank 2"]
)
def test_the_first_kind_of_poisson_of_wrong_shapes(shape, rate):
    def build():
        given = tf.placeholder(tf.int32, None)
        drawn = apply_op("RandomPoisson", given, tf.constant(rate), seed=3, seed2=7)
        return [Run([drawn], {given: shape})]

    found = check_both_run(build, ["RandomPoisson"], change=before_version_25)
    assert found == ["InvalidArgumentError"]


def of_a_generator(shape, counts, probs, dtype, algorithm=1, state=(1, 2, 3)):
    """Return runs that begin a generator, three that draw, and one that tells its state."""
    generator = apply_op("VarHandleOp", dtype=tf.int64, shape=None, shared_name="generator")
    begin = apply_op("AssignVariableOp", generator, tf.zeros([len(state)], tf.int64))
    # The value is the variable's own then: TensorFlow moves the state in place, or a copy of it.
    added = apply_op("AssignAddVariableOp", generator, tf.constant(np.array(state)))
    drawn = apply_op(
        "StatefulRandomBinomial", generator, np.int64(algorithm), shape, counts, probs, dtype=dtype
    )
    state_after = apply_op("ReadVariableOp", generator, dtype=tf.int64)
    return [Run([begin]), Run([added]), *[Run([drawn])] * 3, Run([state_after])]


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.int64])
@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_binomial_by_a_generator(given, dtype):
    counts, probs = COUNTS[:5].astype(given), PROBS[:5].astype(given)
    found = check_both_run(
        lambda: of_a_generator([300, 5], counts, probs, dtype), ["StatefulRandomBinomial"]
    )
    drawn = np.concatenate([run[0] for run in found[2:5]]).astype(np.float64)
    deviations = np.sqrt(counts * probs * (1 - probs) / 900)
    assert (np.abs(drawn.mean(axis=0) - counts * probs) <= 5 * deviations).all()
    assert (found[2][0] != found[3][0]).any()
    assert found[5][0][2] == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": 2},
        {"shape": [-1, 2]},
        {"shape": [3]},
        {"state": (1, 2)},
        {"counts": np.float32([1, 2, 3])},
    ],
    ids=str,
)
def test_binomial_by_a_generator_that_is_refused(wrong):
    good = {"shape": [4, 2], "counts": np.float32([5, 9]), "probs": np.float32([0.5, 0.25])}
    found = check_both_run(
        lambda: of_a_generator(**{**good, "dtype": tf.float32, **wrong})[:3],
        ["StatefulRandomBinomial"],
    )
    assert found[2] == "InvalidArgumentError"
