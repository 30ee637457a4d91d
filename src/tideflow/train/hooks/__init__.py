"""Hooks of monitored sessions: checkpoints, logging, summaries, profiles, ends of training."""

from __future__ import annotations

from tideflow.train.hooks.checkpoint_saver_hook import CheckpointSaverHook
from tideflow.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tideflow.train.hooks.summary_hooks import StepCounterHook, SummarySaverHook

__all__ = [
    "CheckpointSaverHook",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "SummarySaverHook",
]
