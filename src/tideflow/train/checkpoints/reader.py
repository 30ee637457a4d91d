"""Look into checkpoints without a graph.

Source: tensorflow/python/training/py_checkpoint_reader.py, checkpoint_utils.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from tideflow import logging
from tideflow.formats import open_checkpoint
from tideflow.ops.export import export
from tideflow.platform import clock
from tideflow.train.checkpoints.state import latest_checkpoint
from tideflow.wire.dtypes import DType


@export("train.NewCheckpointReader")
class CheckpointReader:
    """Reads the tensors of a checkpoint, given its prefix.

    Raises: NotFoundError where there is none; DataLossError for a damaged one.
    """

    def __init__(self, filepattern: Any) -> None:
        self._reader = open_checkpoint(os.fspath(filepattern))

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shapes of all tensors by their names."""
        return {name: list(self._reader.describe(name)[1]) for name in self._reader.names()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the element types of all tensors by their names."""
        return {name: self._reader.describe(name)[0] for name in self._reader.names()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a tensor of this name."""
        return tensor_str in self._reader

    def get_tensor(self, tensor_str: str) -> Any:
        """Return a tensor as an array; a single string as bytes.

        Raises: NotFoundError; DataLossError for damaged bytes.
        """
        with self._reader as reader:
            found = reader.read(tensor_str)
        return found.item() if found.dtype == object and not found.shape else found

    def debug_string(self) -> bytes:
        """Return a list of the tensors, one a line, for people."""
        lines = []
        for name in self._reader.names():
            dtype, shape = self._reader.describe(name)
            lines.append(f"{name} (DT_{dtype.name.upper()}) {list(shape)}\n")
        return "".join(lines).encode()


@export("train.load_checkpoint")
def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """Return a reader of a checkpoint, or of the latest one of a directory.

    Raises: ValueError for a directory without one; as CheckpointReader.
    """
    return CheckpointReader(checkpoint_prefix(ckpt_dir_or_file))


def checkpoint_prefix(ckpt_dir_or_file: Any) -> str:
    """Return the prefix that is meant by a prefix or a directory.

    Raises: ValueError for a directory without a checkpoint.
    """
    given: str = os.fspath(ckpt_dir_or_file)
    if not os.path.isdir(given):
        return given
    found = latest_checkpoint(given)
    if found is None:
        raise ValueError(
            f"Couldn't find 'checkpoint' file or checkpoints in given directory {given}"
        )
    return found


@export("train.load_variable")
def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """Return a tensor of a checkpoint as an array; `name:0` means `name`."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


@export("train.list_variables")
def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Return the names and shapes of a checkpoint's tensors, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


@export("train.checkpoints_iterator")
def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yield the checkpoints of a directory as they come, the latest each time.

    Args:
      min_interval_secs: yield no two within so many seconds.
      timeout: how many seconds to wait for one; None waits for ever.
      timeout_fn: called when that time is over; the iterator ends where it returns true, and
        without it.
    """
    path: str | None = None
    while True:
        new = _wait_for_new(os.fspath(checkpoint_dir), path, timeout)
        if new is None:
            if timeout_fn is None:
                logging.info("no new checkpoint in %s for %s seconds", checkpoint_dir, timeout)
                return
            if timeout_fn():
                return
            continue
        started = clock.monotonic_s()
        path = new
        yield new
        clock.sleep(max(0.0, started + min_interval_secs - clock.monotonic_s()))


_POLL_S = 1.0


def _wait_for_new(directory: str, last: str | None, timeout_s: float | None) -> str | None:
    """Return the latest checkpoint once it is another one than last, None when time is over."""
    stop = None if timeout_s is None else clock.monotonic_s() + timeout_s
    while True:
        found = latest_checkpoint(directory)
        if found is not None and found != last:
            return found
        if stop is not None and clock.monotonic_s() + _POLL_S > stop:
            return None
        clock.sleep(_POLL_S)
