"""tf.logging: messages on standard error, by absl."""

from __future__ import annotations

import logging as _standard
from typing import Any

from absl import logging as _absl

DEBUG = 10
INFO = 20
WARN = 30
ERROR = 40
FATAL = 50

# absl counts the other way round: from FATAL, -3, to DEBUG, 1.
_TO_ABSL = {
    DEBUG: _absl.DEBUG,
    INFO: _absl.INFO,
    WARN: _absl.WARNING,
    ERROR: _absl.ERROR,
    FATAL: _absl.FATAL,
}
_FROM_ABSL = {theirs: ours for ours, theirs in _TO_ABSL.items()}

debug = _absl.debug
info = _absl.info
warn = _absl.warning
warning = _absl.warning
error = _absl.error
fatal = _absl.fatal
flush = _absl.flush


def TaskLevelStatusMessage(msg: str) -> None:
    """Log an error."""
    error(msg)


def log(level: int, msg: str, *args: Any) -> None:
    """Log a message at one of DEBUG, INFO, WARN, ERROR, FATAL."""
    _absl.log(_TO_ABSL[level], msg, *args)


def vlog(level: int, msg: str, *args: Any) -> None:
    """Log a message for those who look closely: level 1 is DEBUG, higher is more detailed."""
    _absl.vlog(level, msg, *args)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first and then each n-th of the calls from one line."""
    _absl.log_every_n(_TO_ABSL[level], msg, n, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first n of the calls from one line."""
    _absl.log_first_n(_TO_ABSL[level], msg, n, *args)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Log a message if the condition holds."""
    if condition:
        log(level, msg, *args)


def get_verbosity() -> int:
    """Return the least level that is logged."""
    return _FROM_ABSL.get(_absl.get_verbosity(), INFO)


def set_verbosity(v: int) -> None:
    """Log messages of this level and above: one of DEBUG, INFO, WARN, ERROR, FATAL."""
    if not _standard.root.handlers:
        # Without any handler Python shows warnings only.
        _absl.use_absl_handler()
    _absl.set_verbosity(_TO_ABSL[v])


# Messages carry, and "every n" counts by, the line that called these functions.
for _function in (log, vlog, log_every_n, log_first_n, log_if):
    _absl.ABSLLogger.register_frame_to_skip(__file__, _function.__name__)
