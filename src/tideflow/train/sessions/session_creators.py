"""What makes the sessions of monitored sessions: the chief's way, and the others'.

Source: tensorflow/python/training/monitored_session.py for names and arguments.
"""

from __future__ import annotations

import abc

from tideflow.client import Session
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export
from tideflow.train.sessions.scaffold import Scaffold
from tideflow.train.sessions.session_manager import SessionManager
from tideflow.wire import messages as pb


@export("train.SessionCreator")
class SessionCreator(abc.ABC):
    """Makes sessions; called again when one is lost."""

    @abc.abstractmethod
    def create_session(self) -> Session:
        """Return a new session that is ready for training."""


class _ScaffoldedCreator(SessionCreator):
    """Makes sessions with what a scaffold says.

    Attributes:
      max_wait_secs: how long a lost session may take to come back.
    """

    def __init__(
        self,
        scaffold: Scaffold | None,
        master: str,
        config: pb.ConfigProto | None,
        max_wait_secs: float,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._manager: SessionManager | None = None
        self._master = master
        self._config = config
        self.max_wait_secs = max_wait_secs

    def _session_manager(self) -> SessionManager:
        """Return the manager, made with the first session, when the scaffold is complete."""
        scaffold = self._scaffold.finalize()
        if self._manager is None:
            self._manager = SessionManager(
                local_init_op=scaffold.local_init_op,
                local_init_feed_dict=scaffold.local_init_feed_dict,
                ready_op=scaffold.ready_op,
                ready_for_local_init_op=scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._manager


@export("train.ChiefSessionCreator")
class ChiefSessionCreator(_ScaffoldedCreator):
    """Makes sessions that restore the latest checkpoint, or else initialize the model.

    Args:
      scaffold: what to run for this; the defaults of Scaffold if left out.
      master: the session's target.
      checkpoint_dir, checkpoint_filename_with_path: where to restore from; at most one of them.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: pb.ConfigProto | None = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        super().__init__(scaffold, master, config, 7200)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path

    def create_session(self) -> Session:
        """Return a new session, restored or initialized."""
        manager = self._session_manager()
        return manager.prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


@export("train.WorkerSessionCreator")
class WorkerSessionCreator(_ScaffoldedCreator):
    """Makes sessions once the chief has initialized the model.

    Args:
      max_wait_secs: how long to wait for that; DeadlineExceededError after it.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: pb.ConfigProto | None = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        super().__init__(scaffold, master, config, max_wait_secs)

    def create_session(self) -> Session:
        """Return a new session, once all variables have values."""
        manager = self._session_manager()
        return manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self.max_wait_secs
        )
