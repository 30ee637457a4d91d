"""Sessions with hooks, which come back when a task is lost: MonitoredTrainingSession and its kin.

Closing ends within five seconds when peers do not answer.  While a session with a
CheckpointSaverHook is open in the main thread, SIGTERM ends the program with a last checkpoint
(see tideflow.train.sessions.termination).

Source: tensorflow/python/training/monitored_session.py for names, arguments and the order of calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.elements import unfinalize
from tideflow.graph.graph import Graph, get_default_graph
from tideflow.ops.export import export
from tideflow.train.hooks import (
    CheckpointSaverHook,
    SessionRunHook,
    StepCounterHook,
    SummarySaverHook,
)
from tideflow.train.sessions.scaffold import Scaffold
from tideflow.train.sessions.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from tideflow.train.sessions.session_layers import (
    CoordinatedSession,
    CoordinatedSessionCreator,
    RecoverableSession,
)
from tideflow.train.sessions.termination import Terminated, TerminationHandler
from tideflow.wire import errors
from tideflow.wire import messages as pb

_USE_DEFAULT: Final[Any] = object()


class StepContext:
    """What a function given to run_step_fn works with."""

    def __init__(self, session: Session, run_with_hooks_fn: Callable[..., Any]) -> None:
        self._session = session
        self._run_with_hooks_fn = run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The Session, whose runs hooks do not see."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step as MonitoredSession.run does; see there."""
        return self._run_with_hooks_fn(*args, **kwargs)

    def request_stop(self) -> None:
        """End the loop around the function.  Raises: StopIteration, always."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _MonitoredSession:
    """What all monitored sessions share."""

    StepContext = StepContext
    # So that start_queue_runners leaves a session alone that starts its own.
    starts_queue_runners = True

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Sequence[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph_was_finalized = get_default_graph().finalized
        self._hooks = list(hooks or ())
        for hook in self._hooks:
            hook.begin()
        self._savers = [hook for hook in self._hooks if isinstance(hook, CheckpointSaverHook)]
        self._is_saved = False
        self._termination = TerminationHandler() if self._savers else None
        self._creator = CoordinatedSessionCreator(
            session_creator or ChiefSessionCreator(), self._hooks, stop_grace_period_secs
        )
        self._session: RecoverableSession | CoordinatedSession | None = None
        try:
            if should_recover:
                self._session = RecoverableSession(self._creator)
            else:
                self._session = self._creator.create_session()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Let go of what __init__ took, when there will be nothing to close."""
        if self._creator.current is not None:
            self._creator.current.closer.close()
            self._creator.current = None
        self._release()

    def _release(self) -> None:
        for hook in self._savers:
            hook.release()
        if not self._graph_was_finalized:
            unfinalize(get_default_graph())
        if self._termination is not None:
            self._termination.restore()

    @property
    def graph(self) -> Graph | None:
        """The graph whose parts are run; None once closed."""
        raw = self._raw()
        return None if raw is None else raw.graph

    def _raw(self) -> Any:
        return None if self._creator.current is None else self._creator.current.raw

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: pb.RunOptions | None = None,
        run_metadata: pb.RunMetadata | None = None,
    ) -> Any:
        """Run one step, with the hooks; see Session.run.

        Raises: RuntimeError once closed, or after a hook asked to stop.
        """
        session = self._open()
        try:
            return session.run(
                fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata
            )
        except Terminated:
            self._save_last()
            raise

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call step_fn(step_context), which may run several steps; return what it returns.

        It is called again when a task is lost within.
        Raises: ValueError for a function of other arguments.
        """
        names = tuple(inspect.signature(step_fn).parameters)
        if names not in (("step_context",), ("self", "step_context")):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and "
                "`step_context` arguments if it's an instance method. Got "
                f"{names} instead."
            )
        session = self._open()
        try:
            return session.run_step_fn(lambda run: step_fn(StepContext(self._raw(), run)))
        except Terminated:
            self._save_last()
            raise

    def _open(self) -> RecoverableSession | CoordinatedSession:
        if self._session is None:
            raise RuntimeError("Session is already closed.")
        return self._session

    def should_stop(self) -> bool:
        """Whether a hook or thread asked to stop, or the session is closed."""
        return self._session is None or self._session.should_stop()

    def close(self) -> None:
        """End hooks, threads and session.  Raises: RuntimeError when it is closed already."""
        self._close(None)

    def __enter__(self) -> _MonitoredSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if kind in (errors.OutOfRangeError, StopIteration):
            kind = None
        self._close(kind)
        return kind is None

    def _close(self, kind: type[BaseException] | None) -> None:
        session = self._open()
        current = self._creator.current
        try:
            if kind is None and current is not None:
                with current.closer.watching_peers():
                    for hook in self._hooks:
                        hook.end(current.raw)
            elif kind is not None and issubclass(kind, Terminated):
                self._save_last()
        except Terminated:
            self._save_last()
            raise
        finally:
            self._session = None
            try:
                session.close()
            finally:
                self._creator.current = None
                self._release()

    def _save_last(self) -> None:
        """Save before SIGTERM ends the program; a failure is told, for nobody can act on it."""
        current = self._creator.current
        if self._is_saved or current is None:
            return
        self._is_saved = True
        with current.closer.watching_peers():
            for hook in self._savers:
                try:
                    step = hook.save_last(current.raw)
                except Exception as error:
                    logging.error("SIGTERM: no last checkpoint could be written. %s", error)
                else:
                    logging.warning("SIGTERM: the last checkpoint is that of step %d.", step)


@export("train.MonitoredSession")
class MonitoredSession(_MonitoredSession):
    """A session with hooks that is made again, and goes on, when a task is lost.

    Example:
      with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(), hooks) as session:
          while not session.should_stop():
              session.run(train_op)

    A run that meets AbortedError or UnavailableError is repeated in a new session; the variables
    are then those of the last checkpoint.  At the end of `with` OutOfRangeError and StopIteration
    are no errors: the input is over.

    Args:
      session_creator: a ChiefSessionCreator if left out.
      hooks: told in this order.
      stop_grace_period_secs: how long threads may go on after a stop.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


