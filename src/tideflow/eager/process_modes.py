"""Modes of the process that TensorFlow has and that change little or nothing here.

Source: tensorflow/python/framework/strict_mode.py, load_library.py, eager/context.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tideflow.ops.export import export
from tideflow.wire import errors


@export("experimental.enable_strict_mode")
def enable_strict_mode() -> None:
    """Have warnings of deprecated functions raised as errors: none are given here."""


@export("experimental.function_executor_type")
@contextmanager
def function_executor_type(executor_type: str | None) -> Iterator[None]:
    """Let functions run on one of TensorFlow's executors inside `with`: here all have one."""
    yield


@export("experimental.register_filesystem_plugin")
def register_filesystem_plugin(plugin_location: str) -> None:
    """Refuse a plugin for files, which is made for TensorFlow's own library.

    Raises: UnimplementedError.
    """
    raise errors.UnimplementedError(
        f"{plugin_location!r} is a plugin of TensorFlow's C interface for file systems, which "
        "tideflow cannot load; mount the file system, or copy the files to one that is mounted"
    )
