"""The layers of a monitored session, each around the next:

    RecoverableSession    makes a new session when one is lost, and runs the call again
    CoordinatedSession    ends the threads that belong to the session with it
    HookedSession         asks hooks before and tells them after each run
    Session

Source: tensorflow/python/training/monitored_session.py for the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph import get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.train.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from tideflow.train.sessions.session_creators import SessionCreator
from tideflow.train.threads import (
    Coordinator,
    RetryPauses,
    SessionCloser,
    start_queue_runners,
    stop_threads,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb

# A task is gone, or came back as another one: a new session is needed, and may work.
LOST = (errors.AbortedError, errors.UnavailableError)

StepFn = Callable[[Callable[..., Any]], Any]


class HookedSession:
    """Runs what the user and hooks ask for, in one step."""

    def __init__(self, session: Session, hooks: Sequence[SessionRunHook]) -> None:
        self._session = session
        self._hooks = hooks
        self.should_stop = False

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: pb.RunOptions | None = None,
        run_metadata: pb.RunMetadata | None = None,
    ) -> Any:
        """Run one step; see Session.run.

        Raises: RuntimeError once a hook has asked to stop, or when a tensor is fed twice.
        """
        if self.should_stop:
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._session)
        merged = pb.RunOptions()
        if options is not None:
            merged.CopyFrom(options)
        metadata = pb.RunMetadata() if run_metadata is None else run_metadata
        requests = [hook.before_run(context) for hook in self._hooks]
        feeds = _merged_feeds(requests, feed_dict)
        wanted: dict[str, Any] = {"caller": fetches}
        for index, request in enumerate(requests):
            if request is None:
                continue
            if request.fetches is not None:
                wanted[f"hook {index}"] = request.fetches
            if request.options is not None:
                _merge_options(merged, request.options)
        found = self._session.run(wanted, feed_dict=feeds, options=merged, run_metadata=metadata)
        for index, hook in enumerate(self._hooks):
            values = SessionRunValues(found.get(f"hook {index}"), merged, metadata)
            hook.after_run(context, values)
        self.should_stop = self.should_stop or context.stop_requested
        return found["caller"]


def _merged_feeds(requests: Sequence[SessionRunArgs | None], given: Any) -> Any:
    """Return the feeds of hooks and user together.  Raises: RuntimeError for a tensor fed twice."""
    from_hooks: dict[Any, Any] = {}
    for request in requests:
        if request is not None and request.feed_dict:
            _check_apart(from_hooks, request.feed_dict, "Same tensor is fed by two hooks.")
            from_hooks.update(request.feed_dict)
    if not from_hooks or not given:
        return from_hooks or given
    _check_apart(given, from_hooks, "Same tensor is fed by a SessionRunHook and user.")
    return {**from_hooks, **given}


def _check_apart(some: Mapping[Any, Any], others: Mapping[Any, Any], told: str) -> None:
    common = [key for key in some if key in others]
    if common:
        raise RuntimeError(f"{told} Conflict(s): {common}")


def _merge_options(into: pb.RunOptions, given: pb.RunOptions) -> None:
    """Add a hook's options: the larger value of each wins."""
    for name in (
        "trace_level",
        "timeout_in_ms",
        "inter_op_thread_pool",
        "output_partition_graphs",
        "report_tensor_allocations_upon_oom",
    ):
        setattr(into, name, max(getattr(into, name), getattr(given, name)))
    debug = into.debug_options
    debug.debug_tensor_watch_opts.extend(given.debug_options.debug_tensor_watch_opts)
    debug.reset_disk_byte_usage |= given.debug_options.reset_disk_byte_usage


