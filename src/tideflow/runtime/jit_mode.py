"""When regions are compiled: the session's option.

never   NumPy alone
auto    NumPy at first; programs that take long enough in all are compiled in the background, and
        their regions kept where they are faster
always  regions are compiled when they first run
"""

from __future__ import annotations

import enum

from tideflow.platform.settings import Settings, process_settings
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


def jit_mode(options: pb.GraphOptions | None = None, settings: Settings | None = None) -> JitMode:
    """Return the mode that settings, or else a session's options, ask for.

    settings: the process's by default.
    """
    settings = settings or process_settings()
    if settings.jit is not None:
        return JitMode(settings.jit)
    level = options.optimizer_options.global_jit_level if options is not None else 0
    return _LEVELS.get(level, DEFAULT_MODE)
