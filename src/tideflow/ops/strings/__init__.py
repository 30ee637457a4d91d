"""Strings: splitting, joining, formatting, hashes, regular expressions, Unicode."""

from __future__ import annotations

from tideflow.ops.strings.strings import encoded, scalar_string

__all__ = [
    "encoded",
    "scalar_string",
]