@export("train.SingularMonitoredSession")
class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks that ends when a task is lost.  For arguments see MonitoredSession."""

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: pb.ConfigProto | None = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        creator = ChiefSessionCreator(
            scaffold=scaffold,
            master=master,
            config=config,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """Return the Session."""
        return self._raw()


@export("train.MonitoredTrainingSession")
def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = _USE_DEFAULT,
    save_summaries_steps: int | None = _USE_DEFAULT,
    save_summaries_secs: float | None = _USE_DEFAULT,
    config: pb.ConfigProto | None = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: int | None = _USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """Return a MonitoredSession for training: the chief's saves and summarizes, the others wait.

    Args:
      master: the session's target.
      is_chief: whether this task initializes and saves; the others wait for it.
      checkpoint_dir: where the chief restores from and saves to; nothing is saved without it.
      hooks, chief_only_hooks: of all tasks, and of the chief besides.
      save_checkpoint_secs, save_checkpoint_steps: 600 seconds if both are left out; None or 0 for
        neither.
      save_summaries_steps, save_summaries_secs: 100 steps if both are left out.
      log_step_count_steps: between two measurements of the rate; None or 0 for none.
      max_wait_secs: how long others wait for the chief, and a lost session may take to come back.
      summary_dir: where events go; checkpoint_dir if left out.
      save_graph_def: write the graph with checkpoints.
    """
    scaffold = scaffold or Scaffold()
    if not is_chief:
        worker = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(worker, hooks, stop_grace_period_secs)
    summary_steps, summary_secs = _intervals(save_summaries_steps, save_summaries_secs, 100, None)
    save_steps, save_secs = _intervals(save_checkpoint_steps, save_checkpoint_secs, None, 600)
    all_hooks = list(chief_only_hooks or ())
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if log_step_count_steps and log_step_count_steps > 0:
            counter = StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps)
            all_hooks.append(counter)
        if summary_steps or summary_secs:
            all_hooks.append(
                SummarySaverHook(summary_steps, summary_secs, summary_dir, scaffold=scaffold)
            )
    if checkpoint_dir and (save_steps or save_secs):
        all_hooks.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_secs=save_secs,
                save_steps=save_steps,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    all_hooks.extend(hooks or ())
    chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    chief.max_wait_secs = max_wait_secs
    return MonitoredSession(chief, all_hooks, stop_grace_period_secs)


def _intervals(steps: Any, secs: Any, default_steps: Any, default_secs: Any) -> tuple[Any, Any]:
    """Return an interval in steps and seconds; the default only if neither is given."""
    if steps is _USE_DEFAULT and secs is _USE_DEFAULT:
        return default_steps, default_secs
    given = (None if value is _USE_DEFAULT else value for value in (steps, secs))
    found_steps, found_secs = (value if value and value > 0 else None for value in given)
    return found_steps, found_secs
