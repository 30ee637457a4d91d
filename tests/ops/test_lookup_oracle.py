"""The same programs with lookup tables under tideflow and under TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
theirs = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow


def make(tf, name, inputs, **attrs):
    if tf is ours:
        return apply_op(name, *inputs.values(), **attrs)
    return getattr(tensorflow.raw_ops, name)(**inputs, **attrs)


class Table:
    """A table in either framework."""

    def __init__(self, tf, run, kind, keys="string", values="int64", **attrs):
        self.tf, self._run = tf, run
        self.types = {"key_dtype": keys, "value_dtype": values}
        self.handle = make(tf, kind, {}, **self.types, **attrs)

    def do(self, name, *args, **attrs):
        names = ("keys", "values") if "Find" not in name else ("keys", "default_value")
        inputs = {"table_handle": self.handle}
        inputs.update(zip(names, map(self.tf.constant, args)))
        return self._run(make(self.tf, f"LookupTable{name}V2", inputs, **attrs))

    def export(self):
        attrs = {"Tkeys": self.types["key_dtype"], "Tvalues": self.types["value_dtype"]}
        found = self.do("Export", **attrs)
        return found if isinstance(found, str) else sorted(zip(*found, strict=True))


def i64(*values):
    return np.array(values, np.int64)


def fixed(tf, run):
    t = Table(tf, run, "HashTableV2")
    yield t.do("Size")
    yield t.do("Find", ["a"], i64(-1)[0])
    yield t.export()
    yield t.do("Import", ["a", "b", "a"], i64(1, 2, 3))
    yield t.do("Import", ["a", "b", "a"], i64(1, 2, 1))
    yield t.do("Size")
    yield t.do("Find", [["a", "x"], ["b", "a"]], i64(-1)[0])
    yield t.do("Find", "b", i64(-1)[0])
    yield t.do("Find", ["a", "x"], i64(-1, -2))
    yield t.do("Import", ["a", "b"], i64(1, 2))
    yield t.do("Import", ["a", "b"], i64(1, 3))
    yield t.do("Import", ["a", "b", "c"], i64(1, 2, 3))
    yield t.do("Insert", ["c"], i64(1))
    yield t.do("Remove", ["a"])
    yield t.export()


def mutable(tf, run):
    t = Table(tf, run, "MutableHashTableV2", "int64", "float32")
    yield t.do("Size")
    yield t.do("Find", i64(1, 2), np.float32(-1))
    yield t.do("Insert", i64(1, 2, 1), np.float32([1, 2, 3]))
    yield t.do("Find", i64(1, 2, 3), np.float32(-1))
    yield t.do("Find", i64(1, 4, 3), np.float32([-1, -2, -3]))
    yield t.do("Remove", i64(1, 9))
    yield t.export()
    yield t.do("Import", i64(7), np.float32([7]))
    yield t.export()
    yield t.do("Size")
    yield t.do("Insert", i64(), np.zeros(0, np.float32))
    yield t.do("Size")


def wrong_types(tf, run):
    t = Table(tf, run, "MutableHashTableV2", "string", "int64")
    yield t.do("Insert", i64(1), i64(1))
    yield t.do("Insert", ["a"], np.float32([1]))
    yield t.do("Insert", ["a", "b"], i64(1))


def sharing(tf, run):
    for attrs in ({"shared_name": "t"}, {}):
        a = Table(tf, run, "MutableHashTableV2", **attrs)
        b = Table(tf, run, "MutableHashTableV2", **attrs)
        yield a.do("Insert", ["a"], i64(1))
        yield b.do("Size")
    yield Table(tf, run, "MutableHashTableV2", "int64", shared_name="t").do("Size")


PROGRAMS = [fixed, mutable, wrong_types, sharing]


def outcome(tf, fetch, session):
    try:
        found = session.run(fetch)
    except tf.errors.OpError as error:
        return type(error).__name__
    if isinstance(found, (list, tuple)):
        return [np.asarray(f).tolist() for f in found]
    return None if found is None else np.asarray(found).tolist()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_end_alike(program):
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:

            def run(fetch, tf=tf, session=session):
                return outcome(tf, fetch, session)

            found.append(list(program(tf, run)))
    assert found[0] == found[1]
