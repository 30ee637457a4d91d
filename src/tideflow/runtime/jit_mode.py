"""When regions are compiled: the session's option.

never   NumPy alone
auto    NumPy at first; programs that take long enough in all are compiled in the background, and
        their regions kept where they are faster
always  regions are compiled when they first run
"""

from __future__ import annotations

import enum
import os

from tideflow.wire import errors
from tideflow.wire import messages as pb


class JitMode(enum.Enum):
    """When regions are compiled (see the module's text)."""

    NEVER = "never"
    AUTO = "auto"
    ALWAYS = "always"


DEFAULT_MODE = JitMode.AUTO
_LEVELS = {
    pb.OptimizerOptions.OFF: JitMode.NEVER,
    pb.OptimizerOptions.ON_1: JitMode.AUTO,
    pb.OptimizerOptions.ON_2: JitMode.ALWAYS,
}


def jit_mode(options: pb.GraphOptions | None = None) -> JitMode:
    """Return the mode that the environment (TIDEFLOW_JIT), or else a session's options, ask for.

    Raises: InvalidArgumentError for an unknown word in TIDEFLOW_JIT.
    """
    word = os.environ.get("TIDEFLOW_JIT", "")
    if word:
        try:
            return JitMode(word.lower())
        except ValueError:
            known = ", ".join(mode.value for mode in JitMode)
            raise errors.InvalidArgumentError(
                f"TIDEFLOW_JIT is {word!r}; it must be one of {known}"
            ) from None
    level = options.optimizer_options.global_jit_level if options is not None else 0
    return _LEVELS.get(level, DEFAULT_MODE)
