"""Collectives among the devices of one process, and what the leader of groups keeps."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Coroutine
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tideflow.ops.collectives import CollectiveCall, Kind
from tideflow.runtime.collective_groups import (
    Group,
    GroupTable,
    InstanceRequest,
    JoinRequest,
    Member,
)
from tideflow.runtime.collectives import CollectiveEngine, NoRemoteMembers
from tideflow.runtime.loop import run_sync
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb

TASK = "/job:localhost/replica:0/task:0"


def device(index: int, task: str = TASK) -> str:
    return f"{task}/device:CPU:{index}"


def attributes(name: str, incarnation: int = 1, device_type: str = "CPU") -> pb.DeviceAttributes:
    return pb.DeviceAttributes(name=name, device_type=device_type, incarnation=incarnation)


def make_engine() -> CollectiveEngine:
    return CollectiveEngine(TASK, attributes, NoRemoteMembers())


def make_call(index: int, value: Any, size: int = 2, **facts: Any) -> CollectiveCall:
    given: dict[str, Any] = {
        "kind": Kind.REDUCE,
        "name": f"node{index}",
        "group_key": 1,
        "group_size": size,
        "instance_key": 100,
        "shape": np.shape(value),
        "merge_op": "Add",
        "dtype": dtypes.float32,
    }
    return CollectiveCall(device=device(index), **{**given, **facts})


def run_all(
    make: Callable[[CollectiveEngine], list[Coroutine[Any, Any, Any]]],
) -> list[Any]:
    """Return what each member gets; an error in the place of a result."""

    async def run() -> list[Any]:
        return await asyncio.gather(*make(make_engine()), return_exceptions=True)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("merge_op", "final_op", "expected"),
    [
        ("Add", "Id", [12, -6]),
        ("Add", "Div", [4, -2]),
        ("Mul", "Id", [28, 8]),
        ("Min", "Id", [1, -4]),
        ("Max", "Id", [7, 2]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16])
def test_reduces_in_the_order_of_ranks(
    merge_op: str, final_op: str, expected: list[float], dtype: Any
) -> None:
    inputs = [np.array(row, dtype) for row in ([4, -4], [1, 2], [7, -4])]
    if merge_op == "Mul":
        inputs[2] = np.array([7, -1], dtype)
    if merge_op in ("Min", "Max"):
        inputs[2] = np.array([7, 0], dtype)
    found = run_all(
        lambda engine: [
            engine.run(
                make_call(
                    at,
                    value,
                    3,
                    merge_op=merge_op,
                    final_op=final_op,
                    dtype=dtypes.as_dtype(np.dtype(dtype)),
                ),
                0,
                value,
            )
            for at, value in enumerate(inputs)
        ]
    )
    for result in found:
        assert result.tolist() == expected
        assert result.dtype == dtype


def test_integers_are_divided_towards_zero() -> None:
    value = np.array([-3, 3], np.int32)
    found = run_all(
        lambda engine: [
            engine.run(
                make_call(at, value, final_op="Div", dtype=dtypes.int32),
                0,
                value if at else np.zeros(2, np.int32),
            )
            for at in range(2)
        ]
    )
    assert found[0].tolist() == [-1, 1]


def test_gathers_and_scatters_by_rank() -> None:
    rows = [np.arange(2, dtype=np.float32) + 10 * at for at in range(2)]
    gathered = run_all(
        lambda engine: [
            engine.run(make_call(at, row, kind=Kind.GATHER, shape=(4,), merge_op=""), 0, row)
            for at, row in enumerate(rows)
        ]
    )
    assert [result.tolist() for result in gathered] == [[0, 1, 10, 11]] * 2
    scattered = run_all(
        lambda engine: [
            engine.run(make_call(at, row, kind=Kind.REDUCE_SCATTER), 0, row)
            for at, row in enumerate(rows)
        ]
    )
    assert [result.tolist() for result in scattered] == [[10], [12]]
    swapped = run_all(
        lambda engine: [
            engine.run(make_call(at, row, kind=Kind.ALL_TO_ALL, merge_op=""), 0, row)
            for at, row in enumerate(rows)
        ]
    )
    assert [result.tolist() for result in swapped] == [[0, 10], [1, 11]]


def test_a_broadcast_comes_from_its_source() -> None:
    value = np.array([5.0], np.float32)
    facts: dict[str, Any] = {"kind": Kind.BROADCAST, "merge_op": ""}
    found = run_all(
        lambda engine: [
            engine.run(make_call(0, value, 3, **facts), 0, None),
            engine.run(make_call(1, value, 3, is_source=True, **facts), 0, value),
            engine.run(make_call(2, value, 3, **facts), 0, None),
        ]
    )
    assert [result.tolist() for result in found] == [[5.0]] * 3


@pytest.mark.parametrize(
    ("sources", "code", "text"),
    [
        ([True, True], errors.InternalError, "already has source"),
        ([False, False], errors.InvalidArgumentError, "found no source"),
    ],
)
def test_a_broadcast_has_one_source(sources: list[bool], code: type, text: str) -> None:
    value = np.zeros(1, np.float32)
    found = run_all(
        lambda engine: [
            engine.run(
                make_call(at, value, kind=Kind.BROADCAST, merge_op="", is_source=is_source),
                0,
                value if is_source else None,
            )
            for at, is_source in enumerate(sources)
        ]
    )
    assert any(isinstance(result, code) and text in result.message for result in found)
    assert all(isinstance(result, errors.OpError) for result in found)


def test_members_that_differ_are_named_and_may_try_again() -> None:
    async def run() -> list[Any]:
        engine = make_engine()

        async def reduce(at: int, value: Any, size: int = 3) -> Any:
            return await engine.run(make_call(at, value, size), 0, value)

        shapes = [np.zeros(2, np.float32), np.zeros(3, np.float32), np.zeros(2, np.float32)]
        first = await asyncio.gather(
            *(reduce(at, value) for at, value in enumerate(shapes)), return_exceptions=True
        )
        ones = np.ones(2, np.float32)
        second = await asyncio.gather(*(reduce(at, ones) for at in range(3)))
        return [first, second]

    first, second = asyncio.run(run())
    for error in first:
        assert isinstance(error, errors.InvalidArgumentError)
        assert "float32 [3]" in error.message
        assert "float32 [2]" in error.message
        assert device(1) in error.message
    assert [result.tolist() for result in second] == [[3.0, 3.0]] * 3


def test_an_absent_member_is_waited_for_no_longer_than_the_timeout() -> None:
    value = np.zeros(1, np.float32)
    found = run_all(lambda engine: [engine.run(make_call(0, value, timeout_s=0.05), 0, value)])
    assert isinstance(found[0], errors.DeadlineExceededError)
    assert "Collective has timed out waiting for other workers" in found[0].message
    assert device(0) in found[0].message


def test_a_member_in_another_collective_is_reported_at_the_timeout() -> None:
    value = np.zeros(1, np.float32)
    found = run_all(
        lambda engine: [
            engine.run(make_call(at, value, instance_key=100 + at, timeout_s=0.2), 0, value)
            for at in range(2)
        ]
    )
    assert all(isinstance(result, errors.OpError) for result in found)
    assert "collective 100 of group 1" in found[0].message
    assert "in the same order" in found[0].message


def test_a_member_that_is_cancelled_ends_the_call_of_the_others() -> None:
    async def run() -> Any:
        engine = make_engine()
        value = np.zeros(1, np.float32)
        await asyncio.gather(*(engine.run(make_call(at, value), 0, value) for at in range(2)))
        waiting = [
            asyncio.ensure_future(engine.run(make_call(at, value, instance_key=200), 0, value))
            for at in range(1)
        ]
        giving_up = asyncio.ensure_future(
            engine.run(make_call(1, value, instance_key=201), 0, value)
        )
        await asyncio.sleep(0)
        giving_up.cancel()
        return (await asyncio.gather(*waiting, return_exceptions=True))[0]

    error = asyncio.run(run())
    assert isinstance(error, errors.AbortedError)
    assert device(1) in error.message


# ---- large values: the loop goes on meanwhile (looked at by the loop's monitor, see conftest)

LARGE = 40 << 20  # elements
LARGE_KINDS = {
    "reduce": (Kind.REDUCE, (LARGE,), 3.0),
    "gather": (Kind.GATHER, (2, LARGE), 1.0),
    "broadcast": (Kind.BROADCAST, (LARGE,), 1.0),
    "reduce_scatter": (Kind.REDUCE_SCATTER, (LARGE,), 3.0),
    "all_to_all": (Kind.ALL_TO_ALL, (2, LARGE // 2), 1.0),
}


class OtherTasks(NoRemoteMembers):
    """Members at tasks of this process that have no lines to each other: they run rings."""

    def __init__(self, table: GroupTable, engines: dict[str, CollectiveEngine]) -> None:
        super().__init__()
        self._engines = engines
        self.join = table.join
        self.complete_instance = table.complete_instance

    async def receive(
        self, member: Member, step_id: int, key: str, size_bytes: int, to: str
    ) -> Any:
        """Take a buffer of another task."""
        found = await self._engines[member.task].buffers.take(step_id, key)
        return found.view(np.uint8)


def engines_of(tasks: list[str]) -> list[CollectiveEngine]:
    """Return an engine for each task; one for both members where both are at one task."""
    table, engines = GroupTable(), dict[str, CollectiveEngine]()
    if len(set(tasks)) == 1:
        return [make_engine()] * len(tasks)
    for task in tasks:
        engines[task] = CollectiveEngine(task, attributes, OtherTasks(table, engines))
    return list(engines.values())


@pytest.mark.parametrize("kind", LARGE_KINDS)
@pytest.mark.parametrize("tasks", [[TASK, TASK], [TASK, TASK[:-1] + "1"]], ids=["here", "rings"])
def test_the_loop_goes_on_while_large_values_are_exchanged(kind: str, tasks: list[str]) -> None:
    which, shape, expected = LARGE_KINDS[kind]
    input_shape = shape if which is Kind.ALL_TO_ALL else (LARGE,)
    values = [np.full(input_shape, at + 1.0, np.float32) for at in range(2)]

    async def run() -> list[Any]:
        parts = []
        for at, (engine, value) in enumerate(zip(engines_of(tasks), values)):
            receives = which is Kind.BROADCAST and at == 1
            call = make_call(at, value, kind=which, shape=shape, is_source=at == 0)
            call = dataclasses.replace(call, device=device(at, tasks[at]))
            parts.append(engine.run(call, 0, None if receives else value))
        return list(await asyncio.gather(*parts))

    found = run_sync(run())
    parts = 2 if which is Kind.REDUCE_SCATTER else 1
    assert [result.size for result in found] == [math.prod(shape) // parts] * 2
    assert [result.reshape(-1)[0] for result in found] == [expected] * 2


# ---- groups


def join(
    table: GroupTable, name: str, size: int = 2, incarnation: int = 1, given_up: int = 0
) -> asyncio.Future[Group]:
    member = Member(attributes(name, incarnation), has_lines=True)
    return asyncio.ensure_future(table.join(JoinRequest(7, size, member, given_up)))


def test_ranks_follow_tasks_and_devices_by_number() -> None:
    async def run() -> Group:
        table = GroupTable()
        names = [
            device(0, "/job:worker/replica:0/task:10"),
            device(10, "/job:worker/replica:0/task:2"),
            device(9, "/job:worker/replica:0/task:2"),
        ]
        return (await asyncio.gather(*(join(table, name, 3) for name in names)))[0]

    group = asyncio.run(run())
    assert [member.device[-23:] for member in group.members] == [
        "lica:0/task:2/device:CPU:9"[-23:],
        "ica:0/task:2/device:CPU:10"[-23:],
        "ica:0/task:10/device:CPU:0"[-23:],
    ]
    assert len(group.tasks) == 2


def test_members_that_disagree_on_the_size_all_hear_of_it_once() -> None:
    async def run() -> list[Any]:
        table = GroupTable()
        results = await asyncio.gather(
            join(table, device(0)), join(table, device(1), 3), return_exceptions=True
        )
        late = await asyncio.gather(join(table, device(2), 3), return_exceptions=True)
        again = await asyncio.gather(join(table, device(0)), join(table, device(1)))
        return [*results, *late, again[0].size]

    first, second, late, size = asyncio.run(run())
    for error in (first, second, late):
        assert isinstance(error, errors.InternalError)
        assert "size 3" in error.message
        assert "size 2" in error.message
    assert size == 2


def test_a_stranger_to_a_full_group_is_turned_away_and_the_group_goes_on() -> None:
    async def run() -> list[Any]:
        table = GroupTable()
        first = await asyncio.gather(join(table, device(0)), join(table, device(1)))
        stranger = await asyncio.gather(join(table, device(2)), return_exceptions=True)
        return [first[0].number, stranger[0], (await join(table, device(0))).number]

    number, error, again = asyncio.run(run())
    assert isinstance(error, errors.InternalError)
    assert "full" in error.message
    assert number == again


def test_who_joins_twice_is_one_member() -> None:
    async def run() -> list[Group]:
        table = GroupTable()
        twice = [join(table, device(0)), join(table, device(0))]
        return await asyncio.gather(*twice, join(table, device(1)))

    groups = asyncio.run(run())
    assert {group.number for group in groups} == {groups[0].number}
    assert groups[0].size == 2


def test_a_restarted_member_begins_the_group_anew() -> None:
    async def run() -> list[Group]:
        table = GroupTable()
        old = await asyncio.gather(join(table, device(0)), join(table, device(1)))
        restarted = join(table, device(1), incarnation=2)
        survivor = join(table, device(0), given_up=old[0].number)
        return [old[0], *await asyncio.gather(survivor, restarted)]

    old, survivor, restarted = asyncio.run(run())
    assert survivor.number == restarted.number != old.number
    assert survivor.members[1].incarnation == 2


def test_who_leaves_before_the_group_is_complete_never_joined() -> None:
    async def run() -> Group:
        table = GroupTable()
        leaving = join(table, device(0))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        return (await asyncio.gather(join(table, device(1)), join(table, device(2))))[0]

    assert [member.device for member in asyncio.run(run()).members] == [device(1), device(2)]


def test_a_member_that_asked_before_need_not_ask_again_for_the_source_of_a_broadcast() -> None:
    # TensorFlow's tasks ask once for each instance, whatever clients come later.
    async def run() -> list[int]:
        table = GroupTable()
        names = [device(0), device(1)]
        await asyncio.gather(*(join(table, name) for name in names))

        def ask(name: str, is_source: bool) -> Coroutine[Any, Any, int]:
            kind, shape = int(Kind.BROADCAST), (3,)
            request = InstanceRequest("Broadcast", kind, 1, shape, 7, 2, 5, name, is_source)
            return table.complete_instance(request)

        first = await asyncio.gather(ask(names[0], True), ask(names[1], False))
        return [*first, await ask(names[1], False)]

    assert asyncio.run(run()) == [0, 0, 0]
