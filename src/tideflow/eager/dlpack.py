"""Tensors handed to other libraries, and taken from them, by DLPack's capsules.

Source: https://dmlc.github.io/dlpack.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export_v2

_CPU = (1, 0)


class _Capsule:
    """A capsule as the protocol's object, which NumPy wants."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


@export_v2("experimental.dlpack.to_dlpack")
def to_dlpack(tf_tensor: Any) -> Any:
    """Return a capsule over a copy of an eager tensor's value."""
    return tf_tensor.__dlpack__()


@export_v2("experimental.dlpack.from_dlpack")
def from_dlpack(dlcapsule: Any) -> Tensor:
    """Return the tensor that a capsule holds in the memory of the CPU."""
    return convert_to_tensor(np.from_dlpack(_Capsule(dlcapsule)))
