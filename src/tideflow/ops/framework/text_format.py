"""How the elements of tensors are written for people to read.

Source: tensorflow/core/framework/tensor.cc, core/platform/numbers.cc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.types import Array

_ESCAPED = re.compile(rb"[\x00-\x1f\x7f\"'\\]")
_NAMED = {b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b'"': b'\\"', b"'": b"\\'", b"\\": b"\\\\"}


def element_text(value: object, dtype: np.dtype[Any]) -> str:
    """Return an element, as Python's own value, written out.

    Numbers have as few digits as the type always holds, or else as many as tell them apart;
    complex ones are not shown.  Bytes that are no UTF-8 come as surrogates.
    """
    if isinstance(value, bytes):
        return _escaped(value).decode("utf-8", "surrogateescape")
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        few, enough = (15, 17) if dtype.itemsize == 8 else (6, 9)
        text = f"{value:.{few}g}"
        kind = np.float64 if dtype.itemsize == 8 else np.float32
        return text if kind(float(text)) == value or value != value else f"{value:.{enough}g}"
    return "?" if isinstance(value, complex) else str(value)


def _escaped(value: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: _NAMED.get(found[0]) or b"\\%03o" % ord(found[0]), value)


def summarize_value(value: Array, limit: int) -> str:
    """Return the first `limit` elements of a value in one line; all if that is negative."""
    array: Any = np.asarray(value)
    flat = array.reshape(-1)
    shown = flat[: limit if limit >= 0 else None].tolist()
    texts = [element_text(item, array.dtype) for item in shown]
    if array.ndim == 0:
        text = "".join(texts)
    else:
        text = _rows(texts, array.shape)
        if array.ndim > 1 and len(texts) < array.size:
            text += "..."
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _rows(texts: Sequence[str], shape: tuple[int, ...]) -> str:
    """Return the first elements of an array, each row in brackets."""
    if len(shape) == 1:
        return " ".join(texts) + ("..." if len(texts) < shape[0] else "")
    size = max(1, math.prod(shape[1:]))
    starts = range(0, len(texts), size)
    return "".join(f"[{_rows(texts[i : i + size], shape[1:])}]" for i in starts)
