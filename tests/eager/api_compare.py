"""What an expression gives, in a form that compares across libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def outcome(expression: str, tf: Any) -> Any:
    """Evaluate an expression in `tf` and `np`.

    Returns: nested lists of ("tensor", dtype, array), plain values, or ("error", class name).
    """
    try:
        found = eval(expression, {"tf": tf, "np": np})
    except Exception as error:
        return ("error", type(error).__name__, str(error)[:200])
    return plain(found)


def plain(value: Any) -> Any:
    """Return a value without objects of a library."""
    if isinstance(value, np.ndarray | np.generic):
        return ("array", value.dtype.name, np.asarray(value))
    if hasattr(value, "to_list") and hasattr(value, "row_splits"):
        return ("ragged", value.dtype.name, value.shape.as_list(), value.to_list())
    if hasattr(value, "numpy") and hasattr(value, "shape") and hasattr(value, "dtype"):
        array = np.asarray(value.numpy())
        return ("tensor", value.dtype.name, array)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, type):
        return ("type", value.__name__)
    if hasattr(value, "as_list"):
        return ("shape", value.as_list())
    return ("object",)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two outcomes are the same; floats to within rounding."""
    if isinstance(theirs, tuple) and theirs and theirs[0] == "error":
        return isinstance(ours, tuple) and ours[:2] == theirs[:2]
    if isinstance(theirs, tuple) and theirs and theirs[0] in ("tensor", "array"):
        if not isinstance(ours, tuple) or ours[:2] != theirs[:2]:
            return False
        a, b = ours[2], theirs[2]
        if a.shape != b.shape:
            return False
        if (a.dtype.kind in "fcV" and a.dtype.kind != "V") or a.dtype.name == "bfloat16":
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            tolerance = 1e-2 if a.dtype.itemsize == 2 else 2e-5
            return np.allclose(
                a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True
            )
        return bool(np.array_equal(a, b))
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in theirs)
    return bool(ours == theirs)


def families() -> dict[str, list[str]]:
    """Return the expressions to compare by family: the lines of api_calls/<family>.txt."""
    folder = Path(__file__).parent / "api_calls"
    return {path.stem: path.read_text().splitlines() for path in sorted(folder.glob("*.txt"))}
