"""What we use of `diastatic-malt`, which rewrites the source of functions, in one place.

Its modules make no promise, so pyproject.toml bounds its version; tests/eager/test_malt_library.py
fails where another version has moved or renamed what is taken here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from malt.core import ag_ctx, converter
from malt.impl import api
from malt.impl.conversion import is_unsupported
from malt.lang import directives
from malt.operators import py_builtins
from malt.operators.function_wrappers import FunctionScope as LibraryScope
from malt.operators.variables import Undefined, UndefinedReturnValue
from malt.pyct.errors import InaccessibleSourceCodeError
from malt.pyct.inspect_utils import isbuiltin

__all__ = [
    "Feature",
    "InaccessibleSourceCodeError",
    "LibraryScope",
    "Rewriter",
    "Undefined",
    "UndefinedReturnValue",
    "converting",
    "eval_in_caller",
    "globals_of_caller",
    "is_converting_off",
    "is_unsupported",
    "isbuiltin",
    "locals_of_caller",
    "not_converting",
    "set_loop_options",
    "super_of_caller",
]

Feature = converter.Feature
# The library knows a loop's options by this very function.
set_loop_options = directives.set_loop_options
# Builtins that look at who calls them: (function, arguments, scope), or the scope alone.
eval_in_caller = py_builtins.eval_in_original_context
super_of_caller = py_builtins.super_in_original_context
globals_of_caller = py_builtins.globals_in_original_context
locals_of_caller = py_builtins.locals_in_original_context

_OPTIONS = converter.ConversionOptions(
    recursive=True,
    user_requested=True,
    # As in TensorFlow, `assert` of a tensor stays Python's, and is refused.
    optional_features=None,
)


class Rewriter(api.PyToPy):  # type: ignore[misc]
    """The library's transpiler with operators of ours.

    Args:
      operators: what converted code finds under `ag__`, beside the library's own.
    """

    def __init__(self, operators: Mapping[str, Any]) -> None:
        super().__init__()
        self._operators = operators

    def get_extra_locals(self) -> dict[str, Any]:
        """Return what converted code finds around it (called by the library)."""
        if self._extra_locals is None:
            found: dict[str, Any] = super().get_extra_locals()
            found["ag__"].__dict__.update(self._operators)
        extra: dict[str, Any] = self._extra_locals
        return extra

    def rewrite(self, function: FunctionType) -> tuple[Callable[..., Any], dict[Any, Any]]:
        """Return a function's conversion, and the user's lines by those of the made code.

        Raises: what the library raises where there is none.
        """
        made, _, lines = self.transform(function, converter.ProgramContext(options=_OPTIONS))
        return made, lines


def converting() -> Any:
    """Return a context manager in which functions that are called are converted."""
    return ag_ctx.ControlStatusCtx(ag_ctx.Status.ENABLED, _OPTIONS)


def not_converting() -> Any:
    """Return a context manager in which functions that are called run as they are written."""
    return ag_ctx.ControlStatusCtx(ag_ctx.Status.DISABLED)


def is_converting_off() -> bool:
    """Whether this thread is within `not_converting`."""
    return bool(ag_ctx.control_status_ctx().status is ag_ctx.Status.DISABLED)
