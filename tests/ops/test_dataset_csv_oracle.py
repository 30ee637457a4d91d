"""Datasets of rows of comma-separated values give what TensorFlow's give."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    END,
    INVALID,
    Made,
    check_elements,
    check_refused,
    int64,
    plain,
    steps,
)
from ops.one_graph import check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

INTS = [np.int32([0])] * 2
TEXTS = [np.array([b""], object)] * 2


def rows_of(
    paths, defaults=TEXTS, op="CSVDataset", compression="", buffer=100, header=False, delimiter=",",
    quotes=True, missing="", chosen=(), excluded=(),
):  # fmt: skip
    values = [one if isinstance(one, tf.Tensor) else tf.constant(one) for one in defaults]
    inputs = [
        tf.constant([str(path) for path in paths]), tf.constant(compression), int64(buffer),
        tf.constant(header), tf.constant(delimiter), tf.constant(quotes), tf.constant(missing),
        tf.constant(chosen, tf.int64), values,
    ]  # fmt: skip
    if op == "CSVDatasetV2":
        inputs.append(tf.constant(excluded, tf.int64))
    made = Made(None, [value.dtype for value in values], [()] * len(values))
    made.variant = apply_op(op, *inputs, **made.structure)
    return made


@pytest.fixture
def file(tmp_path):
    def write(content, name="rows"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def check_file(file, content, count=8, **options):
    """Return elements and errors up to the end, which are the same in both."""
    path = file(content)
    op = options.get("op", "CSVDataset")
    found = check_both_run(lambda: steps(rows_of([path], **options), count), [op])
    elements = [plain(one) for one in found[1:-2]]
    assert END in elements
    return elements[: elements.index(END)]


@pytest.mark.parametrize("op", ["CSVDataset", "ExperimentalCSVDataset", "CSVDatasetV2"])
def test_rows(op, file):
    path = file(b'1,2.5,-7,x\n3,,9,"a, ""b"""\n')
    kinds = [np.int32([0]), np.float32([8]), np.int64([0]), np.array([b"-"], object)]
    found = check_elements(lambda: rows_of([path], kinds, op), [op])
    assert found == [(1, 2.5, -7, b"x"), (3, 8.0, 9, b'a, "b"')]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("buffer", [1, 3, 100])
def test_ends_of_rows(end, last, buffer, file):
    content = end.join([b"1,2", b'"3","4"', b'"5\n5","6\r\n6"']) + (end if last else b"")
    found = check_file(file, content, buffer=buffer)
    assert found == [(b"1", b"2"), (b"3", b"4"), (b"5\n5", b"6\r\n6")]


ROWS = [
    b"1,2\n\n3,4", b"\n\n1,2\n", b"1,2\n3\n5,6\n", b"1,2\n3,4,5\n5,6\n", b"1,2\n,\n5,\n",
    b"1,2\nx,4\n5,6\n", b"1,2\nx,y,z\n5,6", b"", b" 1 ,+2\n-3,4.0\n0x10,5\n 6,7 \n",
    b"99999999999,1\n1,-2147483648\n", b'"1","2"\n"x",3\n', b"1,2\n  \n3,4\n", b"1,2,", b"1,", b",",
]  # fmt: skip


@pytest.mark.parametrize("content", ROWS, ids=repr)
def test_rows_of_numbers(content, file):
    check_file(file, content, defaults=INTS)


QUOTED = [
    b'a,"b"\n"c,d","e""f"\n"g\nh",i\n', b'a"b,c\nd,e\n', b'"a"b,c\nd,e\n', b'"a,c\nd,e\n',
    b'a,"b\nd,e\n', b" a , b \n", b'a,"b"', b'"",""\n', b'"a"b",c\nd,e\n', b'"a"b\nd",e\nf,g\n',
    b'"a" ,c\nd,e\n"x","y"\nh,i\n', b'x,"a"b\nd,e\n"x","y"\nh,i\n', b'"a"\nd,e\n', b'"a""\nd,e\n',
    b'"a"', b'"a",', b'ab",c,d\nd,e\n', b'a,b"c,"d\nd",e\nf,g', b'a,b,"d\nd",e\nf,g', b'"', b'a"',
    b'"a\r\nb","c\rd"\n', b'a,"b\n\n\nc"\n', b"\xff\x00,b\n",
]  # fmt: skip


@pytest.mark.parametrize("content", QUOTED, ids=repr)
@pytest.mark.parametrize("quotes", [True, False])
def test_quotes(content, quotes, file):
    check_file(file, content, quotes=quotes)


