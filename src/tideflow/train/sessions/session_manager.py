"""Sessions that are ready for training: made, restored or initialized, or waited for.

Source: tensorflow/python/training/session_manager.py for names, arguments and the order of steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tideflow import logging
from tideflow.client import Session
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.ops.export import export
from tideflow.train.checkpoints import get_checkpoint_state
from tideflow.train.threads import RetryPauses
from tideflow.wire import errors
from tideflow.wire import messages as pb

# Looking again costs a session on one's own master and a step on the parameter servers.
_LONGEST_PAUSE_S = 2.0
INITIALIZERS_KEY = "saved_model_initializers"


def check_ready(op: Any, session: Session, label: str) -> str | None:
    """Run an operation that tells what is missing; return that as text, None if it is ready.

    op: gives the names of what is not initialized, or fails while something is not; None is ready.
    Raises: FailedPreconditionError that is not about uninitialized variables, and other OpErrors.
    """
    if op is None:
        return None
    try:
        found = session.run(op)
    except errors.FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            logging.warning("%s : error [%s]", label, error)
            raise
        return str(error)
    if found is None or not found.size or found.dtype.kind in "iu":
        return None
    names = ", ".join(name.decode("utf-8", "replace") for name in found.reshape(-1))
    return f"Variables not initialized: {names}"


@export("train.SessionManager")
class SessionManager:
    """Makes sessions whose variables have values.

    The chief calls prepare_session, which restores a checkpoint or initializes; the others call
    wait_for_session.

    Args:
      local_init_op: run in each new session: initializes what belongs to one process.
      ready_op: gives the names of what is not initialized yet; None: nothing is looked at.
      ready_for_local_init_op: as ready_op, looked at before local_init_op is run.
      graph: the default graph if left out.
      recovery_wait_secs: the longest pause between two looks.
      local_init_run_options, local_init_feed_dict: for the run of local_init_op.
    Raises: ValueError for a ready_for_local_init_op without a local_init_op.
    """

    def __init__(
        self,
        local_init_op: Operation | None = None,
        ready_op: Operation | Tensor | None = None,
        ready_for_local_init_op: Operation | Tensor | None = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: pb.RunOptions | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op , "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = get_default_graph() if graph is None else graph
        self._longest_pause_s = min(recovery_wait_secs, _LONGEST_PAUSE_S)
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: pb.ConfigProto | None = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
    ) -> Session:
        """Return a session whose variables are restored from a checkpoint, or else initialized.

        Args:
          master: the session's target.
          init_op, init_feed_dict, init_fn: run, fed, called with the session if nothing was
            restored.
          saver: restores the latest checkpoint of checkpoint_dir, or
            checkpoint_filename_with_path.
          wait_for_checkpoint: wait up to max_wait_secs until checkpoint_dir has one.
        Raises: RuntimeError when there is no way to initialize, or it left variables without
        value; ValueError for both checkpoint arguments.
        """
        sess, is_restored = self._restored(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        with _closed_on_error(sess):
            if not is_restored:
                self._initialize(sess, init_op, init_feed_dict, init_fn)
            told = f"Init op: {_name(init_op)}, init fn: {init_fn}"
            missing = self._run_local_init_op(sess)
            if missing is not None:
                raise RuntimeError(
                    f"Init operations did not make model ready for local_init.  {told}, "
                    f"error: {missing}"
                )
            missing = check_ready(self._ready_op, sess, "Model not ready")
            if missing is not None:
                raise RuntimeError(
                    f"Init operations did not make model ready.  {told}, "
                    f"local_init_op: {self._local_init_op}, error: {missing}"
                )
        return sess

    def _initialize(self, sess: Session, init_op: Any, feed_dict: Any, init_fn: Any) -> None:
        if init_op is None and not init_fn and self._local_init_op is None:
            raise RuntimeError(
                "Model is not initialized and no init_op or init_fn or local_init_op was given"
            )
        if init_op is not None:
            sess.run(init_op, feed_dict=feed_dict)
        if init_fn:
            init_fn(sess)

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: pb.ConfigProto | None = None,
    ) -> tuple[Session, bool]:
        """Return a session, and whether its variables were restored and are all there.

        For the arguments see prepare_session.
        """
        sess, is_restored = self._restored(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        source = checkpoint_dir or checkpoint_filename_with_path
        with _closed_on_error(sess):
            missing = self._run_local_init_op(sess)
            if not is_restored:
                return sess, False
            if missing is None:
                missing = check_ready(self._ready_op, sess, "Model not ready")
        if missing is not None:
            logging.info("Restoring model from %s did not make model ready: %s", source, missing)
            return sess, False
        logging.info("Restored model from %s", source)
        return sess, True

    def wait_for_session(
        self,
        master: str,
        config: pb.ConfigProto | None = None,
        max_wait_secs: float | None = float("inf"),
    ) -> Session:
        """Return a session once another task, the chief, has given all variables a value.

        Raises: DeadlineExceededError after max_wait_secs.
        """
        limit_s = float("inf") if max_wait_secs is None else max_wait_secs
        what = f"the chief to initialize the model (looking through {_place(master)})"
        pauses = RetryPauses(what, limit_s, self._longest_pause_s)
        while True:
            sess = Session(master, graph=self._graph, config=config)
            with _closed_on_error(sess):
                missing = self._run_local_init_op(sess)
                if missing is None:
                    missing = check_ready(self._ready_op, sess, "Model not ready")
                if missing is None:
                    return sess
            _close_safely(sess)
            if not pauses.pause(missing):
                raise errors.DeadlineExceededError(
                    f"Session was not ready after waiting {limit_s:g} secs. {missing}"
                )

    # ---- steps of these

    def _restored(
        self,
        master: str,
        saver: Any,
        checkpoint_dir: str | None,
        checkpoint_path: str | None,
        wait_for_checkpoint: bool,
        max_wait_s: float,
        config: pb.ConfigProto | None,
    ) -> tuple[Session, bool]:
        """Return a new session, and whether a checkpoint was restored in it."""
        if checkpoint_dir and checkpoint_path:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path."
            )
        sess = Session(master, graph=self._graph, config=config)
        with _closed_on_error(sess):
            if saver is None or not (checkpoint_dir or checkpoint_path):
                return sess, False
            if checkpoint_path:
                self._restore(sess, saver, checkpoint_path)
                return sess, True
            assert checkpoint_dir is not None
            state_pb = self._checkpoint_state(
                checkpoint_dir, max_wait_s if wait_for_checkpoint else 0.0
            )
            if state_pb is None:
                return sess, False
            self._restore(sess, saver, state_pb.model_checkpoint_path)
            saver.recover_last_checkpoints(list(state_pb.all_model_checkpoint_paths))
            return sess, True

    def _checkpoint_state(self, directory: str, limit_s: float) -> pb.CheckpointState | None:
        pauses = RetryPauses(f"a checkpoint in {directory}", limit_s, self._longest_pause_s)
        while True:
            state_pb = get_checkpoint_state(directory)
            if state_pb is not None and state_pb.model_checkpoint_path:
                return state_pb
            if not pauses.pause("there is none"):
                return None

    def _restore(self, sess: Session, saver: Any, path: str) -> None:
        initializers = self._graph.get_collection(INITIALIZERS_KEY)
        if initializers:
            sess.run(initializers)
        saver.restore(sess, path)

    def _run_local_init_op(self, sess: Session) -> str | None:
        """Run local_init_op, if all is there for it; return what is missing."""
        if self._local_init_op is None:
            return None
        label = "Model not ready for local init"
        missing = check_ready(self._ready_for_local_init_op, sess, label)
        if missing is None:
            sess.run(
                self._local_init_op,
                feed_dict=self._local_init_feed_dict,
                options=self._local_init_run_options,
            )
        return missing


@contextlib.contextmanager
def _closed_on_error(sess: Session) -> Iterator[None]:
    """Close a session that nobody will get, because making it ready failed."""
    try:
        yield
    except BaseException:
        _close_safely(sess)
        raise


def _close_safely(sess: Session) -> None:
    with contextlib.suppress(Exception):
        sess.close()


def _name(op: Any) -> str:
    return "None" if op is None else str(getattr(op, "name", f"<no name for {type(op)}>"))


def _place(master: str) -> str:
    return f"the master at {master}" if master else "this process"
