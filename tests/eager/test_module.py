"""tf.Module: what it finds in its attributes, its names and scopes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tideflow as tf


class Dense(tf.Module):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)
        self.w = tf.Variable([[1.0]], name="w")
        self.b = tf.Variable([0.0], name="b", trainable=False)

    @tf.Module.with_name_scope
    def make(self) -> tf.Variable:
        return tf.Variable(1.0, name="late")


class TwoLayers(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [Dense("first"), {"deep": (Dense("second"),)}]
        self.alias = self.layers[0]
        self.note = "text"


def test_variables_come_in_the_order_of_names_each_once() -> None:
    dense = Dense()
    assert [v.name for v in dense.variables] == ["b:0", "w:0"]
    assert [v.name for v in dense.trainable_variables] == ["w:0"]
    assert [v.name for v in dense.non_trainable_variables] == ["b:0"]
    assert len(TwoLayers().variables) == 4


def test_submodules_are_found_in_structures() -> None:
    model = TwoLayers()
    assert [m.name for m in model.submodules] == ["first", "second"]


def test_names_follow_the_class_and_the_scope() -> None:
    assert TwoLayers().name == "two_layers"
    with tf.name_scope("outer"):
        dense = Dense("inner")
    assert dense.make().name == "outer/inner/late:0"
    assert dense.make().name == "outer/inner/late:0"
    with pytest.raises(ValueError, match="identifier"):
        Dense("a b")


def test_a_module_trains_in_a_function() -> None:
    dense = Dense()

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ dense.w + dense.b) ** 2)
        (grad,) = tape.gradient(loss, dense.trainable_variables)
        dense.w.assign_sub(0.1 * grad)
        return loss

    losses = [float(step(tf.constant([[1.0]]))) for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1]


def test_lists_and_dicts_of_a_module_serve_as_plain_ones() -> None:
    module = tf.Module()
    module.sizes, module.options = [2, 3], {"units": 4, "shape": [1, 2]}
    assert json.dumps([module.sizes, module.options]) == '[[2, 3], {"units": 4, "shape": [1, 2]}]'
    del module.options["shape"]
    assert json.dumps(module.options) == '{"units": 4}'
    assert json.dumps(module.options | {"units": 5}) == '{"units": 5}'
    assert tf.zeros(module.sizes).shape == (2, 3)
    assert np.array(module.sizes).tolist() == [2, 3]
    first, last = [1], [4]
    for made in (module.sizes + last, first + module.sizes, module.sizes[1:], 2 * module.sizes):
        assert type(made) is list
    assert first + module.sizes + last == [1, 2, 3, 4]
