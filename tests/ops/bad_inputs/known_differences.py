"""Where mutated calls end otherwise than on TensorFlow: known_differences.toml.

Each of its entries says why, and lists the mutations by the name of the call or program.  They run
with all others: one that has come to agree must go from the list.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path


@functools.cache
def _by_name() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["difference"]
    for entry in entries:
        for name, mutations in entry["calls"].items():
            of_name = found.setdefault(name, {})
            for what in mutations:
                assert what not in of_name, f"{name}: {what} is listed twice"
                of_name[what] = entry["why"]
    return found


def known_differences(name: str) -> dict[str, str]:
    """Return why mutations of a call or program end otherwise here, by the mutation's name."""
    return _by_name().get(name, {})


def names_with_differences() -> set[str]:
    """Return the names of the calls and programs of which some mutation differs."""
    return set(_by_name())
