"""Seeded random ops draw TensorFlow's own sequences, and programs get its seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def draws(library: Any, build: Any, level: int = 0) -> list[Any]:
    config = library.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    with library.Graph().as_default():
        tensors = build(library)
        with library.Session(config=config) as session:
            return [session.run(tensors) for _ in range(3)]


def assert_same(build: Any, rtol: float = 1e-5) -> None:
    theirs = draws(tensorflow.compat.v1, build)
    for level in (tf.OptimizerOptions.OFF, tf.OptimizerOptions.ON_2):
        for our_run, their_run in zip(draws(tf, build, level), theirs):
            for x, y in zip(our_run, their_run):
                assert x.dtype == y.dtype
                np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6)


def test_sequences_of_seeded_ops() -> None:
    assert_same(
        lambda lib: [
            lib.random_uniform([5], seed=3),
            lib.random_uniform([7], 2.0, 5.0, lib.float64, seed=3),
            lib.random_uniform([7], -5, 50, lib.int32, seed=4),
            lib.random_uniform([3], 0, 2**40, lib.int64, seed=5),
            lib.random_normal([2, 5], 1.0, 2.0, seed=6),
            lib.truncated_normal([9], seed=7),
            lib.truncated_normal([5], dtype=lib.float64, seed=7),
            lib.random_shuffle(np.arange(10), seed=8),
            lib.random_shuffle(np.arange(20).reshape(10, 2), seed=9),
            lib.multinomial([[0.0, 1.0, 2.0], [1.0, -3.0, 1.0]], 5, seed=10),
        ]
    )


def test_a_program_under_a_graph_seed() -> None:
    def build(lib: Any) -> list[Any]:
        lib.set_random_seed(5)
        lib.constant(1.0)
        first = lib.random_uniform([2])
        return [
            first,
            lib.random_normal([2, 3]),
            lib.truncated_normal([2], seed=3),
            lib.random_uniform([2], 1, 5, lib.int32),
        ]

    assert_same(build)


def test_stateless_values() -> None:
    assert_same(
        lambda lib: [
            lib.random.stateless_uniform([5], [1, 2]),
            lib.random.stateless_uniform([5], [1, 2], 3, 9, lib.int32),
            lib.random.stateless_normal([5], [1, 2], 3.0, 0.5),
            lib.random.stateless_truncated_normal([5], [1, 2]),
        ]
    )


def test_names_of_operations() -> None:
    def names(lib: Any) -> list[str]:
        with lib.Graph().as_default() as graph:
            lib.random_normal([2])
            lib.random_uniform([2], 1, 5, lib.int32)
            lib.random_uniform([2], 1.0, 5.0)
            return [op.name for op in graph.get_operations()]

    assert names(tf) == names(tensorflow.compat.v1)


def test_dropout_of_a_batch_whose_size_is_not_known() -> None:
    def build(lib: Any) -> list[Any]:
        lib.set_random_seed(5)
        x = lib.placeholder_with_default(np.ones((7, 30), np.float32), [None, 30])
        h = lib.nn.dropout(lib.exp(x), rate=0.4)
        h = lib.nn.dropout(h * 2.0, rate=0.1, seed=3)
        return [h, lib.gradients(lib.reduce_sum(h * h), x)[0]]

    assert_same(build)
