"""Generators: their numbers are TensorFlow's, in functions and after checkpoints, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tideflow as tf


def test_the_numbers_are_those_of_tensorflow() -> None:
    generator = tf.random.Generator.from_seed(1)
    np.testing.assert_allclose(generator.normal([1]).numpy(), [0.43842274], rtol=1e-6)
    np.testing.assert_allclose(generator.normal([1]).numpy(), [1.6272374], rtol=1e-6)
    generator.reset_from_seed(5)
    np.testing.assert_allclose(generator.normal([1]).numpy(), [1.0278524], rtol=1e-6)
    assert tf.random.Generator.from_seed(1).uniform([2], 0, 10, tf.int32).numpy().tolist() == [4, 9]


def test_a_function_goes_on_where_the_program_was() -> None:
    generator = tf.random.Generator.from_seed(1)
    traced = tf.function(lambda: generator.normal([2]))
    found = [generator.normal([2]).numpy(), traced().numpy(), traced().numpy()]
    again = tf.random.Generator.from_seed(1)
    np.testing.assert_allclose(found, [again.normal([2]).numpy() for _ in range(3)])


def test_a_checkpoint_takes_the_state_along(tmp_path: Path) -> None:
    generator = tf.random.Generator.from_seed(3)
    path = tf.train.Checkpoint(g=generator).write(tmp_path / "ckpt")
    expected = generator.normal([2]).numpy()
    other = tf.random.Generator.from_seed(4)
    tf.train.Checkpoint(g=other).read(path).assert_consumed()
    np.testing.assert_array_equal(other.normal([2]).numpy(), expected)


def test_parts_of_a_generator_differ() -> None:
    first, second = tf.random.Generator.from_seed(1).split(2)
    assert first.normal([1]).numpy() != second.normal([1]).numpy()
    with pytest.raises(tf.errors.UnimplementedError, match="philox"):
        tf.random.Generator.from_seed(1, alg="threefry").normal([1])
