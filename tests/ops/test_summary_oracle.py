"""Summaries hold what TensorFlow's hold; pictures are compared by their pixels."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours

theirs = pytest.importorskip("tensorflow").compat.v1
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)


def under_both(program):
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:
            summary = program(tf)
            names = [node.name for node in tf.get_default_graph().as_graph_def().node]
            found.append((names, ours.Summary.FromString(session.run(summary))))
    return found


def pixels(png):
    with theirs.Graph().as_default(), theirs.Session() as session:
        return session.run(theirs.image.decode_png(png))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(
    "values",
    [
        RNG.integers(0, 256, (2, 5, 4, 12)).astype(np.uint8),
        RNG.normal(size=(2, 5, 4, 12)).astype(np.float32),
        RNG.random((2, 5, 4, 12)).astype(np.float16),
        RNG.random((4, 2, 2, 12)),
        np.full((1, 2, 2, 12), np.nan, np.float32),
        np.zeros((1, 2, 2, 12), np.float32),
    ],
    ids=["bytes", "negative", "half", "double", "nan", "zero"],
)
def test_pictures(values, channels):
    given = values[..., :channels].copy()
    (our_names, found), (names, wanted) = under_both(
        lambda tf: tf.summary.image("im", tf.constant(given))
    )
    assert sorted(our_names) == sorted(names)
    assert len(found.value) == len(wanted.value) > 0
    for one, other in zip(found.value, wanted.value):
        np.testing.assert_array_equal(
            pixels(one.image.encoded_image_string), pixels(other.image.encoded_image_string)
        )
        one.image.encoded_image_string = other.image.encoded_image_string = b""
        assert one == other


PROGRAMS = {
    "audio": lambda tf: tf.summary.audio("au", RNG_SOUND, 8000.0, max_outputs=2),
    "one sound": lambda tf: tf.summary.audio("au", RNG_SOUND[:1], 44100.0, max_outputs=1),
    "text": lambda tf: tf.summary.text("t", tf.constant(["a", "b"])),
    "tensor": lambda tf: tf.summary.tensor_summary(
        "x", tf.constant([[1.0, 2.0]]), "what it is", display_name="X"
    ),
    "family": lambda tf: tf.summary.scalar("s", tf.constant(2.0), family="f"),
    "scalar": lambda tf: tf.summary.scalar("a b", tf.constant(3)),
}
RNG_SOUND = np.clip(RNG.normal(size=(3, 50, 2)), -1, 1).astype(np.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_summaries(name):
    (our_names, found), (names, wanted) = under_both(PROGRAMS[name])
    assert found == wanted
    assert {name for name in names if "tag" in name} <= set(our_names)
