"""tf.io.gfile: files written, read, listed and removed."""

from __future__ import annotations

import pytest

import tideflow as tf

gfile = tf.io.gfile


def test_what_was_written_is_read(tmp_path):
    name = str(tmp_path / "a.txt")
    with gfile.GFile(name, "w") as file:
        file.write("first\nsécond\n")
    with gfile.GFile(name, "a") as file:
        file.write("third")
    with gfile.GFile(name) as file:
        assert file.readline() == "first\n"
        assert list(file) == ["sécond\n", "third"]
    with gfile.GFile(name, "rb") as file:
        file.seek(6)
        assert file.read(3) == b"s\xc3\xa9"
        assert (file.tell(), file.size()) == (9, 19)
    found = gfile.stat(name)
    assert (found.length, found.is_directory) == (19, False)


def test_directories(tmp_path):
    top = str(tmp_path / "top")
    gfile.makedirs(gfile.join(top, "in", "ner"))
    gfile.makedirs(top)
    with gfile.GFile(gfile.join(top, "file"), "w") as file:
        file.write("x")
    assert sorted(gfile.listdir(top)) == ["file", "in"]
    assert [(path[len(top) :], *rest) for path, *rest in gfile.walk(top)] == [
        ("", ["in"], ["file"]),
        ("/in", ["ner"], []),
        ("/in/ner", [], []),
    ]
    with pytest.raises(tf.errors.AlreadyExistsError):
        gfile.mkdir(top)
    gfile.rmtree(top)
    assert not gfile.exists(top)


def test_copies_and_names_take_no_file_away_unasked(tmp_path):
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    for name in (one, other):
        with gfile.GFile(name, "w") as file:
            file.write(name)
    for move in (gfile.copy, gfile.rename):
        with pytest.raises(tf.errors.AlreadyExistsError):
            move(one, other)
    gfile.copy(one, other, overwrite=True)
    with gfile.GFile(other) as file:
        assert file.read() == one
    gfile.rename(one, other, overwrite=True)
    assert gfile.glob(str(tmp_path / "o*")) == [other]
