"""CheckpointManager: number checkpoints of objects, keep some, delete the others.

Source: tensorflow/python/checkpoint/checkpoint_management.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tideflow import logging
from tideflow.graph.graph import get_default_session
from tideflow.ops.export import export
from tideflow.platform import clock
from tideflow.train.checkpoints.checkpoint import Checkpoint
from tideflow.train.checkpoints.state import (
    get_checkpoint_state,
    remove_bundle,
    write_checkpoint_state,
)


@export("train.CheckpointManager")
class CheckpointManager:
    """Saves a Checkpoint again and again into one directory.

    Args:
      max_to_keep: how many stay; None keeps all.
      keep_checkpoint_every_n_hours: besides these, one of each so many hours stays.
      checkpoint_name: the files are `<directory>/<checkpoint_name>-<number>`.
      step_counter, checkpoint_interval: save only when the step has grown so far.
      init_fn: called by restore_or_initialize where there is no checkpoint.
    Raises: ValueError for a max_to_keep below 1, or an interval without a counter.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep is {max_to_keep}; it must be None or at least 1")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("checkpoint_interval counts steps: give step_counter, too")
        self._checkpoint = checkpoint
        self._directory: str = os.fspath(directory)
        self._max_to_keep = max_to_keep
        self._every_s = (keep_checkpoint_every_n_hours or 0) * 3600
        self._prefix = os.path.join(self._directory, checkpoint_name)
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._init_fn = init_fn
        self._last_step = last_checkpoint_step
        # Those that may be deleted one day, oldest first, with when they were written.
        self._kept: dict[str, float] = {}
        self._latest: str | None = None
        self._recover()

    def _recover(self) -> None:
        now = clock.wall_s()
        state_pb = get_checkpoint_state(self._directory)
        if state_pb is None:
            self._preserved_at = now - 1.0
            return
        self._latest = state_pb.model_checkpoint_path
        self._preserved_at = state_pb.last_preserved_timestamp
        if now < self._preserved_at:
            logging.warning(
                "the clock is %.0f seconds behind the last checkpoint's", self._preserved_at - now
            )
            self._preserved_at = now
        paths = list(state_pb.all_model_checkpoint_paths)
        times = list(state_pb.all_model_checkpoint_timestamps) or [self._preserved_at] * len(paths)
        for path, at in zip(paths, times):
            if min(at, now) > self._preserved_at:
                self._kept[path] = min(at, now)

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """How far the step must have grown between two checkpoints."""
        return self._interval

    @property
    def latest_checkpoint(self) -> str | None:
        """The latest checkpoint, None where there is none."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """The checkpoints that are kept, oldest first."""
        return list(self._kept)

    def save(
        self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None
    ) -> str | None:
        """Save with the next number, or the one given; None where the interval is not over.

        In a graph the default session is used.
        """
        if self._interval is not None:
            step = _number(self._step_counter)
            if self._last_step is not None and (
                step == self._last_step
                or (check_interval and step < self._last_step + self._interval)
            ):
                return None
            self._last_step = step
        number = self._checkpoint._next_number(None)
        if checkpoint_number is not None:
            number = _number(checkpoint_number)
        path = self._checkpoint.write(f"{self._prefix}-{number}")
        self._kept.pop(path, None)
        self._kept[path] = clock.wall_s()
        self._latest = path
        # Before and after the deletion: whoever is cut short between finds the new one.
        self._record()
        self._sweep()
        self._record()
        return path

    def _record(self) -> None:
        assert self._latest is not None
        write_checkpoint_state(
            self._directory,
            self._latest,
            list(self._kept),
            save_relative_paths=True,
            all_model_checkpoint_timestamps=list(self._kept.values()),
            last_preserved_timestamp=self._preserved_at,
        )

    def _sweep(self) -> None:
        while self._max_to_keep and len(self._kept) > self._max_to_keep:
            path = next(iter(self._kept))
            at = self._kept.pop(path)
            if self._every_s and at - self._every_s >= self._preserved_at:
                self._preserved_at = at
                continue
            remove_bundle(path)

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return it, or call init_fn and return None."""
        if self._latest is not None:
            self._checkpoint.restore(self._latest).initialize_or_restore()
            if self._interval is not None:
                self._last_step = _number(self._step_counter)
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None


def _number(given: Any) -> int:
    if isinstance(given, int):
        return given
    session = get_default_session()
    return int(given if session is None else session.run(given))