class CoordinatedSession:
    """A session, its hooks, and the threads that end with it.

    Attributes:
      raw: the Session.
      coord: coordinates its threads.
    """

    def __init__(self, raw: Any, hooks: Sequence[SessionRunHook], grace_s: float) -> None:
        self.raw = raw
        # None is clean: that the input is over has to reach the caller.
        self.coord = Coordinator(clean_stop_exception_types=[])
        self.closer = SessionCloser(raw)
        self._hooked = HookedSession(raw, hooks)
        self._grace_s = grace_s

    def start(self, hooks: Sequence[SessionRunHook]) -> None:
        """Start queue runners, and tell hooks of the session."""
        if get_default_graph().get_collection(GraphKeys.QUEUE_RUNNERS):
            start_queue_runners(sess=self.raw, coord=self.coord)
        for hook in hooks:
            hook.after_create_session(self.raw, self.coord)

    def should_stop(self) -> bool:
        """Whether a hook or thread asked to stop.  Raises: the error of a thread."""
        self.coord.raise_requested_exception()
        return self.coord.should_stop() or self._hooked.should_stop

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step; a thread's error, which may have caused the step's, tells of a lost task."""
        try:
            return self._hooked.run(*args, **kwargs)
        except LOST:
            raise
        except Exception:
            try:
                self.coord.raise_requested_exception()
            except LOST as cause:
                raise cause from None
            except Exception:
                pass  # the caller gets the error of its own step
            raise

    def run_step_fn(self, step_fn: StepFn) -> Any:
        """Call a function with `run`."""
        return step_fn(self.run)

    def close(self) -> None:
        """End threads and session.  Raises: the error of a thread."""
        stop_threads(self.coord, self.closer, self._grace_s, close=True, ignore_live_threads=True)


class CoordinatedSessionCreator:
    """Makes sessions with hooks.

    Attributes:
      current: the latest session, None before the first and after the end.
    """

    def __init__(
        self, creator: SessionCreator, hooks: Sequence[SessionRunHook], grace_s: float
    ) -> None:
        self._creator = creator
        self._hooks = hooks
        self._grace_s = grace_s
        self.limit_s = float(getattr(creator, "max_wait_secs", 7200))
        self.current: CoordinatedSession | None = None

    def create_session(self) -> CoordinatedSession:
        """Return a new session, its threads started and hooks told."""
        made = CoordinatedSession(self._creator.create_session(), self._hooks, self._grace_s)
        self.current = made
        try:
            made.start(self._hooks)
        except LOST:
            _close_lost(made)
            raise
        return made


class RecoverableSession:
    """A session that is made again when a task that it needs is lost.

    Between attempts it pauses, longer each time; after `limit_s` without one run that succeeded
    the error goes to the caller.
    """

    def __init__(self, creator: CoordinatedSessionCreator) -> None:
        self._creator = creator
        self._pauses: RetryPauses | None = None
        self._session: CoordinatedSession | None = self._create()

    def _create(self) -> CoordinatedSession:
        while True:
            try:
                return self._creator.create_session()
            except LOST as error:
                self._wait(error)

    def _open(self) -> CoordinatedSession:
        if self._session is None:
            self._session = self._create()
        return self._session

    def should_stop(self) -> bool:
        """Whether to stop.  A lost session is replaced; any other error of a thread means stop."""
        try:
            return self._open().should_stop()
        except LOST as error:
            self._lose(error)
            self._open()
            return False
        except Exception:
            return True

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step, again and again in new sessions while tasks are lost."""
        return self._retried(lambda session: session.run(*args, **kwargs))

    def run_step_fn(self, step_fn: StepFn) -> Any:
        """Call a function with `run`; again, when a task is lost within."""
        return self._retried(lambda session: session.run_step_fn(step_fn))

    def _retried(self, act: Callable[[CoordinatedSession], Any]) -> Any:
        while True:
            try:
                found = act(self._open())
            except LOST as error:
                self._lose(error)
            else:
                self._pauses = None
                return found

    def _lose(self, error: errors.OpError) -> None:
        lost, self._session = self._session, None
        if lost is not None:
            _close_lost(lost)
        self._wait(error)

    def _wait(self, error: errors.OpError) -> None:
        """Pause before another attempt.  Raises: the error, when it is time to give up."""
        # The first line may only say whence the error came.
        told = f"{type(error).__name__}: {' '.join(error.message.splitlines()[:2])}"
        if self._pauses is None:
            print(f"the session was lost: {told}", file=sys.stderr, flush=True)
            self._pauses = RetryPauses("a new session", self._creator.limit_s)
        if not self._pauses.pause(told):
            raise error

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()


def _close_lost(session: CoordinatedSession) -> None:
    """Close a session of which a task is gone; errors that come of that are no news."""
    try:
        session.close()
    except Exception as error:
        logging.info("Closing the lost session: %s", error)
