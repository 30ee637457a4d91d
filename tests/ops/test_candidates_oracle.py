"""Samplers of classes, compared with TensorFlow's: the very numbers where they are seeded."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TRUE = np.int64([[1, 2], [0, 7], [3, 3]])
LOGITS = np.float32([[0.1, 2, -1, 0.5], [3, -np.inf, 0, 0], [0, 0, np.nan, np.inf]])


def multinomial(logits, count, seed=(3, 5), **attrs):
    return Call("StatelessMultinomial", [logits, count, np.int64(seed)], attrs)


def sampler(name, true=TRUE, num_sampled=5, unique=True, seeds=(1, 2), **attrs):
    more = {} if name == "AllCandidateSampler" else {"range_max": 10}
    given = {"num_true": 2, "num_sampled": num_sampled, "unique": unique, **more, **attrs}
    return Call(name, [true], {**given, "seed": seeds[0], "seed2": seeds[1]})


F = np.float32
POINTS = F([[1, 1], [2, 2], [10, 10], [11, 12], [30, 1], [2, 1]])
CENTERS = F([[0, 1], [11, 11], [20, 3]])


def plus_plus(count, seed, retries=2, points=POINTS):
    inputs = [points, np.int64(count), np.int64(seed), np.int64(retries)]
    return Call("KmeansPlusPlusInitialization", inputs, id=f"plus-{count}-{seed}-{retries}")


def sobol(dim, count, skip=0, dtype="float32"):
    given = [np.int32(dim), np.int32(count), np.int32(skip)]
    return Call("SobolSample", given, {"dtype": dtype}, id=f"sobol-{dim}-{count}-{skip}-{dtype}")


def gamma_slope(a, x):
    return Call("IgammaGradA", [a, x], rtol=2e-5, atol=1e-9)


SHAPES = np.float64([0.5, 1, 2, 3, 10, 0.1, 50, 0, -1, 1, np.inf, 1, np.nan, 1])
AT = np.float64([0.2, 1, 5, 1, 12, 3, 40, 1, 1, -1, 1, np.inf, 1, 0])
ROWS = F([[3, 1, 4, 1], [5, 9, 2, 6]])

CLUSTERS = [
    *[plus_plus(count, seed) for count in (1, 3, 6) for seed in (0, 7, -5, 1 << 40)],
    plus_plus(3, 7, 0),
    plus_plus(4, 7, -1),
    plus_plus(2, 3, points=F([[1, 1]] * 4)),
    plus_plus(7, 3),
    plus_plus(0, 3),
    plus_plus(1, 3, points=POINTS[0]),
    plus_plus(1, 3, points=POINTS[:0]),
    *[Call("KMC2ChainInitialization", [F([1, 5, 2, 8, 3]), np.int64(seed)]) for seed in range(4)],
    Call("KMC2ChainInitialization", [F([]), np.int64(1)]),
    Call("KMC2ChainInitialization", [F([[1]]), np.int64(1)]),
    *[Call("NearestNeighbors", [POINTS, CENTERS, np.int64(k)]) for k in (0, 1, 2, 9)],
    Call("NearestNeighbors", [POINTS, CENTERS[:0], np.int64(1)]),
    Call("NearestNeighbors", [POINTS[:0], CENTERS, np.int64(1)]),
    Call("NearestNeighbors", [POINTS, CENTERS[:, :1], np.int64(1)]),
    Call("NearestNeighbors", [POINTS[0], CENTERS, np.int64(1)]),
    sobol(1, 9),
    sobol(5, 17, 3, "float64"),
    sobol(1111, 3, 100),
    sobol(21200, 1),
    *[sobol(*given) for given in ((0, 3), (21201, 1), (2, 0), (2, 3, -1), ([2], 3))],
    sobol(2, 2147483647, 5),
    gamma_slope(SHAPES, AT),
    gamma_slope(SHAPES.astype(F), AT.astype(F)),
    gamma_slope(F([[0.5], [2]]), F([1, 2, 3])),
    gamma_slope(F([0.5, 2]), F([1, 2, 3])),
    Call("SdcaFprint", [np.array([b"abc", b"", b"x" * 40], object)]),
    Call("SdcaFprint", [np.array([], object)]),
    *[
        Call("ApproxTopK", [rows], {"k": k, **more}, fixed=True)
        for rows, k, more in (
            (ROWS, 2, {}),
            (ROWS.astype(np.float16), 2, {"aggregate_to_topk": False}),
            (ROWS, 0, {}),
            (ROWS, 5, {}),
            (ROWS, 2, {"is_max_k": False}),
            (ROWS, 2, {"reduction_dimension": 0}),
            (F([1, 3, 3]), 3, {"recall_target": 0.5}),
            (F(3), 1, {}),
        )
    ],
]

FIXED = {"unigrams": [1.0, 5.0, 2.0, 0.5, 3.0, 1.0, 1.0, 1.0, 9.0, 2.5]}

CALLS = [
    multinomial(LOGITS, 6),
    multinomial(LOGITS[:2], 6, output_dtype="int32"),
    multinomial(LOGITS.astype(np.float64), 3),
    multinomial(LOGITS[:1].astype(np.float16), 9),
    multinomial(LOGITS, 0),
    multinomial(LOGITS[:0], 3),
    multinomial(LOGITS[:, :0], 3),
    multinomial(LOGITS, -1),
    multinomial(LOGITS, [1]),
    multinomial(LOGITS[0], 3),
    multinomial(LOGITS, 3, seed=(1, 2, 3)),
    Call("Multinomial", [LOGITS[:2], 7], {"seed": 4, "seed2": 9}),
    Call("Multinomial", [LOGITS[0], 7], {"seed": 4, "seed2": 9}),
    Call("Multinomial", [LOGITS[:, :0], 7], {"seed": 4, "seed2": 9}),
    *[
        sampler(name, **attrs, **more)
        for name, more in (
            ("LogUniformCandidateSampler", {}),
            ("UniformCandidateSampler", {}),
            ("LearnedUnigramCandidateSampler", {}),
            ("ThreadUnsafeUnigramCandidateSampler", {}),
            ("FixedUnigramCandidateSampler", FIXED),
            ("AllCandidateSampler", {}),
        )
        for attrs in (
            {},
            {"unique": False, "num_sampled": 12},
            {"seeds": (7, 0)},
            {"true": TRUE[:0]},
            {"true": TRUE[0]},
            {"true": TRUE[:, :1]},
        )
    ],
    sampler("LogUniformCandidateSampler", num_sampled=11),
    sampler("UniformCandidateSampler", range_max=16),
    sampler("UniformCandidateSampler", range_max=7),
    sampler("LogUniformCandidateSampler", np.int64([[0, -1]])),
    sampler("LogUniformCandidateSampler", np.int64([[0, 0]]), num_sampled=1, range_max=1),
    sampler("AllCandidateSampler", num_sampled=8),
    sampler("UniformCandidateSampler", range_max=1000000),
    sampler("LogUniformCandidateSampler", range_max=1000000, num_sampled=100),
    sampler("FixedUnigramCandidateSampler", **{**FIXED, "distortion": 0.75}),
    sampler("FixedUnigramCandidateSampler", **FIXED, num_reserved_ids=2, range_max=12),
    sampler("FixedUnigramCandidateSampler", **FIXED, range_max=12),
    sampler("FixedUnigramCandidateSampler"),
    sampler("FixedUnigramCandidateSampler", **FIXED, num_shards=2, shard=1, num_sampled=3),
    Call("ComputeAccidentalHits", [TRUE, np.int64([3, 0, 9, 3])], {"num_true": 2}),
    Call("ComputeAccidentalHits", [TRUE, np.int64([30])], {"num_true": 2}),
    Call("ComputeAccidentalHits", [TRUE, np.int64([[3]])], {"num_true": 2}),
    Call("ComputeAccidentalHits", [TRUE, np.int64([3])], {"num_true": 1}),
]


@pytest.mark.parametrize(
    "call", [*CALLS, *CLUSTERS], ids=lambda call: f"{call}-{sorted(call.attrs.items())}"
)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)
