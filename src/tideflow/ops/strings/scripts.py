"""The scripts that characters belong to.

`unicode_scripts.txt` holds runs of code points of one script, each as `step:script`: how far the
run begins behind the one before it, in hexadecimal, and the number that ICU gives the script.

Source: Unicode's property "Script", numbered as by ICU (UScriptCode), of the version of TensorFlow
2.21.
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export

_PACKAGE = "tideflow.ops.strings"
_NONE = -1  # of what is no code point


@functools.cache
def _runs() -> tuple[Any, Any]:
    """Return where runs of one script begin, and their scripts."""
    text = importlib.resources.files(_PACKAGE).joinpath("unicode_scripts.txt").read_text()
    runs = [word.split(":") for word in text.split()]
    starts = np.cumsum([int(step, 16) for step, _ in runs])
    scripts = np.array([int(script) for _, script in runs], np.int32)
    return np.append(starts, 0x110000), np.append(scripts, np.int32(_NONE))


@op("UnicodeScript(input: int32) -> output: int32", shape=same_as(0))
def unicode_script_kernel(ctx: KernelContext, x: Array) -> Any:
    """Return the number of the script of each code point; -1 for what is none."""
    starts, scripts = _runs()
    found = scripts[np.searchsorted(starts, x, side="right") - 1]
    return np.where(x < 0, np.int32(_NONE), found)


not_differentiable("UnicodeScript")


@export("strings.unicode_script")
def unicode_script(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the number that ICU gives the script of each code point; -1 for what is none."""
    made: Tensor = apply_op("UnicodeScript", input, name=name)
    return made
