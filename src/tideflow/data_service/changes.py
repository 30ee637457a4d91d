"""Changes of what a dispatcher knows: each is made, and kept for its next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tideflow.wire import errors
from tideflow.wire import messages as pb

_FIRST_ID = 1000


class Recorder(Protocol):
    """Keeps what must outlive the process."""

    def keep(self, dataset_id: str, definition: pb.DatasetDef) -> None:
        """Keep the graph of a dataset that an update is about to name."""

    def record(self, update: pb.Update) -> None:
        """Keep a change, behind all those before it."""


class Forgetful:
    """Keeps nothing."""

    def keep(self, dataset_id: str, definition: pb.DatasetDef) -> None:
        """Keep nothing."""

    def record(self, update: pb.Update) -> None:
        """Keep nothing."""


class Changes:
    """Makes changes and has them kept.

    The same updates in the same order give the same state again.

    Args:
      recorder: is told of each change, once it is made.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.recorder: Recorder = recorder or Forgetful()
        self._next_id = _FIRST_ID
        self._makers: dict[str, Callable[[Any], None]] = {}

    def new_id(self) -> int:
        """Return a number that nothing else has."""
        self._next_id += 1
        return self._next_id - 1

    def seen(self, number: int) -> int:
        """Return a number, which nothing new is given any more."""
        self._next_id = max(self._next_id, number + 1)
        return number

    def made_by(self, **makers: Callable[[Any], None]) -> None:
        """Say what makes the changes of some kinds, by the names of pb.Update."""
        self._makers.update(makers)

    def make(self, **change: Any) -> None:
        """Make a change of one kind, and have it kept."""
        update = pb.Update(**change)
        self.replay(update)
        self.recorder.record(update)

    def replay(self, update: pb.Update) -> None:
        """Make a change that a dispatcher made before.

        Raises: UnimplementedError for one of a kind that is not known.
        """
        kind = update.WhichOneof("update_type")
        assert kind is not None
        maker = self._makers.get(kind)
        if maker is None:
            raise errors.UnimplementedError(f"the journal has an update that is not known: {kind}")
        maker(getattr(update, kind))
