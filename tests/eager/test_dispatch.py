"""How calls of public functions are taken: under every name, and only while somebody wants them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tideflow as tf
import tideflow.v1


class Masked(tf.experimental.ExtensionType):  # type: ignore[misc]
    values: tf.Tensor
    mask: tf.Tensor


def masked() -> Any:
    return Masked([1.0, 2.0], [True, False])


def test_a_function_that_was_imported_before_is_dispatched_and_given_back() -> None:
    before, signature = tf.math.tanh, inspect.signature(tf.math.tanh)
    code = before.__code__

    @tf.experimental.dispatch_for_api(before, {"x": Masked})
    def tanh(x: Any, name: Any = None) -> Any:
        return "taken"

    assert before(masked()) == tf.tanh(x=masked()) == tideflow.v1.tanh(masked()) == "taken"
    assert inspect.signature(before) == signature
    assert before.__name__ == "tanh"
    np.testing.assert_allclose(before(0.0), 0.0)
    tf.experimental.unregister_dispatch_for(tanh)
    assert before.__code__ is code
    assert inspect.signature(before) == signature
    with pytest.raises((TypeError, ValueError)):
        before(masked())


def test_a_function_with_an_overload_is_dispatched_for_operators_too() -> None:
    @tf.experimental.dispatch_for_api(tf.math.subtract, {"y": Masked})
    def subtract(x: Any, y: Any, name: Any = None) -> Any:
        return "taken"

    try:
        assert tf.constant([1.0, 2.0]) - masked() == "taken"
        ragged = tf.ragged.constant([[1], [2, 3]])
        assert tf.subtract(ragged, masked()) == "taken"
        assert tf.subtract(ragged, ragged).to_list() == [[0], [0, 0]]
    finally:
        tf.experimental.unregister_dispatch_for(subtract)


def test_a_name_of_a_dispatched_call_names_the_operations() -> None:
    @tf.experimental.dispatch_for_api(tf.math.rint, {"x": Masked})
    def rint(x: Any) -> Any:
        return tf.identity(x.values)

    try:
        with tf.Graph().as_default():
            assert tf.math.rint(masked(), name="outer").name == "outer/Identity:0"
            assert tf.math.rint(masked()).name == "Identity:0"
    finally:
        tf.experimental.unregister_dispatch_for(rint)


def test_a_spec_of_fields_that_are_called_as_attributes_of_specs() -> None:
    class Shaped(tf.experimental.ExtensionType):  # type: ignore[misc]
        shape: tf.TensorShape
        flat: tf.Tensor

    one = Shaped([2, None], [1, 2])
    spec = tf.type_spec_from_value(one)
    assert spec.shape.as_list() == [2, None]
    assert [part.shape.as_list() for part in spec.parts] == [[2]]
    assert tf.function(lambda s: s.flat + 1)(one).numpy().tolist() == [2, 3]


def test_what_cannot_be_loaded_is_refused() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="file systems"):
        tf.experimental.register_filesystem_plugin("plugin.so")
    tf.experimental.enable_strict_mode()
    with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
        assert int(tf.function(lambda: 3)()) == 3
