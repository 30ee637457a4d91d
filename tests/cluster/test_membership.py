"""Which tasks of a coordinated cluster are there, decided without I/O and in a time of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tideflow.cluster.coordination.membership import (
    EndBarrier,
    EndErrorWaits,
    Membership,
    Refuse,
    TaskRecord,
    Tell,
    Wait,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb

KEY = ("meet", 0)


def make(count: int = 3, **options: Any) -> Membership:
    config = pb.CoordinationServiceConfig(heartbeat_timeout_in_ms=10_000, **options)
    config.coordinated_job_list.add(name="worker", num_tasks=count)
    return Membership(config)


def task(members: Membership, number: int) -> TaskRecord:
    return members.find(pb.CoordinatedTask(job_name="worker", task_id=number))


def register(members: Membership, number: int, now_s: float, incarnation: int = 7) -> Sequence[Any]:
    record = task(members, number)
    return members.registered(record, record.task_pb, incarnation, now_s)


@pytest.fixture
def members() -> Iterator[Membership]:
    made = make()
    for number in range(3):
        assert list(register(made, number, 0.0)) == []
    yield made
    made.validate()


def test_a_silent_task_is_lost_and_the_others_are_told(members: Membership) -> None:
    one, two, three = (task(members, number) for number in range(3))
    members.heartbeat(one, 7, 8.0)
    members.heartbeat(three, 7, 9.0)
    assert list(members.looked(9.9)) == []
    assert members.look_at_s(9.9) == pytest.approx(10.4)  # not at once, however close it is
    *told, end = members.looked(10.4)
    assert [(one_told.other, one_told.record) for one_told in told] == [(one, two), (three, two)]
    assert isinstance(end, EndErrorWaits)
    assert "10.40 s ago registered" in str(two.error)
    (refused,) = members.heartbeat(two, 7, 11.0)
    assert refused == Refuse(two.error)
    assert members.first_error() is two.error


def test_the_loss_of_a_recoverable_task_ends_its_barriers_alone() -> None:
    members = make()
    record = task(members, 1)
    record.task_pb.recoverable = True
    for number in range(3):
        register(members, number, 0.0)
    assert list(members.arrived(KEY, task(members, 0), (), 0.0, 0.0)) == [Wait(KEY)]
    error = errors.UnavailableError("lost")
    assert list(members.failed(record, error, 1.0)) == [EndBarrier(KEY, error)]
    assert members.first_error() is None
    members.validate()


def test_another_life_fails_the_first_one(members: Membership) -> None:
    *_, refused = register(members, 0, 1.0, incarnation=8)
    assert isinstance(refused, Refuse)
    assert "different incarnation" in str(refused.error)
    (again,) = register(members, 0, 2.0)
    assert "must be reset first" in str(again.error)
    members.reset(task(members, 0), 3.0)
    assert list(register(members, 0, 4.0)) == []
    (never,) = members.reset(task(members, 1), 5.0)
    assert isinstance(never.error, errors.FailedPreconditionError)


def test_all_who_come_to_a_barrier_pass_and_may_ask_again(members: Membership) -> None:
    one, two, three = (task(members, number) for number in range(3))
    assert list(members.arrived(KEY, one, (), 0.0, 0.0)) == [Wait(KEY)]
    assert list(members.arrived(KEY, two, (), 0.0, 1.0)) == [Wait(KEY)]
    assert list(members.arrived(KEY, three, (), 0.0, 2.0)) == [EndBarrier(KEY, None)]
    assert list(members.arrived(KEY, one, (), 0.0, 3.0)) == []


def test_those_who_disagree_on_a_barrier_fail_together(members: Membership) -> None:
    members.arrived(KEY, task(members, 0), (), 0.0, 0.0)
    end, refused = members.arrived(KEY, task(members, 1), [task(members, 1).task_pb], 0.0, 0.0)
    assert end == EndBarrier(KEY, refused.error)
    assert isinstance(refused.error, errors.InvalidArgumentError)


def test_a_late_barrier_says_what_is_known_of_those_who_did_not_come() -> None:
    members = make()
    for number in (0, 1):
        register(members, number, 0.0)
    members.arrived(KEY, task(members, 0), (), 5.0, 1.0)
    assert members.look_at_s(1.0) == 6.0
    (end,) = members.looked(6.0)
    assert "worker/replica:0/task:1 (6.00 s ago registered)" in str(end.error)
    assert "worker/replica:0/task:2 (it has never registered)" in str(end.error)
    members.validate()


def test_a_cancelled_barrier_and_the_end_of_the_service_end_all_waits(members: Membership) -> None:
    members.arrived(KEY, task(members, 0), (), 0.0, 0.0)
    (end,) = members.barrier_cancelled(KEY, task(members, 1), 1.0)
    assert isinstance(end.error, errors.CancelledError)
    assert list(members.barrier_cancelled(KEY, task(members, 1), 1.0)) == []
    members.arrived(KEY, task(members, 0), (), 0.0, 2.0)
    assert [type(one) for one in members.closed()] == [EndBarrier, EndErrorWaits]
    assert members.look_at_s(3.0) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_thousand_events_break_nothing(seed: int) -> None:
    draw = random.Random(seed)
    members, now_s = make(5, allow_new_incarnation_to_reconnect=bool(seed % 2)), 0.0
    waiting: set[Any] = set()
    for _ in range(1000):
        now_s += draw.expovariate(1)
        number = draw.randrange(5)
        record = task(members, number)
        key = (draw.choice("ab"), draw.randrange(2))
        match draw.randrange(8):
            case 0 | 1:
                found = register(members, number, now_s, draw.choice([7, 7, 7, 8]))
            case 2 | 3:
                found = members.heartbeat(record, record.incarnation, now_s)
            case 4:
                timeout_s = draw.choice([0.0, 5.0])
                found = members.arrived(key, record, (), timeout_s, now_s)
            case 5:
                found = members.left(record, now_s)
            case 6:
                found = members.reset(record, now_s)
            case _:
                found = members.looked(now_s)
        for one in found:
            match one:
                case Wait(of):
                    waiting.add(of)
                case EndBarrier(of, _):
                    waiting.discard(of)
                case Tell(other, about, _):
                    assert other.is_connected
                    assert about is not other
        members.validate()
        # Who waits at a barrier does so as long as it is open, and no longer.
        assert waiting == set(members.open_barriers())
    members.closed()
    members.validate()
