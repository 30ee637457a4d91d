"""CoordinationService over real connections: who lives, who failed, barriers and values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.cluster.coordination import CoordinationService
from tideflow.graph.building import apply_op
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb

STATES = pb.CoordinatedTaskState
Make = Callable[..., "Clients"]


class Clients:
    """Two tasks of job worker as the service at task 0 sees them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.tasks = [pb.CoordinatedTask(job_name="worker", task_id=task) for task in range(2)]
        self.channel = make_channel(cluster.target("worker"))
        self.service = stub(CoordinationService, self.channel)

    def call(self, method: str, request: Any) -> Any:
        return run_sync(getattr(self.service, method)(request), 20)

    def both(self, method: str, requests: list[Any]) -> list[Any]:
        async def call() -> list[Any]:
            calls = [getattr(self.service, method)(request) for request in requests]
            return await asyncio.gather(*calls, return_exceptions=True)

        return run_sync(call(), 20)

    def register(self, task: int, incarnation: int = 7) -> Any:
        request = pb.RegisterTaskRequest(source_task=self.tasks[task], incarnation=incarnation)
        return self.call("RegisterTask", request)

    def state(self, task: int) -> pb.CoordinatedTaskStateInfo:
        found = self.call("GetTaskState", pb.GetTaskStateRequest(source_task=[self.tasks[task]]))
        return found.task_state[0]


@pytest.fixture
def make_clients(make_cluster: Callable[..., LocalCluster]) -> Iterator[Make]:
    made: list[Clients] = []

    def make(**facts: Any) -> Clients:
        config = tf.ConfigProto()
        asked = config.experimental.coordination_config
        asked.CopyFrom(
            pb.CoordinationServiceConfig(
                service_type="standalone",
                service_leader="/job:worker/replica:0/task:0",
                **facts,
            )
        )
        made.append(Clients(make_cluster({"worker": 2}, config)))
        return made[-1]

    yield make
    for clients in made:
        run_sync(clients.channel.close())


def test_all_tasks_learn_the_devices_of_all(make_clients: Make) -> None:
    clients = make_clients()
    lives = [clients.register(task).leader_incarnation for task in range(2)]
    assert lives[0] == lives[1] != 0
    requests = []
    for task in (1, 0):
        request = pb.WaitForAllTasksRequest(source_task=clients.tasks[task])
        request.device_info.device.add().Pack(pb.DeviceAttributes(name=f"device {task}"))
        requests.append(request)
    for found in clients.both("WaitForAllTasks", requests):
        names = []
        for packed in found.device_info.device:
            device = pb.DeviceAttributes()
            assert packed.Unpack(device)
            names.append(device.name)
        assert names == ["device 0", "device 1"]


def test_a_task_that_is_silent_is_lost_and_the_others_hear_of_it(make_clients: Make) -> None:
    clients = make_clients(heartbeat_timeout_in_ms=300)
    clients.register(1)
    assert clients.state(1).state == STATES.TASKSTATE_CONNECTED
    with pytest.raises(
        errors.UnavailableError, match=r"stopped sending heartbeats\):\n/job:worker"
    ):
        clients.call("PollForError", pb.PollForErrorRequest(source_task=clients.tasks[0]))
    found = clients.state(1)
    assert found.state == STATES.TASKSTATE_ERROR
    assert found.error_code == 14
    with pytest.raises(errors.UnavailableError):
        clients.call("Heartbeat", pb.HeartbeatRequest(source_task=clients.tasks[1], incarnation=7))
    clients.call("ResetTask", pb.ResetTaskRequest(source_task=clients.tasks[1]))
    clients.register(1, 8)
    assert clients.state(1).incarnation == 8


def test_a_task_in_another_life_is_told_so(make_clients: Make) -> None:
    clients = make_clients()
    clients.register(0)
    with pytest.raises(errors.AbortedError, match="different incarnation"):
        clients.register(0, 8)
    stranger = pb.RegisterTaskRequest(source_task=pb.CoordinatedTask(job_name="ps"))
    with pytest.raises(errors.InvalidArgumentError, match="not coordinated"):
        clients.call("RegisterTask", stranger)


def test_barriers_wait_for_all_and_end_in_time(make_clients: Make) -> None:
    clients = make_clients()
    for task in range(2):
        clients.register(task)
    requests = [pb.BarrierRequest(barrier_id="b", source_task=task) for task in clients.tasks]
    assert [found.counter for found in clients.both("Barrier", requests)] == [0, 0]
    late = pb.BarrierRequest(
        barrier_id="late", source_task=clients.tasks[0], barrier_timeout_in_ms=100
    )
    with pytest.raises(errors.DeadlineExceededError, match="task:1"):
        clients.call("Barrier", late)


def test_values_are_waited_for(make_clients: Make) -> None:
    clients = make_clients()
    with pytest.raises(errors.NotFoundError):
        clients.call("TryGetKeyValue", pb.TryGetKeyValueRequest(key="a/b"))

    async def exchange() -> bytes:
        waiting = asyncio.ensure_future(
            clients.service.GetKeyValue(pb.GetKeyValueRequest(key="a//b"))
        )
        entry = pb.KeyValueEntry(key="/a/b/", value=b"x")
        await clients.service.InsertKeyValue(pb.InsertKeyValueRequest(kv=entry))
        return (await waiting).kv.value

    assert run_sync(exchange(), 20) == b"x"
    again = pb.InsertKeyValueRequest(kv=pb.KeyValueEntry(key="a/b", value=b"y"))
    with pytest.raises(errors.AlreadyExistsError):
        clients.call("InsertKeyValue", again)
    found = clients.call("GetKeyValueDir", pb.GetKeyValueDirRequest(directory_key="a"))
    assert [entry.key for entry in found.kv] == ["a/b"]
    clients.call("DeleteKeyValue", pb.DeleteKeyValueRequest(key="a", is_directory=True))
    with pytest.raises(errors.NotFoundError):
        clients.call("TryGetKeyValue", pb.TryGetKeyValueRequest(key="a/b"))


def test_a_reported_error_ends_the_collectives_of_a_task(make_clients: Make) -> None:
    clients = make_clients()
    for task in range(2):
        clients.register(task)
    with tf.Graph().as_default():
        sums = []
        for task in range(2):
            with tf.device(f"/job:worker/task:{task}"):
                keys = [np.int32(2), np.int32(1), np.int32(5)]
                sums.append(
                    apply_op(
                        "CollectiveReduceV2",
                        tf.ones([2]),
                        *keys,
                        [],
                        merge_op="Add",
                        final_op="Id",
                    )
                )
        with tf.Session(clients.cluster.target("worker")) as session:
            session.run(sums)
            report = pb.ReportErrorToTaskRequest(error_code=14, error_message="gone")
            report.error_payload.source_task.CopyFrom(clients.tasks[1])
            clients.call("ReportErrorToTask", report)
            with pytest.raises(errors.UnavailableError, match="Error reported from /job:worker"):
                session.run(sums)


def test_who_does_not_lead_says_so(make_cluster: Callable[..., LocalCluster]) -> None:
    channel = make_channel(make_cluster({"worker": 1}).target("worker"))
    service = stub(CoordinationService, channel)
    with pytest.raises(errors.InternalError, match="not enabled"):
        run_sync(service.RegisterTask(pb.RegisterTaskRequest()), 20)
    run_sync(channel.close())
