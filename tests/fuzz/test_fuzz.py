"""Damaged bytes are taken, or refused with an OpError; `make fuzz` tries more of them."""

from __future__ import annotations

import pytest

from fuzz.run import CORPUS, drawn, tried
from fuzz.targets import TARGETS

# How many are tried here of those that take longer.
_COUNTS = {"records": 20, "bundle_index": 20, "bundle_data": 20, "slices": 30, "calls": 100}


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_bytes(name: str) -> None:
    target = TARGETS[name]()
    kept = [file.read_bytes() for file in sorted((CORPUS / name).glob("*"))]
    new = (drawn(name, target, seed) for seed in range(_COUNTS.get(name, 300)))
    for data in (*kept, *new):
        found = tried(name, target, data)
        assert found is None, found
