"""Threads that keep queues filled.

Source: tensorflow/python/training/queue_runner_impl.py for names and the order of events.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from tideflow import logging
from tideflow.client import Session
from tideflow.graph.graph import Operation, get_default_graph, get_default_session
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.platform.threads import OwnedThread
from tideflow.train.graphs import register_proto_function
from tideflow.train.threads.coordinator import Coordinator
from tideflow.wire import errors
from tideflow.wire import messages as pb


class QueueRunnerThread(OwnedThread):
    """A thread that mostly waits in a step, and has nothing to finish when its session ends."""

    ends_with_session = True


@export("train.queue_runner.QueueRunner", "train.QueueRunner")
class QueueRunner:
    """Runs the enqueue operations of a queue, each in a thread of its own.

    A thread ends when its operation says that the input is over; the last one closes the queue.
    Any other error stops the coordinator.  When the coordinator stops, one more thread cancels
    what is still being enqueued.

    Args:
      queue: a QueueBase.
      enqueue_ops: operations; one thread is made for each of them.
      close_op, cancel_op: close the queue, and close it cancelling pending enqueues; made if
        left out.
      queue_closed_exception_types: errors that mean that the input is over; OutOfRangeError if
        left out.
      queue_runner_def, import_scope: a QueueRunnerDef in place of all this, and the scope into
        which its graph was imported.
    Raises: ValueError without queue and enqueue_ops, or with both kinds of arguments; TypeError
    for types that are no OpErrors.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Operation | None = None,
        queue_closed_exception_types: tuple[type[errors.OpError], ...] | None = None,
        queue_runner_def: pb.QueueRunnerDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        self._closed_types: tuple[type[errors.OpError], ...] = (errors.OutOfRangeError,)
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._read(queue_runner_def, import_scope)
        else:
            if queue is None or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            if queue_closed_exception_types is not None:
                self._closed_types = _checked(queue_closed_exception_types)
            self._queue = queue
            self._enqueue_ops = list(enqueue_ops)
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = (
                queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
            )
        self._lock = threading.Lock()
        self._live_threads: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    def _read(self, queue_runner_pb: pb.QueueRunnerDef, scope: str | None) -> None:
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(f"{scope.rstrip('/')}/{name}" if scope else name)

        self._queue = element(queue_runner_pb.queue_name)
        self._enqueue_ops = [element(name) for name in queue_runner_pb.enqueue_op_name]
        self._close_op = element(queue_runner_pb.close_op_name)
        self._cancel_op = element(queue_runner_pb.cancel_op_name)
        codes = queue_runner_pb.queue_closed_exception_types
        if codes:
            self._closed_types = tuple(errors.error_for_code(code) for code in codes)

    @property
    def queue(self) -> Any:
        """The queue, or its operation where the runner was read from a message."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """What is run, one for each thread."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """What closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """What closes the queue and cancels pending enqueues."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[errors.OpError], ...]:
        """The errors that mean that the input is over."""
        return self._closed_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """What threads without a coordinator raised since create_threads."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The queue's name."""
        return str(self._queue.name)

    # ---- threads

    def create_threads(
        self,
        sess: Session,
        coord: Coordinator | None = None,
        daemon: bool = False,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Return the threads that fill the queue in a session; none while earlier ones live.

        Args:
          coord: told of errors; when it stops, pending enqueues are cancelled.
          start: start the threads, too.
        """
        with self._lock:
            if self._live_threads.get(sess, 0) > 0:
                return []
            self._live_threads[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        made: list[threading.Thread] = [
            QueueRunnerThread(
                target=self._fill,
                args=(sess, op, coord),
                name=f"QueueRunnerThread-{self.name}-{op.name}",
                daemon=daemon,
            )
            for op in self._enqueue_ops
        ]
        if coord is not None:
            name = f"QueueRunnerThread-{self.name}-close_on_stop"
            closer = QueueRunnerThread(
                target=self._cancel_on_stop, args=(sess, coord), name=name, daemon=daemon
            )
            made.append(closer)
        for thread in made:
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return made

    def _fill(self, sess: Session, enqueue_op: Any, coord: Coordinator | None) -> None:
        try:
            enqueue = sess.make_callable(enqueue_op)
            while coord is None or not coord.should_stop():
                enqueue()
        except self._closed_types:
            if self._leave(sess):
                _run_quietly(sess, self._close_op)
            return
        except Exception as error:
            self._leave(sess)
            if coord is not None:
                coord.request_stop(error)
                return
            logging.error("Exception in QueueRunner: %s", error)
            with self._lock:
                self._exceptions_raised.append(error)
            raise
        self._leave(sess)

    def _leave(self, sess: Session) -> bool:
        """Count a thread out; return whether it was the last."""
        with self._lock:
            self._live_threads[sess] -= 1
            return self._live_threads[sess] == 0

    def _cancel_on_stop(self, sess: Session, coord: Coordinator) -> None:
        coord.wait_for_stop()
        _run_quietly(sess, self._cancel_op)

    # ---- as a message

    def to_proto(self, export_scope: str | None = None) -> pb.QueueRunnerDef | None:
        """Return the runner as a message, without the scope in its names; None outside of it."""
        prefix = f"{export_scope.rstrip('/')}/" if export_scope else ""
        if not self.name.startswith(prefix):
            return None
        return pb.QueueRunnerDef(
            queue_name=self.name.removeprefix(prefix),
            enqueue_op_name=[op.name.removeprefix(prefix) for op in self._enqueue_ops],
            close_op_name=self._close_op.name.removeprefix(prefix),
            cancel_op_name=self._cancel_op.name.removeprefix(prefix),
            queue_closed_exception_types=[error.code for error in self._closed_types],
        )

    @staticmethod
    def from_proto(
        queue_runner_def: pb.QueueRunnerDef, import_scope: str | None = None
    ) -> QueueRunner:
        """Return the runner of a message, whose operations the default graph has."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def _checked(types: Any) -> tuple[type[errors.OpError], ...]:
    is_good = (
        isinstance(types, tuple)
        and types
        and all(isinstance(t, type) and issubclass(t, errors.OpError) for t in types)
    )
    if not is_good:
        raise TypeError(
            "queue_closed_exception_types, when provided, must be a tuple of tf.errors types, "
            f"not {types!r}"
        )
    return tuple(types)


def _run_quietly(sess: Session, op: Operation) -> None:
    """Run an operation of which nobody waits: the session may be over, or its server gone."""
    try:
        sess.run(op)
    except Exception as error:
        logging.vlog(1, "Ignored exception: %s", error)


@export("train.queue_runner.add_queue_runner", "train.add_queue_runner")
def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Have start_queue_runners start a runner of the default graph."""
    get_default_graph().add_to_collection(collection, qr)


@export("train.queue_runner.start_queue_runners", "train.start_queue_runners")
def start_queue_runners(
    sess: Session | None = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Make, and start, the threads of all queue runners of the default graph; return them.

    sess: the default session if left out.  A monitored session starts them itself, so that
    nothing is done for one.
    Raises: ValueError without a session; TypeError for something else.
    """
    sess = get_default_session() if sess is None else sess
    if sess is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use "
            "`with sess.as_default()` or pass an explicit session to "
            "tf.start_queue_runners(sess=sess)"
        )
    if not isinstance(sess, Session):
        if getattr(sess, "starts_queue_runners", False):
            return []
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    runners = get_default_graph().get_collection(collection)
    if not runners:
        logging.warning(
            "`tf.train.start_queue_runners()` was called when no queue runners were defined."
        )
    return [
        thread
        for runner in runners
        for thread in runner.create_threads(sess, coord=coord, daemon=daemon, start=start)
    ]


def _to_proto(runner: QueueRunner, export_scope: str | None = None) -> Any:
    return runner.to_proto(export_scope)


register_proto_function(
    GraphKeys.QUEUE_RUNNERS, pb.QueueRunnerDef, _to_proto, QueueRunner.from_proto
)