def test_a_row_of_many_lines_and_more_bytes_than_are_read_at_once(file):
    content = b'"' + b"line\r\n" * 100_000 + b'",x\r\n' + b"y" * 300_000 + b",z"
    found = check_file(file, content)
    assert [(len(a), b) for a, b in found] == [(600_000, b"x"), (300_000, b"z")]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_with_fractions(kind, file):
    content = (
        b" 1 ,+2\n-3e2,inf\n1e400,.5\nnan,5.\n0x1p3,0x.8\n1e-400,-1e39\nInfinity,-INF\n1_0,2\n"
        b"0x1p9999,-0X1P9999\n1e,2\n"
    )
    found = check_file(file, content, count=12, defaults=[kind([0])] * 2)
    assert found[:2] == [(1, 2), (-300, np.inf)]
    assert len(found) == 10


def test_the_greatest_integers(file):
    content = b"9223372036854775807,-9223372036854775808\n9223372036854775808,1\n"
    found = check_file(file, content, defaults=[np.int64([0])] * 2)
    assert found == [(2**63 - 1, -(2**63)), INVALID]


@pytest.mark.parametrize(
    "content",
    [
        b"h,k\n1,2\n", b"", b"\n", b'"h\nk",z\n1,2\n', b"h", b'h"x,y\n1,2', b"\r\n1,2",
        b"h,z\r1,2\r3,4",
    ],
    ids=repr,
)  # fmt: skip
def test_headers(content, file):
    check_file(file, content, header=True)


@pytest.mark.parametrize("missing", ["", "NA"])
def test_missing_values(missing, file):
    required = [np.array([], np.int32), np.int32([5])]
    check_file(file, b"1,\n,2\n3,NA\nNA,4\n", defaults=required, missing=missing)
    check_file(file, b'NA,"NA"\nx,NAN\n', defaults=[np.array([b"d"], object)] * 2, missing=missing)
    check_file(file, b"1,2\n,\n", defaults=[np.int32(7), np.int32([8])])


CHOICES = [
    {"chosen": [0, 2]}, {"chosen": [0, 1]}, {"chosen": [0, 5]}, {"excluded": [1]}, {},
    {"excluded": [0, 2]}, {"excluded": [7]},
]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize(
    "content",
    [b"1,2,3\n4,5,6\n7,8\n9\n10,11,12,13\n", b'1,x,3\n4,"a,b",6\n7,a"b,8\n1,2,9"\n1,2,"3"4\n'],
)
def test_choosing_columns(choice, content, file):
    check_file(file, content, op="CSVDatasetV2", defaults=INTS, **choice)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(delimiter, file):
    assert check_file(file, f'1{delimiter}"2,3"'.encode(), delimiter=delimiter) == [(b"1", b"2,3")]


REFUSED = [
    {"delimiter": ";;"}, {"delimiter": ""}, {"delimiter": "é"}, {"buffer": 0}, {"buffer": -1},
    {"compression": "NONE"}, {"chosen": [2, 0]}, {"chosen": [0, 0]}, {"chosen": [-1, 0]},
    {"chosen": [0]}, {"excluded": [-1]}, {"excluded": [1, 1]}, {"excluded": [1], "chosen": [0, 2]},
]  # fmt: skip


@pytest.mark.parametrize("wrong", REFUSED, ids=str)
def test_arguments_that_are_refused(wrong, file):
    path = file(b"1,2\n")
    check_refused(lambda: rows_of([path], op="CSVDatasetV2", **wrong), ["CSVDatasetV2"])


@pytest.mark.parametrize("default", [[1, 2], [[1]]])
def test_defaults_that_are_refused(default, file):
    path = file(b"1,2\n")

    def build():
        hidden = tf.placeholder_with_default(tf.constant(default), None)
        return rows_of([path], [hidden, np.int32([1])])

    check_refused(build, ["CSVDataset"])


@pytest.mark.parametrize("header", [True, False])
def test_several_files(header, file):
    paths = [file(b"h,k\n1,2", "one"), file(b"", "empty"), file(b"h,k\n3,4\n5", "two")]

    def build():
        return steps(rows_of([*paths, paths[0]], header=header), 10)

    found = [plain(one) for one in check_both_run(build, ["CSVDataset"])][:-2]
    assert found.count((b"1", b"2")) == 2
    assert found.count(INVALID) == (2 if header else 1)


def test_a_file_that_is_not_there(file, tmp_path):
    paths = [file(b"1,2"), tmp_path / "none"]
    check_refused(lambda: rows_of(paths), ["CSVDataset"], "NotFoundError", 2)
    check_refused(lambda: rows_of([tmp_path]), ["CSVDataset"], "FailedPreconditionError", 1)


@pytest.mark.parametrize(("kind", "pack"), [("ZLIB", zlib.compress), ("GZIP", gzip.compress)])
def test_compressed_files(kind, pack, file):
    content = pack(b'h,k\n1,"2\n3"\n')
    assert check_file(file, content, header=True, compression=kind) == [(b"1", b"2\n3")]


def test_files_that_are_not_compressed_as_said(file):
    path = file(b"1,2\n")
    check_refused(lambda: rows_of([path], compression="ZLIB"), ["CSVDataset"], "DataLossError", 1)
