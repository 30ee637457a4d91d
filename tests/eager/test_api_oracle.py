"""Calls of the TF2-shaped API give what TensorFlow gives: values, types and classes of errors.

A line of api_calls/<family>.txt is one case.  Those of api_differences.txt differ, or are missing
here, for the reason behind them; a line there that has come to agree must go.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path

import pytest

import tideflow as ours
from eager import api_compare

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

_LINES = Path(__file__).with_name("api_differences.txt").read_text().splitlines()
DIFFERENCES = frozenset(line.partition("  # ")[0] for line in _LINES)
FAMILIES = api_compare.families()


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_give_what_tensorflow_gives(family: str) -> None:
    differing = set()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for call in FAMILIES[family]:
            mine = api_compare.outcome(call, ours)
            if not api_compare.same(mine, api_compare.outcome(call, theirs)):
                differing.add(call)
    expected = DIFFERENCES & set(FAMILIES[family])
    assert sorted(differing - expected) == []
    assert sorted(expected - differing) == []


def test_each_difference_is_of_a_call_that_is_made_and_says_why() -> None:
    assert not DIFFERENCES.difference(*FAMILIES.values())
    assert all(line.partition("  # ")[2] for line in _LINES)
