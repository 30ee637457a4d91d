"""The ops that programs use are there: all of the tiers A and B, of C more than half."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tideflow.v1  # noqa: F401  defines the ops
from tideflow.graph.op_def import registered_ops

TIERS = json.loads(Path(__file__).with_name("op_tiers.json").read_text())


@pytest.mark.parametrize("tier", ["A", "B"])
def test_every_op_of_the_tier_is_there(tier: str) -> None:
    assert set(TIERS[tier]) <= set(registered_ops())


def test_at_least_half_of_the_rare_ops_are_there() -> None:
    rare = set(TIERS["C"])
    assert len(rare & set(registered_ops())) >= len(rare) / 2


def test_what_rewriting_makes_is_there() -> None:
    assert set(TIERS["W"]) <= set(registered_ops())
