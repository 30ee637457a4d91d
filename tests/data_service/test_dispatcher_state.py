"""What a dispatcher decides about datasets, jobs, workers, tasks and clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideflow.data_service.dispatcher_state import DispatcherState, Iteration, Job
from tideflow.ops.data import Splits
from tideflow.wire import errors
from tideflow.wire import messages as pb


class Kept:
    """Keeps what a state tells, as bytes, like a journal."""

    def __init__(self) -> None:
        self.updates: list[bytes] = []

    def keep(self, dataset_id: str, definition: pb.DatasetDef) -> None:
        assert definition is not None
        assert dataset_id

    def record(self, update: pb.Update) -> None:
        self.updates.append(update.SerializeToString())

    def state_again(self) -> DispatcherState:
        """Return the state that the updates give."""
        made = DispatcherState()
        for update in self.updates:
            made.replay(pb.Update.FromString(update))
        made.validate()
        return made


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def state(kept) -> Iterator[DispatcherState]:
    made = DispatcherState((), kept)
    yield made
    made.validate()
    again = kept.state_again()
    assert list(again.workers.known) == list(made.workers.known)
    for address in made.workers.known:
        assert beat(again, address) == beat(made, address), "its tasks are the same"


def register(state: DispatcherState, name: str = "") -> str:
    request = pb.GetOrRegisterDatasetRequest()
    if name:
        request.dataset_id = name
    return state.datasets.register(request).id


def job_of(state: DispatcherState, name: str = "", policy: int = 0) -> Job:
    request = pb.GetOrCreateJobRequest(dataset_id=register(state))
    request.processing_mode_def.sharding_policy = policy
    if name:
        request.job_name = name
    return state.jobs.of(request)


def beat(state: DispatcherState, address: str, *current: int) -> tuple[list[int], list[int]]:
    request = pb.DataWorkerHeartbeatRequest(worker_address=address, current_tasks=current)
    new, gone = state.heard_of_worker(request)
    return [task.id for task in new], gone


def start(state: DispatcherState, job: Job, repetition: int = 0, count: int = 3) -> Iteration:
    return state.start_iteration(job, repetition, [Splits(range(count), lambda i: (i,))])


def test_each_dataset_has_an_id_of_its_own(state):
    assert register(state) != register(state)


def test_a_wanted_id_is_given_once_and_then_found(state):
    assert register(state, "mine") == register(state, "mine") == "mine"


def test_another_structure_under_the_same_id_is_refused(state):
    given = pb.GetOrRegisterDatasetRequest(dataset_id="mine")
    given.metadata.element_spec = b"one"
    state.datasets.register(given)
    other = pb.GetOrRegisterDatasetRequest(dataset_id="mine")
    other.metadata.element_spec = b"another"
    with pytest.raises(errors.InvalidArgumentError, match="same structure"):
        state.datasets.register(other)


def test_a_dataset_that_is_not_there_is_named(state):
    with pytest.raises(errors.NotFoundError, match="Dataset id 5 not found"):
        state.datasets.by_id("5")


def test_jobs_without_names_are_apart_and_those_with_one_name_are_one(state):
    assert job_of(state) is not job_of(state)
    assert job_of(state, "shared") is job_of(state, "shared")


def test_a_job_of_the_same_name_and_another_mode_is_refused(state):
    job_of(state, "shared", pb.ProcessingModeDef.OFF)
    with pytest.raises(errors.InvalidArgumentError, match="mode: <>; got <sharding_policy"):
        job_of(state, "shared", pb.ProcessingModeDef.DYNAMIC)


def test_workers_before_and_after_the_start_get_tasks(state):
    assert beat(state, "a:1") == ([], [])
    made = start(state, job_of(state))
    [first], _ = beat(state, "a:1")
    [second], _ = beat(state, "b:1")
    assert [task.id for task in made.tasks] == [first, second]


def test_a_worker_that_comes_back_gets_its_tasks_again(state):
    beat(state, "a:1")
    start(state, job_of(state))
    [task], _ = beat(state, "a:1")
    assert beat(state, "a:1", task) == ([], [])
    assert beat(state, "a:1") == ([task], [])


def test_an_iteration_is_finished_with_its_last_task(state):
    for address in ("a:1", "b:1"):
        beat(state, address)
    made = start(state, job_of(state))
    one, other = made.tasks
    state.tasks.finish(one.id)
    assert not made.is_finished
    state.tasks.finish(other.id)
    assert made.is_finished
    assert beat(state, "a:1", one.id) == ([], [one.id])


def test_each_split_is_given_once_in_each_repetition(state):
    made = start(state, job_of(state), count=2)
    assert [state.iterations.split(made.id, 0, 0) for _ in range(3)] == [0, 1, None]
    assert state.iterations.split(made.id, 0, 0) is None, "it has begun the next repetition"
    assert [state.iterations.split(made.id, 1, 0) for _ in range(3)] == [0, 1, None]


def test_who_asks_for_a_later_repetition_ends_the_one_before(state):
    made = start(state, job_of(state), count=2)
    assert state.iterations.split(made.id, 0, 0) == 0
    assert state.iterations.split(made.id, 1, 0) == 0
    assert state.iterations.split(made.id, 0, 0) is None


def test_a_source_that_is_not_there_has_no_splits(state):
    made = start(state, job_of(state))
    with pytest.raises(errors.FailedPreconditionError, match="has no source 1"):
        state.iterations.split(made.id, 0, 1)


def test_an_iteration_goes_when_nobody_has_read_it_for_long(state):
    beat(state, "a:1")
    job = job_of(state)
    made = start(state, job)
    client = state.clients.add(made)
    state.clients.heard_of(client, now_s=0.0)
    state.clients.release(client, now_s=1.0)
    state.collect(now_s=5.0, client_timeout_s=100.0, idle_s=10.0)
    assert state.iterations.of(job, 0) is made
    state.collect(now_s=12.0, client_timeout_s=100.0, idle_s=10.0)
    assert state.iterations.of(job, 0) is None
    assert beat(state, "a:1", made.tasks[0].id) == ([], [made.tasks[0].id])


def test_a_silent_client_is_forgotten(state):
    client = state.clients.add(start(state, job_of(state)))
    state.clients.heard_of(client, now_s=0.0)
    state.collect(now_s=99.0, client_timeout_s=100.0, idle_s=1000.0)
    state.clients.heard_of(client, now_s=99.0)
    state.collect(now_s=200.0, client_timeout_s=100.0, idle_s=1000.0)
    with pytest.raises(errors.NotFoundError, match="Unknown iteration client id"):
        state.clients.heard_of(client, now_s=200.0)


def test_workers_have_places_in_the_list():
    state = DispatcherState(["host", "other:5", "host:%port%"])
    for address in ("host:1", "other:5", "host:2"):
        beat(state, address)
    assert [worker.index for worker in state.workers.known.values()] == [0, 1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="Failed to assign an index"):
        beat(state, "host:3")
    state.validate()


def test_shares_need_a_list_of_workers(state):
    beat(state, "a:1")
    job = job_of(state, policy=pb.ProcessingModeDef.DATA)
    with pytest.raises(errors.NotFoundError, match="not in the workers list"):
        start(state, job)


def test_what_was_kept_gives_the_same_splits_and_clients_again(state, kept):
    beat(state, "a:1")
    job = job_of(state, "shared")
    made = start(state, job)
    client, released = state.clients.add(made), state.clients.add(made)
    state.clients.release(released, now_s=1.0)
    assert [state.iterations.split(made.id, 0, 0) for _ in range(2)] == [0, 1]
    again = kept.state_again()
    [iteration] = again.resume(now_s=5.0)
    iteration.fill([Splits(range(3), lambda i: (i,))])
    assert [again.iterations.split(made.id, 0, 0) for _ in range(2)] == [2, None]
    assert again.iterations.split(made.id, 1, 0) == 0
    assert again.clients.heard_of(client, now_s=6.0) is iteration
    assert (
        again.jobs.of(pb.GetOrCreateJobRequest(job_name="shared", dataset_id="1000")).id == job.id
    )
    assert register(again) not in (job.terms.dataset_id, str(made.id), str(client))


def test_clients_are_not_silent_while_the_dispatcher_is_away(state, kept):
    client = state.clients.add(start(state, job_of(state)))
    again = kept.state_again()
    again.resume(now_s=1000.0)
    again.collect(now_s=1050.0, client_timeout_s=100.0, idle_s=10.0)
    again.clients.heard_of(client, now_s=1050.0)


def test_a_change_that_is_not_known_is_refused(state):
    update = pb.Update()
    update.compression_disabled_at_runtime.dataset_id = "1000"
    with pytest.raises(errors.UnimplementedError, match="compression_disabled_at_runtime"):
        state.replay(update)


# ---- coordinated reads


def coordinated(state: DispatcherState) -> tuple[Iteration, list[int]]:
    """Return an iteration of two consumers, which has a worker, and their ids."""
    beat(state, "a:1")
    request = pb.GetOrCreateJobRequest(dataset_id=register(state), num_consumers=2, job_name="j")
    made = state.start_iteration(state.jobs.of(request), 0, [])
    return made, [state.clients.add(made) for _ in range(2)]


def test_a_late_worker_begins_in_a_round_that_all_consumers_agree_to(state):
    made, clients = coordinated(state)
    for client in clients:
        state.clients.heard_of(client, 0.0, current_round=3)
    [task], _ = beat(state, "b:1")
    [waiting] = made.pending
    assert waiting.target_round == 4
    state.clients.heard_of(clients[0], 0.0, current_round=3, blocked_round=4)
    assert len(made.tasks) == 1
    state.clients.heard_of(clients[1], 0.0, current_round=3, blocked_round=4)
    assert [(one.id, one.starting_round) for one in made.tasks[1:]] == [(task, 4)]
    assert not made.pending


def test_a_round_that_a_consumer_has_begun_is_put_off_for_all(state):
    made, clients = coordinated(state)
    beat(state, "b:1")
    state.clients.heard_of(clients[0], 0.0, current_round=0, blocked_round=1)
    state.clients.heard_of(clients[1], 0.0, current_round=7)
    assert made.pending[0].target_round == 9
    state.clients.heard_of(clients[1], 0.0, current_round=8, blocked_round=9)
    assert made.pending, "the first consumer has to agree again"
    state.clients.heard_of(clients[0], 0.0, current_round=1, blocked_round=9)
    assert made.tasks[-1].starting_round == 9


def test_a_task_that_is_removed_is_taken_from_its_worker(state):
    made, _ = coordinated(state)
    [task] = made.tasks
    state.tasks.remove(task.id)
    assert made.tasks == []
    assert beat(state, "a:1", task.id) == ([], [task.id])
    with pytest.raises(errors.NotFoundError, match="not found"):
        state.tasks.remove(task.id)
