"""Small programs of the TF2 shape give what TensorFlow gave: values, text and classes of errors.

`behaviours/expected.json` holds what TensorFlow gives; `behaviours/differences.txt` the places in
it that differ here, and why.  A line there that has come to agree must go.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from eager.behaviours import registry

registry.load()


@functools.cache
def found() -> dict[str, Any]:
    return registry.in_process("tideflow")


@pytest.mark.parametrize("name", registry.PROGRAMS)
def test_a_program_gives_what_tensorflow_gave(name: str) -> None:
    differing = registry.differing(registry.expected()[name], found()[name], name)
    listed = {at for at in registry.differences() if at.partition(" ")[0] == name}
    assert sorted(set(differing) - listed) == []
    assert sorted(listed - set(differing)) == []


def test_each_difference_is_of_a_program_and_says_why() -> None:
    names = {at.partition(" ")[0] for at in registry.differences()}
    assert names <= set(registry.PROGRAMS)
    assert all(registry.differences().values())
