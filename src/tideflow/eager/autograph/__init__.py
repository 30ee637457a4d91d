"""AutoGraph: Python's branches, loops and operators turned into ops of a traced function."""

from __future__ import annotations
