"""Summaries: what operations make of values, and what TensorBoard finds in the files."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import wave
import zlib

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import make_environment


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def value_of(summary):
    with tf.Session() as session:
        (value,) = tf.Summary.FromString(session.run(summary)).value
    return value


def decoded(png):
    """Return the pixels of a PNG file whose rows have no filters."""
    width, height, bits, kind = struct.unpack(">IIBB", png[16:26])
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[kind]
    assert (png[:8], bits) == (b"\x89PNG\r\n\x1a\n", 8)
    size = struct.unpack(">I", png[33:37])[0]
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


def test_bytes_are_shown_as_they_are():
    pixels = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    value = value_of(tf.summary.image("im", tf.constant(pixels)))
    assert value.tag == "im/image/0"
    assert (value.image.height, value.image.width, value.image.colorspace) == (2, 4, 3)
    np.testing.assert_array_equal(decoded(value.image.encoded_image_string), pixels[0])


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ([0.0, 1.0, 2.0], [0, 127, 255]),
        ([-1.0, 0.0, 0.5], [1, 128, 191]),
        ([0.0, np.nan, 4.0], [0, 255, 255]),
    ],
)
def test_numbers_are_scaled_and_bad_ones_get_a_color(row, wanted):
    value = value_of(tf.summary.image("im", np.float32(row).reshape(1, 1, 3, 1), max_outputs=1))
    assert value.tag == "im/image"
    assert decoded(value.image.encoded_image_string).ravel().tolist() == wanted


def test_a_sound_is_a_wave_file():
    sound = np.float32([[0, 1], [-1, 0.5]]).reshape(1, 2, 2)
    value = value_of(tf.summary.audio("au", sound, 8000.0))
    assert (value.tag, value.audio.content_type) == ("au/audio/0", "audio/wav")
    assert (value.audio.length_frames, value.audio.num_channels) == (2, 2)
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        assert file.getframerate() == 8000
        samples = np.frombuffer(file.readframes(2), "<i2").tolist()
    assert samples == [0, 32767, -32768, 16384]


def test_text_is_a_tensor_for_the_text_plugin():
    value = value_of(tf.summary.text("t", tf.constant(["a", "b"])))
    assert value.metadata.plugin_data.plugin_name == "text"
    assert tf.make_ndarray(value.tensor).tolist() == [b"a", b"b"]
    with pytest.raises(ValueError, match="takes strings"):
        tf.summary.text("t", tf.constant(1))


@pytest.mark.parametrize("shape", [(2, 3, 1), (1, 2, 2, 2)])
def test_what_is_no_batch_of_pictures_is_refused(shape):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"last dim 1, 3, or 4"):
        value_of(tf.summary.image("im", np.zeros(shape, np.float32)))


def write_a_run(directory, steps=3):
    x = tf.placeholder(tf.float32, [2, 4])
    tf.summary.scalar("loss", tf.reduce_mean(x))
    tf.summary.histogram("weights", x)
    tf.summary.image("im", tf.reshape(x, [1, 2, 4, 1]))
    tf.summary.text("note", tf.constant("hello"))
    merged = tf.summary.merge_all()
    with tf.Session() as session, tf.summary.FileWriter(directory, session.graph) as writer:
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 0)
        for step in range(steps):
            writer.add_summary(session.run(merged, {x: np.full((2, 4), step)}), step)
        writer.add_run_metadata(tf.RunMetadata(), "run", 1)


def test_tensorboard_reads_what_was_written(tmp_path):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is missing"
    )
    write_a_run(tmp_path)
    found = accumulators.EventAccumulator(
        str(tmp_path), size_guidance={"images": 0, "histograms": 0}
    )
    found.Reload()
    tags = found.Tags()
    assert tags["scalars"] == ["loss"]
    assert tags["histograms"] == ["weights"]
    assert tags["images"] == ["im/image/0"]
    assert tags["tensors"] == ["note"]
    assert tags["run_metadata"] == ["run"]
    assert tags["graph"]
    assert tags["meta_graph"]
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert found.Histograms("weights")[2].histogram_value.num == 8
    assert found.Images("im/image/0")[0].width == 4
    assert found.Tensors("note")[0].tensor_proto.string_val == [b"hello"]
    assert any(node.name == "loss" for node in found.Graph().node)
    assert found.SummaryMetadata("note").plugin_data.plugin_name == "text"


def events(directory):
    return [e for path in sorted(directory.iterdir()) for e in tf.train.summary_iterator(path)]


def test_a_file_begins_with_its_version_and_metadata_comes_once(tmp_path):
    write_a_run(tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    found = events(tmp_path)
    assert found[0].file_version == "brain.Event:2"
    assert found[0].source_metadata.writer
    notes = [v for e in found for v in e.summary.value if v.tag == "note"]
    assert [value.HasField("metadata") for value in notes] == [True, False, False]


def test_flushed_events_are_in_the_file_and_a_reopened_writer_goes_on_in_another(tmp_path):
    writer = tf.summary.FileWriter(tmp_path, filename_suffix=".mine")
    writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1)]), 7)
    writer.flush()
    assert [e.step for e in events(tmp_path)] == [0, 7]
    writer.close()
    writer.add_event(tf.Event(step=8))  # dropped, with a warning
    writer.reopen()
    writer.add_event(tf.Event(step=9))
    writer.close()
    assert [e.step for e in events(tmp_path)] == [0, 7, 0, 9]
    assert all(path.name.endswith(".mine") for path in tmp_path.iterdir())


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.OpError, match=r"cannot make the directory .*run"):
        tf.summary.FileWriter(tmp_path / "file" / "run")


_FULL_DISK = """
import resource, signal, sys
import tideflow.v1 as tf
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = tf.summary.FileWriter(sys.argv[1])
writer.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a" * 9999, simple_value=1)]))
try:
    writer.flush()
except tf.errors.OpError as error:
    print(type(error).__name__, error)
"""


def test_a_disk_that_fails_behind_the_scenes_is_told_at_the_next_call(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path)],
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "cannot write" in found.stdout, found.stderr


def test_there_is_one_writer_for_each_directory(tmp_path):
    first = tf.summary.FileWriterCache.get(tmp_path / "a")
    assert tf.summary.FileWriterCache.get(str(tmp_path / "a")) is first
    assert tf.summary.FileWriterCache.get(tmp_path / "b") is not first
    tf.summary.FileWriterCache.clear()
    again = tf.summary.FileWriterCache.get(tmp_path / "a")
    assert again is not first
    tf.summary.FileWriterCache.clear()


def test_a_tag_of_run_metadata_is_used_once(tmp_path):
    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_run_metadata(tf.RunMetadata(), "a")
        with pytest.raises(ValueError, match="before"):
            writer.add_run_metadata(tf.RunMetadata(), "a")


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_records_come_back(tmp_path, compression):
    records = [b"", b"a", b"x" * 100_000]
    with tf.io.TFRecordWriter(tmp_path / "r", compression) as writer:
        for record in records:
            writer.write(record)
    assert list(tf.io.tf_record_iterator(tmp_path / "r", compression)) == records
    element = tf.data.TFRecordDataset(str(tmp_path / "r"), compression).batch(9)
    iterator = tf.data.make_initializable_iterator(element)
    batch = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(batch).tolist() == records
