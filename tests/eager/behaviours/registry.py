"""The small programs of the TF2 shape."""

from __future__ import annotations

from recorded_programs import Collection, error

__all__ = ["COLLECTION", "error", "program"]

COLLECTION = Collection("eager.behaviours", apart=("numpy_",))
program = COLLECTION.add
