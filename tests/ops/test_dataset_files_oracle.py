"""Datasets of files give the same on a server of ours as on TensorFlow."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

from ops.dataset_harness import check

tensorflow = pytest.importorskip("tensorflow")
tf = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}
TEXTS = {
    "plain": b"one\ntwo\nthree\n",
    "no last newline": b"one\ntwo",
    "empty lines": b"\n\na\n\n",
    "carriage returns": b"one\r\ntw\ro\r\r\nthree\r",
    "nothing": b"",
    "long": b"\n".join(b"x" * (i * 37) for i in range(100)),
}


def write(path, *contents):
    found = []
    for i, content in enumerate(contents):
        (path / f"file{i}").write_bytes(content)
        found.append(str(path / f"file{i}"))
    return found


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize("text", TEXTS)
def test_lines(tmp_path, text, compression):
    pack = PACK[compression]
    names = write(tmp_path, pack(TEXTS[text]), pack(b"last\n"))
    check(tf, lambda: tf.data.TextLineDataset(names, compression))


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize("body", [0, 3, 9, 10])
@pytest.mark.parametrize(("header", "footer"), [(0, 0), (2, 4), (5, 0)])
def test_records_of_one_length(tmp_path, header, footer, body, compression):
    content = b"H" * header + b"abcdefghij"[:body] + b"F" * footer
    names = write(tmp_path, PACK[compression](content), PACK[compression](content))
    check(
        tf,
        lambda: tf.data.FixedLengthRecordDataset(
            names, 3, header, footer, compression_type=compression
        ),
    )


def tf_records(compression, *records):
    def write_to(path):
        options = tf.io.TFRecordOptions(compression_type=compression)
        with tf.io.TFRecordWriter(str(path), options) as writer:
            for record in records:
                writer.write(record)
        return path.read_bytes()

    return write_to


@pytest.mark.parametrize("compression", PACK)
def test_tf_records(tmp_path, compression):
    content = tf_records(compression, b"one", b"", b"x" * 300_000, b"four")(tmp_path / "made")
    names = write(tmp_path, content, content)
    found = check(tf, lambda: tf.data.TFRecordDataset(names, compression))
    assert len(found) == 9


@pytest.mark.parametrize("damage", ["length", "data", "cut in a record", "cut in a length"])
def test_damaged_tf_records(tmp_path, damage):
    content = bytearray(tf_records("", b"one", b"twotwo", b"three")(tmp_path / "made"))
    at = 16 + 3
    if damage.startswith("cut"):
        del content[at + (14 if damage.endswith("record") else 5) :]
    else:
        content[at + (1 if damage == "length" else 13)] ^= 1
    names = write(tmp_path, bytes(content), tf_records("", b"next")(tmp_path / "made"))
    check(tf, lambda: tf.data.TFRecordDataset(names))


@pytest.mark.parametrize(
    "make",
    [
        lambda names: tf.data.TextLineDataset(names),
        lambda names: tf.data.TFRecordDataset(names),
        lambda names: tf.data.FixedLengthRecordDataset(names, 2),
        lambda names: tf.data.TextLineDataset(
            names, tf.placeholder_with_default("LZMA", [])
        ),
        lambda names: tf.data.TextLineDataset(names, "GZIP"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(tmp_path, make):
    names = [str(tmp_path / "missing"), *write(tmp_path, b"ab\ncd\n")]
    check(tf, lambda: make(names))


def test_interleaved_files(tmp_path):
    names = write(tmp_path, *(b"".join(b"%d-%d\n" % (i, j) for j in range(i)) for i in range(6)))
    check(
        tf,
        lambda: tf.data.Dataset.from_tensor_slices(names).interleave(
            tf.data.TextLineDataset, cycle_length=3, block_length=2, num_parallel_calls=2
        ),
    )


def test_rows_of_an_array_in_a_file(tmp_path):
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    names = write(tmp_path, rows.tobytes())
    check(
        tf,
        lambda: tf.data.FixedLengthRecordDataset(names, 16).batch(4).prefetch(1),
    )


@pytest.mark.parametrize("choice", [{}, {"select_cols": [2, 3]}, {"exclude_cols": [0, 1]}], ids=str)
def test_columns_of_rows(tmp_path, choice):
    names = write(tmp_path, b"a,b,c,d\n1,2,3,x\n4,5,,y\n", b'a,b,c,d\r\n7,8,9,"z\r\n"\r\n10,x,1,')
    columns = [tf.int32, 0.5, np.int64(7), ""][2 * bool(choice) :]
    check(
        tf,
        lambda: tensorflow.data.experimental.CsvDataset(
            names, columns, header=True, **choice
        ).batch(2),
    )


def test_features_of_rows(tmp_path):
    names = write(tmp_path, b"a,b\n1,x\n2,y\n3,z\n")
    check(
        tf,
        lambda: tf.data.experimental.make_csv_dataset(
            names, 2, label_name="b", num_epochs=1, shuffle=False
        ),
    )
