"""Readers of files that a queue names, compared with TensorFlow's."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

import tideflow.v1 as ours
from ops import compared

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

v1 = tensorflow.compat.v1
PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def write(path, *contents):
    for i, content in enumerate(contents):
        (path / f"file{i}").write_bytes(content)
    return [str(path / f"file{i}") for i in range(len(contents))]


def run(session, library, fetches):
    """Return what a step gives, or the class of its error."""
    try:
        found = session.run(fetches)
    except library.errors.OpError as error:
        return type(error).__name__
    if found is None:
        return None
    return [np.asarray(x, object).tolist() for x in found]


def both(make_reader, names, steps):
    """Check that a list of steps, each made of reader and queue, goes alike."""
    found = []
    for library in (ours, v1):
        with library.Graph().as_default(), library.Session() as session:
            queue = library.FIFOQueue(10, [library.string], shapes=[[]])
            fill, close = queue.enqueue_many([names]), queue.close()
            reader = make_reader(library)
            built = [step(reader, queue) for step in steps]
            session.run(fill)
            session.run(close)
            found.append([run(session, library, step) for step in built])
    assert found[0] == found[1]
    return found[0]


def read(reader, queue):
    return list(reader.read(queue))


def read_up_to(count):
    return lambda reader, queue: list(reader.read_up_to(queue, count))


def count(reader, queue):
    return [reader.num_records_produced(), reader.num_work_units_completed()]


def note(*ops):
    for op in ops:
        compared.agreed(f"{op}V2", ["string"])


@pytest.mark.parametrize("skip", [0, 1, 5])
def test_lines(tmp_path, skip):
    names = write(tmp_path, b"one\ntw\r\no\n\n", b"", b"four\nfive")
    steps = [read, count] * 7
    found = both(lambda lib: lib.TextLineReader(skip_header_lines=skip), names, steps)
    assert found[-2] == "OutOfRangeError"
    note("TextLineReader", "ReaderRead", "ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted")


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_several_lines_at_once(tmp_path, size):
    names = write(tmp_path, b"1\n2\n3\n", b"", b"4\n5\n")
    found = both(lambda lib: lib.TextLineReader(), names, [read_up_to(size), count] * 6)
    assert found[-2] == "OutOfRangeError"
    note("ReaderReadUpTo")


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize("attrs", [{}, {"header_bytes": 2}, {"footer_bytes": 1}])
@pytest.mark.parametrize("hop", [0, 1, 3])
@pytest.mark.parametrize("size", [7, 8])
def test_records_of_one_length(tmp_path, encoding, attrs, hop, size):
    names = write(tmp_path, PACK[encoding](bytes(range(65, 65 + size))), PACK[encoding](b"xy"))

    def make(lib):
        return lib.FixedLengthRecordReader(2, hop_bytes=hop, encoding=encoding, **attrs)

    found = both(make, names, [read, count] * 10)
    assert found[-2] == "OutOfRangeError"
    note("FixedLengthRecordReader")


@pytest.mark.parametrize("compression", PACK)
def test_tf_records(tmp_path, compression):
    name = str(tmp_path / "records")
    options = tensorflow.io.TFRecordOptions(compression_type=compression)
    with tensorflow.io.TFRecordWriter(name, options) as writer:
        for record in (b"one", b"", b"three" * 100):
            writer.write(record)

    def make(library):
        kind = library.python_io.TFRecordOptions if library is v1 else None
        return library.TFRecordReader(options=kind(compression) if kind else compression)

    found = both(make, [name], [read, count] * 5)
    assert [value for _, value in found[0:6:2]] == [b"one", b"", b"three" * 100]
    assert found[6] == "OutOfRangeError"
    note("TFRecordReader")


def test_whole_files_and_names(tmp_path):
    names = write(tmp_path, b"one\ntwo", b"")
    whole = both(lambda lib: lib.WholeFileReader(), names, [read, count] * 4)
    assert [value for _, value in whole[0:4:2]] == [b"one\ntwo", b""]
    single = both(lambda lib: lib.IdentityReader(), names, [read, count] * 4)
    assert [value.decode() for _, value in single[0:4:2]] == names
    together = both(lambda lib: lib.IdentityReader(), names, [read_up_to(2), count, read, count])
    first, second = (name.encode() for name in names)
    assert together == [[[first]] * 2, [1, 1], [second] * 2, [2, 2]]
    note("WholeFileReader", "IdentityReader")


def test_a_file_that_is_not_there_is_left(tmp_path):
    names = [str(tmp_path / "none"), *write(tmp_path, b"a\nb")]
    for kind in ("TextLineReader", "WholeFileReader", "TFRecordReader"):
        steps = [read, count, read, count]
        found = both(lambda lib, kind=kind: getattr(lib, kind)(), names, steps)
        assert found[0] == "NotFoundError"
        compared.refused("ReaderReadV2")


def test_a_damaged_file_is_left(tmp_path):
    names = write(tmp_path, b"no records in here, but bytes", b"")
    found = both(lambda lib: lib.TFRecordReader(), names, [read, count, read, count])
    assert found[0] == "DataLossError"


def test_a_reader_goes_back_to_its_start(tmp_path):
    names = write(tmp_path, b"a\nb\n", b"c\nd\n")
    steps = [read, lambda reader, _: reader.reset(), count, read, read, count]
    found = both(lambda lib: lib.TextLineReader(), names, steps)
    assert found[2] == [0, 0]
    assert [found[i][1] for i in (0, 3, 4)] == [b"a", b"c", b"d"]
    note("ReaderReset")


def test_states_are_saved_and_restored():
    states = []
    for library in (ours, v1):
        with library.Graph().as_default(), library.Session() as session:
            queue = library.FIFOQueue(10, [library.string], shapes=[[]])
            reader = library.IdentityReader()
            session.run(queue.enqueue_many([["a", "b", "c"]]))
            session.run(reader.read(queue))
            state = session.run(reader.serialize_state())
            session.run(reader.read(queue))
            after = session.run(reader.serialize_state())
            session.run(reader.restore_state(state))
            again = session.run([reader.num_records_produced(), reader.serialize_state()])
            refused = [
                run(session, library, reader.restore_state(b"\xff no state")),
                run(session, library, [library.TextLineReader().serialize_state()]),
            ]
            states.append((state, after, again, refused))
    assert states[0] == states[1]
    note("ReaderSerializeState", "ReaderRestoreState")


def test_a_queue_of_other_things_is_refused():
    found = []
    for library in (ours, v1):
        with library.Graph().as_default(), library.Session() as session:
            numbers = library.FIFOQueue(10, [library.int32], shapes=[[]])
            pairs = library.FIFOQueue(10, [library.string, library.string], shapes=[[], []])
            rows = library.FIFOQueue(10, [library.string], shapes=[[2]])
            session.run([numbers.enqueue([1]), pairs.enqueue(["a", "b"])])
            session.run(rows.enqueue([["a", "b"]]))
            reader = library.IdentityReader()
            found.append([run(session, library, reader.read(q)) for q in (numbers, pairs, rows)])
    assert found[0] == found[1]
