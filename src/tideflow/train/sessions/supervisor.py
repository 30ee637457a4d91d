"""Supervisor: a session with summaries, checkpoints and threads, for programs without hooks.

Source: tensorflow/python/training/supervisor.py for names, arguments and the order of events.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tideflow import logging
from tideflow.client import Session
from tideflow.graph import roles
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.train.sessions.chief_records import ChiefRecords
from tideflow.train.sessions.session_layers import LOST
from tideflow.train.sessions.session_manager import SessionManager
from tideflow.train.sessions.supervised_model import USE_DEFAULT, SupervisedModel
from tideflow.train.sessions.supervisor_services import (
    CheckpointThread,
    StepCounterThread,
    SummaryThread,
)
from tideflow.train.sessions.termination import LastSave, TerminationHandler
from tideflow.train.summaries import FileWriter
from tideflow.train.threads import (
    ChiefLock,
    Coordinator,
    LooperThread,
    RetryPauses,
    SessionCloser,
    stop_threads,
)
from tideflow.wire import messages as pb

# How long a loop that loses its session goes on trying to get another one.
_MOST_WAIT_S = 7200.0


@export("train.Supervisor")
class Supervisor:
    """Makes a session ready and keeps the training's services going.

    Example:
      sv = tf.train.Supervisor(logdir=directory, is_chief=index == 0)
      with sv.managed_session(server.target) as session:
          while not sv.should_stop():
              session.run(train_op)

    The chief restores the latest checkpoint of logdir, or initializes, and then saves and
    summarizes in threads; the others wait for it.  In the main thread of a chief that saves,
    SIGTERM ends the program with a last checkpoint.

    Args (those that are left out are taken from the graph's collections, or made):
      graph: the default graph if left out; read-only afterwards.
      ready_op, ready_for_local_init_op, init_op, init_feed_dict, local_init_op: see SessionManager.
      logdir: where the chief's checkpoints and events go; without it there are none.
      summary_op, saver, global_step: None for none.
      save_summaries_secs, save_model_secs: between two times; 0 for never.
      recovery_wait_secs: the longest pause between two looks at the model.
      stop_grace_secs: how long threads may go on after a stop.
      checkpoint_basename: the checkpoints' file name.
      summary_writer: a FileWriter, or None for none.
      init_fn: called with the session after init_op.
    Raises: ValueError for variables without a device in a graph of a task that is not the chief.
    """

    USE_DEFAULT: ClassVar[Any] = USE_DEFAULT

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Operation | Tensor | None = USE_DEFAULT,
        ready_for_local_init_op: Operation | Tensor | None = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Operation | None = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Operation | None = USE_DEFAULT,
        logdir: str | None = None,
        summary_op: Tensor | None = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: TensorLike | None = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: pb.RunOptions | None = None,
    ) -> None:
        self._graph = get_default_graph() if graph is None else graph
        self._model = SupervisedModel.of(
            self._graph,
            ready_op=ready_op,
            ready_for_local_init_op=ready_for_local_init_op,
            init_op=init_op,
            local_init_op=local_init_op,
            saver=saver,
            summary_op=summary_op,
            global_step=global_step,
        )
        self._init_feed_dict = init_feed_dict
        self._init_fn = init_fn
        self._is_chief = is_chief
        self._lock: ChiefLock | None = None
        self._coord = Coordinator()
        self._stop_grace_secs = stop_grace_secs
        self._logdir = os.fspath(logdir) if logdir and is_chief else None
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self._summary_writer: Any = None
        if is_chief:
            self._summary_writer = summary_writer
            if summary_writer is USE_DEFAULT:
                self._summary_writer = FileWriter(self._logdir) if self._logdir else None
        self._records = ChiefRecords(
            self._graph, self._model, self._logdir, self._save_path, self._summary_writer
        )
        self._session_manager = session_manager or SessionManager(
            local_init_op=self._model.local_init_op,
            ready_op=self._model.ready_op,
            ready_for_local_init_op=self._model.ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
        )
        self._closer: SessionCloser | None = None
        self._termination: TerminationHandler | None = None
        if not is_chief:
            self._check_devices()
        self._graph.finalize()

    def _check_devices(self) -> None:
        """See that all variables are placed: each task would have its own of the others."""
        for op in self._graph.get_operations():
            if op.op_def.role is roles.VARIABLE and not op.device:
                raise ValueError(
                    f"When using replicas, all Variables must have their device set: {op}"
                )

    # ---- facts

    @property
    def is_chief(self) -> bool:
        """Whether this task initializes, saves and summarizes."""
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """What makes sessions."""
        return self._session_manager

    @property
    def coord(self) -> Coordinator:
        """What coordinates the threads."""
        return self._coord

    @property
    def init_op(self) -> Any:
        """Gives the variables their first value."""
        return self._model.init_op

    @property
    def init_feed_dict(self) -> Any:
        """Fed to init_op."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """Gives the names of variables without a value."""
        return self._model.ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """Gives the names of what local_init_op needs and has no value, or None."""
        return self._model.ready_for_local_init_op

    @property
    def summary_writer(self) -> Any:
        """Where the chief's summaries go, or None."""
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        """All summaries merged, or None."""
        return self._model.summary_op

    @property
    def save_summaries_secs(self) -> float | None:
        """Seconds between two summaries; None where this is not the chief."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """The global step, or None."""
        return self._model.global_step

    @property
    def saver(self) -> Any:
        """What saves and restores, or None."""
        return self._model.saver

    @property
    def save_model_secs(self) -> float | None:
        """Seconds between two checkpoints; None where this is not the chief."""
        return self._save_model_secs

    @property
    def save_path(self) -> str | None:
        """Where the chief saves to, without the step; None without a logdir."""
        return self._save_path

    # ---- sessions

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: pb.ConfigProto | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """Return a session that is ready; the chief prepares it, the others wait for that.

        Args:
          master: the session's target.
          wait_for_checkpoint: have the chief wait for a checkpoint to restore.
          max_wait_secs: how long to wait for the checkpoint, or for the chief.
          start_standard_services: start the services, and queue runners.
        Raises: FailedPreconditionError where another process is chief of the logdir.
        """
        self._coord.clear_stop()
        self._records.reopen()
        if self._is_chief:
            if self._logdir and self._model.saver is not None and self._save_model_secs:
                self._lock = ChiefLock(self._logdir)
            sess = self._session_manager.prepare_session(
                master,
                init_op=self._model.init_op,
                saver=self._model.saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
        else:
            sess = self._session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs
            )
        self._closer = SessionCloser(sess)
        if self._is_chief:
            self._records.write_graph()
            self._save_on_termination()
            if start_standard_services:
                self.start_standard_services(sess)
        if start_standard_services:
            self.start_queue_runners(sess)
        return sess

    def _save_on_termination(self) -> None:
        if self._model.saver is None or not self._save_path or not self._save_model_secs:
            return
        if self._termination is None:
            self._termination = TerminationHandler(LastSave(self._save_last))

    def _save_last(self) -> None:
        closer = self._closer
        if closer is not None:
            with closer.watching_peers():
                self.save_checkpoint(closer.session)

    def save_checkpoint(self, sess: Session) -> None:
        """Save a checkpoint at the global step's present value."""
        self._records.save_checkpoint(sess)

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: pb.ConfigProto | None = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Session]:
        """Yield a session that is ready; at the end of `with` stop the services and close it.

        Errors inside `with`, and of threads, are raised at its end; OutOfRangeError is none.
        """
        try:
            yield self.prepare_or_wait_for_session(
                master=master, config=config, start_standard_services=start_standard_services
            )
        except Exception as error:
            self.request_stop(error)
        finally:
            self._stop((), close_summary_writer, False, close_session=True)

    # ---- services

    def start_standard_services(self, sess: Session) -> list[LooperThread] | None:
        """Start the chief's threads and return them; None, with a warning, without a logdir.

        Raises: RuntimeError where this is not the chief.
        """
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief "
                "supervisors can write events."
            )
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        writer, summaries_s = self._summary_writer, self._save_summaries_secs
        self._records.session_started(sess)
        threads: list[LooperThread] = []
        if summaries_s and writer is not None:
            if self._model.summary_op is not None:
                threads.append(SummaryThread(self, sess, summaries_s))
            if self._model.global_step is not None:
                threads.append(StepCounterThread(self, sess, summaries_s))
        if self._model.saver is not None and self._save_model_secs:
            threads.append(CheckpointThread(self, sess, self._save_model_secs))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(
        self, sess: Session, queue_runners: Sequence[Any] | None = None
    ) -> list[Any]:
        """Start the threads of queue runners, those of the graph if left out; return them."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [
            thread
            for runner in queue_runners
            for thread in runner.create_threads(sess, coord=self._coord, daemon=True, start=True)
        ]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Call target regularly in a thread until the stop; return the thread."""
        return LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    def summary_computed(self, sess: Session, summary: Any, global_step: int | None = None) -> None:
        """Write a summary that the program has run itself.

        global_step: read if left out.  Raises: RuntimeError without a summary writer.
        """
        self._records.add_summary(sess, summary, global_step)

    # ---- the end

    def stop(
        self,
        threads: Iterable[Any] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Stop the services and wait for their threads.

        The session is left open, unless threads still wait in it, or its peers do not answer.
        Raises: the first error of the threads; RuntimeError naming threads that go on, unless
        ignore_live_threads.
        """
        self._stop(threads or (), close_summary_writer, ignore_live_threads, close_session=False)

    def _stop(
        self,
        threads: Iterable[Any],
        close_summary_writer: bool,
        ignore_live_threads: bool,
        close_session: bool,
    ) -> None:
        if self._termination is not None:
            self._termination.finish()
        try:
            if self._closer is None:
                self._coord.request_stop()
                self._coord.join(threads, self._stop_grace_secs, ignore_live_threads)
            else:
                stop_threads(
                    self._coord,
                    self._closer,
                    self._stop_grace_secs,
                    close=close_session,
                    threads=threads,
                    ignore_live_threads=ignore_live_threads,
                )
        finally:
            if close_summary_writer:
                self._records.close()
            if self._lock is not None:
                self._lock.release()
            termination, self._termination = self._termination, None
            if termination is not None:
                termination.restore()

    def request_stop(self, ex: Any = None) -> None:
        """Ask the threads to stop; see Coordinator.request_stop."""
        self._coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """Turn an exception raised inside `with` into a request to stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until a stop is requested."""
        self._coord.wait_for_stop()

    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


@export("train.basic_train_loop")
def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    master: str = "",
) -> None:
    """Call train_step_fn(session, *args, **kwargs) until the supervisor stops.

    When a task is lost, the loop goes on in a new session.
    """
    pauses: RetryPauses | None = None
    while True:
        try:
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *args or (), **kwargs or {})
                    pauses = None
            return
        except LOST as error:
            pauses = pauses or RetryPauses("a new session", _MOST_WAIT_S, report_after_s=0.0)
            if not pauses.pause(f"{type(error).__name__}: {error.message.splitlines()[0]}"):
                raise
