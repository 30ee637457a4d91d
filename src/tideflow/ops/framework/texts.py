"""Text as bytes, and bytes as text: `tf.compat.as_bytes` and its like.

Source: tensorflow/python/util/compat.py.
"""

from __future__ import annotations

import os
import re
from typing import Any

from tideflow.ops.export import export, export_value


@export("compat.as_bytes")
def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return bytes for bytes or text.  Raises: TypeError for anything else."""
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


@export("compat.as_text")
def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return text for bytes or text.  Raises: TypeError for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


@export("compat.as_str_any")
def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return text for bytes; str(value) for anything else."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


@export("compat.path_to_str")
def path_to_str(path: Any) -> Any:
    """Return the text of a path object; anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


export_value("compat.as_str", as_text)


def snake_case(name: str) -> str:
    """Return the name of a class as TensorFlow writes it in scopes: `GRUCell` as `gru_cell`."""
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()
