"""Inputs on other devices than the operation: copied, or refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tideflow as tf
from tideflow.eager.context import Context, replace_context
from tideflow.wire import errors
from tideflow.wire import messages as pb


@pytest.fixture(autouse=True)
def two_devices() -> Iterator[None]:
    replace_context(Context(pb.ConfigProto(device_count={"CPU": 2})))
    yield
    replace_context(None)


def test_constants_and_results_are_where_they_are_asked_for() -> None:
    with tf.device("CPU:1"):
        made = [tf.constant(1), tf.convert_to_tensor([1.0]), tf.ones([2]), tf.constant(1) + 1]
    assert {tensor.device[-5:] for tensor in made} == {"CPU:1"}
    assert tf.identity(made[0]).device.endswith("CPU:0")


@pytest.mark.parametrize(
    ("policy", "refuses_floats", "refuses_integers"),
    [
        (None, False, False),
        ("silent", False, False),
        ("warn", False, False),
        ("silent_for_int32", True, False),
        ("explicit", True, True),
    ],
)
def test_a_policy_says_what_is_copied(
    policy: str | None, refuses_floats: bool, refuses_integers: bool
) -> None:
    tf.config.experimental.set_device_policy(policy)
    assert tf.config.experimental.get_device_policy() == (policy or "silent")
    for value, refuses in (
        (tf.constant([1.5]), refuses_floats),
        (tf.constant([1]), refuses_integers),
    ):
        with tf.device("CPU:1"):
            copy = tf.identity(value)
            assert (copy + copy).device.endswith("CPU:1")
            if refuses:
                text = "AddV2 runs on .*CPU:1, but its input #0 is on .*CPU:0"
                with pytest.raises(errors.InvalidArgumentError, match=text):
                    value + value
            else:
                assert (value + value).device.endswith("CPU:1")


def test_a_variable_s_first_value_is_copied_like_any_other() -> None:
    value = tf.constant([1.0])
    tf.config.experimental.set_device_policy("explicit")
    with tf.device("CPU:1"), pytest.raises(errors.InvalidArgumentError, match="AssignVariableOp"):
        tf.Variable(value)


def test_the_policies_are_named() -> None:
    with pytest.raises(ValueError, match=r"no device policy is named 'strict'.*'explicit'"):
        tf.config.experimental.set_device_policy("strict")
