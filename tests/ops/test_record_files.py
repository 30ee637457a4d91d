"""Files of records, through the front door of the formats."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tideflow.formats import (
    WINDOW_BITS,
    FileRecords,
    RecordFile,
    RecordWriter,
    check_fixed_length,
    fixed_length_records,
    framed,
    text_lines,
    tf_records,
)
from tideflow.wire import errors


def fixed(path: Path, *sizes: int, exact: bool = False) -> list[bytes]:
    return list(fixed_length_records(RecordFile(str(path), ""), *sizes, exact=exact))


@pytest.mark.parametrize("compression", ["", *WINDOW_BITS])
def test_what_a_writer_wrote_is_read(tmp_path: Path, compression: str) -> None:
    bits = WINDOW_BITS.get(compression)
    records = [b"", b"one", bytes(range(256)) * 2000]
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        with RecordWriter(path, None if bits is None else zlib.compressobj(wbits=bits)) as writer:
            for record in records:
                writer.write(record)
                writer.flush()
    assert list(FileRecords(paths, compression, tf_records)) == records * 2


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "a")
    writer.close()
    writer.close()
    with pytest.raises(errors.FailedPreconditionError):
        writer.write(b"late")


def test_damage_is_told_and_the_file_left(tmp_path: Path) -> None:
    whole = framed(b"first") + framed(b"second")
    (tmp_path / "damaged").write_bytes(whole[:-6] + b"!" + whole[-5:])
    (tmp_path / "whole").write_bytes(whole)
    names = [str(tmp_path / "damaged"), str(tmp_path / "whole")]
    found = FileRecords(names, "", tf_records)
    assert next(found) == b"first"
    with pytest.raises(errors.DataLossError, match="corrupted record at 21"):
        next(found)
    assert list(found) == [b"first", b"second"]


def test_a_file_that_is_not_there_stays_the_next_one(tmp_path: Path) -> None:
    found = FileRecords([str(tmp_path / "a")], "", text_lines)
    for _ in range(2):
        with pytest.raises(errors.NotFoundError, match="No such file"):
            next(found)
    (tmp_path / "a").write_bytes(b"one\r\ntwo")
    assert list(found) == [b"one", b"two"]


def test_records_of_one_length(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"HH" + b"112233" + b"F")
    assert fixed(path, 2, 2, 1) == [b"11", b"22", b"33"]
    # A record begins where the one before has its second byte, or after one that is left out.
    assert fixed(path, 2, 2, 1, 1) == [b"11", b"12", b"22", b"23", b"33"]
    assert fixed(path, 2, 2, 1, 4) == [b"11", b"33"]


def test_a_body_that_is_no_multiple_of_the_length(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"HH" + b"11223" + b"F")
    assert fixed(path, 2, 2, 1) == [b"11", b"22"]
    with pytest.raises(errors.DataLossError, match="body length 5 bytes"):
        fixed(path, 2, 2, 1, exact=True)
    with pytest.raises(errors.InvalidArgumentError, match="body length 5 bytes"):
        check_fixed_length(RecordFile(str(path), ""), 2, 2, 1)
