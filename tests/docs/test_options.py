"""The page on options leaves none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tideflow.wire import messages as pb

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
MESSAGES = [
    pb.ConfigProto,
    pb.ConfigProto.Experimental,
    pb.GraphOptions,
    pb.OptimizerOptions,
    pb.RunOptions,
    pb.RunOptions.Experimental,
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.DESCRIPTOR.full_name)
def test_each_field_is_named(message: type[pb.ConfigProto]) -> None:
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", PAGE.read_text()))))
    fields = {field.name for field in message.DESCRIPTOR.fields}
    assert fields - named == set()
