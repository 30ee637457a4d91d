"""Datasets are saved and loaded with the structure of their elements."""

from __future__ import annotations

from collections import namedtuple

import pytest

import tideflow as tf
from shown_values import elements

Data = tf.data.Dataset
Pair = namedtuple("Pair", ["first", "second"])


def varied(tf):
    """Return a dataset whose elements have parts of all kinds that files hold."""

    def made(n):
        thin = tf.SparseTensor([[0, 0]], tf.reshape(n, [1]), [1, 2])
        pair = Pair(n, (tf.fill([n], "x"), [n, n]))
        return {"p": pair, "r": tf.ragged.range([n, 2]), "s": thin}

    return tf.data.Dataset.range(1, 4).map(made)


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_what_was_saved_is_loaded(tmp_path, compression):
    data = varied(tf)
    data.save(str(tmp_path), compression)
    loaded = Data.load(str(tmp_path), compression=compression)
    assert str(elements(loaded)) == str(elements(data))
    assert repr(loaded.element_spec["s"]) == repr(data.element_spec["s"])
    assert type(loaded.element_spec["p"]).__name__ == "Pair"
    assert len(loaded) == 3
    given = Data.load(str(tmp_path), data.element_spec, compression)
    assert given.element_spec == data.element_spec


def test_shards_are_put_together(tmp_path):
    Data.range(6).save(str(tmp_path), shard_func=lambda x: x % 2)
    joined = Data.load(str(tmp_path), reader_func=lambda shards: shards.flat_map(lambda d: d))
    assert [int(x) for x in joined] == [0, 2, 4, 1, 3, 5]
    assert sorted(int(x) for x in Data.load(str(tmp_path))) == list(range(6))


def test_what_is_not_there_and_what_reads_nothing(tmp_path):
    with pytest.raises(tf.errors.NotFoundError):
        Data.load(str(tmp_path / "none"))
    Data.range(2).save(str(tmp_path))
    with pytest.raises(TypeError, match="reader_func"):
        Data.load(str(tmp_path), reader_func=lambda shards: 3)
