"""Names that are loaded later: shown at once, imported when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tideflow.ops.later import V1, V2, load, names_later, read_table

_LOADED = """
import sys
import {door} as tf
from tideflow.ops.later import V1, V2, names_later
shown = names_later("{shape}")
tf.Graph
assert all(name in dir(tf) for name in shown if "." not in name)
print(*sorted(set(shown.values()) & set(sys.modules)))
"""


def test_a_table_says_which_module_has_a_name() -> None:
    lines = ["[a.b]  # a family", ".: x y", "1 nn.cells: z", "", "[c]", "2 linalg: w"]
    both = {"x": "a.b", "y": "a.b"}
    assert read_table(lines) == {V1: {**both, "nn.cells.z": "a.b"}, V2: {**both, "linalg.w": "c"}}


@pytest.mark.parametrize("lines", [["[a]", "x y"], ["3 nn: x"]])
def test_a_line_that_is_none_of_a_table_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="names without a module or a namespace"):
        read_table(lines)


@pytest.mark.parametrize("shape", [V1, V2])
def test_each_name_of_the_table_is_found(shape: str) -> None:
    missing = []
    for path in names_later(shape):
        try:
            load(shape, path)
        except AttributeError:
            missing.append(path)
    assert missing == []


def test_a_name_of_no_table_is_refused_as_modules_do() -> None:
    with pytest.raises(AttributeError, match=r"module 'tf.nn' has no attribute 'sofmax'"):
        load(V1, "nn.sofmax")


@pytest.mark.processes
@pytest.mark.parametrize(("door", "shape"), [("tideflow.v1", V1), ("tideflow", V2)])
def test_a_front_door_shows_names_that_it_does_not_load(door: str, shape: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(door=door, shape=shape)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    # What the TF2 shape's own code needs, or the graph's, is no family that few use.
    own = {"tideflow.graph.tensor_spec", "tideflow.graph.type_spec"}
    assert loaded <= own
