"""Names that few programs ask for, where TensorFlow on CPUs has nothing to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow as tf
from tideflow.graph.behavior import kept

PLANS: list[tuple[Any, Any]] = [(None, None), ([2, 6, 5], None), ([3], [1]), ([4, 2], [2, 0])]


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize(("lengths", "axes"), PLANS)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_over_axes_are_those_of_numpy(
    name: str, lengths: Any, axes: Any, norm: Any
) -> None:
    random = np.random.default_rng(0)
    x = random.random((3, 4, 5))
    if name != "rfftn":
        x = x + 1j * random.random((3, 4, 5))
    found = getattr(tf.signal, f"{name}d")(tf.constant(x), lengths, axes, norm)
    expected = getattr(np.fft, name)(x, lengths, axes or (0, 1, 2), norm)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-9)


def test_transforms_of_the_root_take_lengths_and_axes() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    spectrum = tf.rfftnd(x, [2, 2], [0, 1])
    np.testing.assert_allclose(spectrum, np.fft.rfftn(x.numpy()), rtol=1e-6)
    np.testing.assert_allclose(tf.irfftnd(spectrum, [2, 2], [0, 1]), x, rtol=1e-6)
    with pytest.raises(ValueError, match="known shape"):
        tf.function(tf.signal.rfftnd, input_signature=[tf.TensorSpec([None, 2])])(x)


def test_gradients_of_convolutions_are_those_that_a_tape_gives() -> None:
    x, filters = tf.random.normal([1, 5, 5, 2]), tf.random.normal([2, 2, 2, 3])
    with tf.GradientTape() as tape:
        tape.watch([x, filters])
        y = tf.nn.conv2d(x, filters, 1, "VALID")
    grad = tf.random.normal(y.shape)
    of_x, of_filters = tape.gradient(y, [x, filters], output_gradients=grad)
    rest = (grad, [1, 1, 1, 1], "VALID")
    np.testing.assert_allclose(tf.conv2d_backprop_input_v2(x, filters, *rest), of_x, rtol=1e-5)
    found = tf.conv2d_backprop_filter_v2(x, filters, *rest)
    np.testing.assert_allclose(found, of_filters, rtol=1e-5, atol=1e-6)


def test_checked_numbers_fail_where_they_arise() -> None:
    tf.debugging.enable_check_numerics()
    try:
        expected = 'Detected Infinity or NaN in output 0 of eagerly-executing op "Log"'
        with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
            tf.math.log(tf.constant([-1.0]))
        expected = 'Detected Infinity or NaN in output 0 of graph op "Log"'
        with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
            tf.function(lambda x: tf.math.log(x) + 1)(tf.constant([-1.0]))
        assert tf.reduce_sum(tf.constant([1.0, 2.0])) == 3
    finally:
        tf.debugging.disable_check_numerics()
    assert np.isnan(tf.math.log(tf.constant(-1.0)))


def test_random_operations_need_a_seed_where_all_is_to_be_repeated() -> None:
    with kept():
        tf.config.experimental.enable_op_determinism()
        with tf.Graph().as_default():
            with pytest.raises(RuntimeError, match="need a seed"):
                tf.random.uniform([2])
            assert tf.random.uniform([2], seed=3).shape == [2]


def test_gradients_pass_through_what_has_none() -> None:
    x, w = tf.Variable(1.7), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.grad_pass_through(lambda v: tf.round(v) * w)(x) * 3
    assert tape.gradient(y, [x, w])[0] == 3


def test_libraries_for_another_runtime_are_refused(tmp_path: Any) -> None:
    library = tmp_path / "ops.so"
    library.write_bytes(b"")
    for load in (tf.load_op_library, tf.load_library):
        with pytest.raises(tf.errors.UnimplementedError, match="cannot be loaded"):
            load(str(library))
    library.unlink()
    tf.load_library(str(tmp_path))


def test_folders_of_the_library_hold_it() -> None:
    assert tf.sysconfig.get_include().startswith(tf.sysconfig.get_lib())
    assert tf.sysconfig.get_link_flags()[0] == f"-L{tf.sysconfig.get_lib()}"
    assert tf.io.gfile.get_registered_schemes() == ["file", ""]


def test_tensors_of_graphs_are_symbolic() -> None:
    with tf.Graph().as_default():
        assert tf.is_symbolic_tensor(tf.constant(1))


def test_boxes_are_not_proposed_and_nothing_is_pinned() -> None:
    with pytest.raises(tf.errors.UnimplementedError):
        tf.image.generate_bounding_box_proposals([], [], [], [])
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.check_pinned(tf.constant(1))


class _Forgetful(tf.train.experimental.ShardingCallback):  # type: ignore[misc]
    """Leaves out a tensor."""

    description = "forgetful"

    def __call__(self, shardable_tensors: Any) -> Any:
        return [{t.checkpoint_key: {t.slice_spec: t.tensor}} for t in shardable_tensors[1:]]


def test_a_callback_must_return_what_it_is_given(tmp_path: Any) -> None:
    options = tf.train.CheckpointOptions(experimental_sharding_callback=_Forgetful())
    with pytest.raises(RuntimeError, match=r"'v/.ATTRIBUTES/VARIABLE_VALUE'\] lack"):
        tf.train.Checkpoint(v=tf.Variable(1.0)).write(str(tmp_path / "ckpt"), options)


class _Cell:
    state_size = output_size = 1

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> _Cell:
        return cls()

    def build(self, shape: Any) -> None:
        self.shape = shape

    def zero_state(self, batch_size: int, dtype: Any) -> Any:
        return tf.zeros([batch_size, 1], dtype)

    def __call__(self, inputs: Any, state: Any) -> Any:
        return inputs + state, state


def test_a_wrapped_cell_is_made_of_its_config() -> None:
    config = {"cell": {"class_name": "_Cell", "config": {}}}
    made = tf.nn.RNNCellResidualWrapper.from_config(config, {"_Cell": _Cell})
    made.build([1, 1])
    output, _ = made.call(tf.constant([[2.0]]), tf.constant([[3.0]]))
    assert output.numpy().tolist() == [[7.0]]
    assert made.wrapped_cell.shape == [1, 1]
    with pytest.raises(ValueError, match="no class '_Cell'"):
        tf.nn.RNNCellResidualWrapper.from_config(config)
