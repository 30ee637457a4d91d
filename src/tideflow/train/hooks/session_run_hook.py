"""Hooks: what a program adds to each run of a monitored session.

Order of calls: all begin, once; a session is made; all after_create_session, for each session;
for each run all before_run, one Session.run, all after_run; all end, unless an exception ended it.

Source: tensorflow/python/training/session_run_hook.py for names and the order of calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tideflow.client.session import Session
from tideflow.ops.export import export
from tideflow.train.threads import Coordinator
from tideflow.wire import messages as pb


@export("train.SessionRunArgs")
class SessionRunArgs(NamedTuple):
    """What a hook asks for: values fetched, fed and traced with the user's own.

    Attributes:
      fetches: a tensor, operation, name or variable, or any nesting of these, or None.
      feed_dict: values in the place of tensors; a tensor may be fed once in a run.
      options: a RunOptions; those of all hooks and the user are merged, the larger value wins.
    """

    fetches: Any
    feed_dict: Any = None
    options: pb.RunOptions | None = None


@export("train.SessionRunValues")
class SessionRunValues(NamedTuple):
    """What a hook gets after a run.

    Attributes:
      results: values in the shape of the fetches that before_run asked for; None without any.
      options: the RunOptions of the run.
      run_metadata: the RunMetadata of the run.
    """

    results: Any
    options: pb.RunOptions
    run_metadata: pb.RunMetadata


@export("train.SessionRunContext")
class SessionRunContext:
    """One run, as hooks see it."""

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """What the user asked for."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session that makes the run; hooks may make further runs in it, unobserved."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook asked to stop."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Have the monitored session's should_stop answer True after this run."""
        self._stop_requested = True


@export("train.SessionRunHook")
class SessionRunHook:
    """Base of hooks; override what is needed.

    An exception of any method ends the run, as one of Session.run does.
    """

    def begin(self) -> None:
        """Called once, before a session is made; the graph may still be changed."""

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Called for each new session, also those made after a failure; the graph is final."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run; returns what to fetch and feed with it, or None."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that ended without an error."""

    def end(self, session: Session) -> None:
        """Called at the end, unless an exception other than the input's end caused it."""
