"""The clients that read iterations, as a dispatcher knows them."""

from __future__ import annotations

from tideflow.data_service.changes import Changes
from tideflow.data_service.iterations import Iterations
from tideflow.data_service.jobs import Iteration
from tideflow.wire import errors
from tideflow.wire import messages as pb


class IterationClients:
    """The clients by id, and when each was heard of last."""

    def __init__(self, changes: Changes, iterations: Iterations) -> None:
        self._changes = changes
        self._iterations = iterations
        self._known: dict[int, Iteration] = {}
        self._heard_s: dict[int, float] = {}
        changes.made_by(
            acquire_iteration_client=self._on_acquire,
            client_heartbeat=self._on_heartbeat,
            release_iteration_client=self._on_release,
        )

    def resume(self, now_s: float) -> None:
        """Count all as just heard of: they could not say anything meanwhile."""
        for client in self._known:
            self._heard_s[client] = now_s

    def add(self, iteration: Iteration) -> int:
        """Return the id of a new client of an iteration."""
        client = self._changes.new_id()
        self._changes.make(
            acquire_iteration_client=pb.AcquireIterationClientUpdate(
                iteration_id=iteration.id, iteration_client_id=client
            )
        )
        return client

    def _on_acquire(self, update: pb.AcquireIterationClientUpdate) -> None:
        iteration = self._iterations.by_id(update.iteration_id)
        client = self._changes.seen(update.iteration_client_id)
        self._known[client] = iteration
        iteration.clients.add(client)
        iteration.idle_since_s = None

    def heard_of(
        self,
        client: int,
        now_s: float,
        current_round: int | None = None,
        blocked_round: int | None = None,
    ) -> Iteration:
        """Return the iteration of a client that has said that it is there.

        current_round: of a coordinated read, in which the client is.
        blocked_round: the round that it does not begin until it is told to.
        Raises: NotFoundError for an unknown one; FailedPreconditionError where its iteration was
        dropped.
        """
        iteration = self._known.get(client)
        if iteration is None:
            raise errors.NotFoundError(
                f"Unknown iteration client id {client}. The dispatcher is not configured to be "
                "fault tolerant, so this could be caused by a dispatcher restart."
            )
        if iteration.is_dropped:
            raise errors.FailedPreconditionError(
                "The requested iteration has been garbage collected due to inactivity. Consider "
                "configuring the dispatcher with a higher `iteration_gc_timeout_ms`."
            )
        self._heard_s[client] = now_s
        if current_round is not None:
            iteration.rounds[client] = current_round
            self._agree(iteration, client, current_round, blocked_round)
        return iteration

    def _agree(
        self, iteration: Iteration, client: int, current_round: int, blocked_round: int | None
    ) -> None:
        """Let a client agree to the round in which the first waiting task is to begin, or not."""
        if not iteration.pending:
            return
        waiting = iteration.pending[0]
        update = pb.ClientHeartbeatUpdate(iteration_client_id=client)
        if current_round >= waiting.target_round:
            # Later and later, until the time is enough for all to hear of it.
            update.task_rejected.new_target_round = current_round + 2 ** (waiting.failures + 1)
        elif (
            blocked_round is not None
            and blocked_round <= waiting.target_round
            and client not in waiting.ready
        ):
            update.task_accepted = True
        else:
            return
        self._changes.make(client_heartbeat=update)

    def _on_heartbeat(self, update: pb.ClientHeartbeatUpdate) -> None:
        iteration = self._known[update.iteration_client_id]
        waiting = iteration.pending[0]
        if update.HasField("task_rejected"):
            waiting.failures += 1
            waiting.target_round = update.task_rejected.new_target_round
            waiting.ready.clear()
        if update.task_accepted:
            waiting.ready.add(update.iteration_client_id)
            if len(waiting.ready) == iteration.job.num_consumers:
                waiting.task.starting_round = waiting.target_round
                iteration.tasks.append(waiting.task)
                del iteration.pending[0]

    def release(self, client: int, now_s: float) -> None:
        """Forget a client.  Raises: NotFoundError for an unknown one."""
        iteration = self._known.get(client)
        if iteration is None:
            raise errors.NotFoundError(f"Iteration client id not found: {client}")
        update = pb.ReleaseIterationClientUpdate(iteration_client_id=client)
        self._changes.make(release_iteration_client=update)
        if not iteration.clients:
            iteration.idle_since_s = now_s

    def _on_release(self, update: pb.ReleaseIterationClientUpdate) -> None:
        client = update.iteration_client_id
        iteration = self._known.pop(client)
        self._heard_s.pop(client, None)
        iteration.clients.discard(client)
        iteration.rounds.pop(client, None)

    def release_silent(self, now_s: float, timeout_s: float) -> None:
        """Forget those that have said nothing for longer than the time-out."""
        for client, heard_s in list(self._heard_s.items()):
            if now_s - heard_s > timeout_s:
                self.release(client, now_s)

    def validate(self) -> None:
        """Check what must hold at all times."""
        for client, iteration in self._known.items():
            assert client in iteration.clients
