"""The tables of names: what TensorFlow has, and what stands for it."""

from __future__ import annotations

import pytest
from tools.tensorflow_names import counts, installed, recorded_file, table, total

from tideflow.as_tensorflow.names import (
    V1,
    V2,
    Own,
    Public,
    of_libraries,
    public_names,
    read_library,
    read_recorded,
    recorded,
    write_recorded,
)
from tideflow.as_tensorflow.sources import is_there
from tideflow.eager.eager_graph import disable_eager_execution

# Importing the TF2 shape has made operations eager, and all tests may share a process.
disable_eager_execution()


def test_a_table_of_public_names_is_read_as_it_was_written() -> None:
    given = {
        "tensorflow.python.a": {
            "f": {Public(V1, "f"), Public(V2, "f"), Public(V1, "math.f")},
            "f_v2": {Public(V2, "math.f")},
        }
    }
    lines = write_recorded(given)
    assert lines == ["[tensorflow.python.a]", "f f 1:math.f", "f_v2 2:math.f"]
    found = read_recorded(["# a comment", *lines])
    assert {a: set(t) for a, t in found["tensorflow.python.a"].names.items()} == given[
        "tensorflow.python.a"
    ]


def test_a_table_for_libraries_says_what_stands_for_names() -> None:
    found = read_library(
        ["[tensorflow.python.a]", "x tf.x", "* inspect", "y m.n:y", "[tensorflow.b]"]
    )
    assert found["tensorflow.python.a"].names == {"x": (Public(V2, "x"),), "y": (Own("m.n", "y"),)}
    assert found["tensorflow.python.a"].others == ["inspect"]
    assert found["tensorflow.b"].names == {}


def test_what_the_tables_say_stands_for_a_name_is_there() -> None:
    missing = [
        f"{module}.{name}"
        for module, known in of_libraries().items()
        for name, targets in known.names.items()
        if not all(is_there(target) for target in targets)
    ]
    assert missing == []


def test_most_public_names_are_there() -> None:
    assert len(public_names()) > 3500
    assert "tensorflow.python.ops.math_ops" in recorded()
    for shape, least in ((V2, 0.5), (V1, 0.6)):
        found = total(shape)
        assert len(found.lacking) < (1 - least) * found.wanted
    assert counts(V2)["bitwise"].lacking == []


@pytest.mark.tensorflow
def test_the_recorded_names_are_those_of_the_installed_tensorflow() -> None:
    assert table(installed()) == recorded_file().read_text().splitlines()
