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


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call}-{sorted(call.attrs.items())}")
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)
