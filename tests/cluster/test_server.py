"""A server's life: new, started, stopped; and what keeps it from starting."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

import tideflow
from cluster.servers import SOURCE, free_ports, make_spec, suspend
from real_time import within
from tideflow.cluster import ClusterSpec, Server, local_servers
from tideflow.cluster.server import ServerState, register_server_factory
from tideflow.cluster.services import MasterService, WorkerService
from tideflow.cluster.status import StatusService
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import encode_tensor


@pytest.fixture
def server():
    made = Server.create_local_server()
    yield made
    made.stop()


def ask(target: str, service, method: str, request):
    """Call one method of a server."""

    async def asked():
        channel = make_channel(target)
        try:
            return await getattr(stub(service, channel), method)(request, timeout_s=10)
        finally:
            await channel.close()

    return run_sync(asked())


def devices(target: str) -> list[str]:
    response = ask(target, WorkerService, "GetStatus", pb.GetStatusRequest())
    return [device.name for device in response.device_attributes]


# ---- life


def test_a_local_server_is_started_on_a_free_port(server):
    assert server.state is ServerState.STARTED
    assert server.target.startswith("grpc://localhost:")
    assert not server.target.endswith(":0")
    assert devices(server.target) == ["/job:localhost/replica:0/task:0/device:CPU:0"]


def test_a_server_can_be_made_now_and_started_later():
    server = Server.create_local_server(start=False)
    assert server.state is ServerState.NEW
    with pytest.raises(errors.FailedPreconditionError, match=r"call start\(\) first"):
        _ = server.target
    server.start()
    server.start()
    assert devices(server.target)
    server.stop()
    assert server.state is ServerState.STOPPED


def test_a_stopped_server_stays_stopped(server):
    target = server.target
    server.stop()
    server.stop()
    server.join()
    with pytest.raises(errors.FailedPreconditionError, match="make a new Server"):
        server.start()
    with pytest.raises(errors.UnavailableError):
        ask(target, WorkerService, "CleanupGraph", pb.CleanupGraphRequest(step_id=1))


def test_joining_a_new_server_ends_it():
    server = Server.create_local_server(start=False)
    server.join()
    with pytest.raises(errors.FailedPreconditionError):
        server.start()


def test_stop_releases_whoever_joined(server):
    joined = threading.Thread(target=server.join)
    joined.start()
    assert joined.is_alive()
    server.stop()
    joined.join(timeout=10)
    assert not joined.is_alive()


def test_a_stopped_server_s_port_can_be_used_again():
    spec = make_spec({"worker": 1})
    for _ in range(2):
        server = Server(spec)
        assert server.target == f"grpc://{spec['worker'][0]}"
        server.stop()


@pytest.mark.real_time
def test_stop_does_not_wait_for_calls_that_block(server):
    async def blocked():
        channel = make_channel(server.target)
        worker = stub(WorkerService, channel)
        status = await worker.GetStatus(pb.GetStatusRequest())
        device = status.device_attributes[0]
        key = f"{device.name};{device.incarnation:016x};{device.name};never;0:0"
        try:
            await worker.RecvTensor(pb.RecvTensorRequest(step_id=1, rendezvous_key=key))
        finally:
            await channel.close()

    failed: list[BaseException] = []

    def wait() -> None:
        try:
            run_sync(blocked())
        except errors.OpError as error:
            failed.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()

    def in_flight() -> int:
        page = ask(server.target, StatusService, "GetServerStatus", pb.ServerStatusRequest())
        return sum(row.in_flight for row in page.method)

    while not in_flight():
        pass
    with within(5):
        server.stop()
    waiter.join(timeout=10)
    assert isinstance(failed[0], errors.UnavailableError)


def test_servers_of_this_process_are_found_by_target(server):
    assert local_servers.find(server.target) is server
    target = server.target
    server.stop()
    assert local_servers.find(target) is None


# ---- what it is made of


def test_the_number_of_devices_is_configured():
    config = pb.ConfigProto(device_count={"CPU": 3})
    server = Server.create_local_server(config)
    try:
        assert [name.rpartition("/")[2] for name in devices(server.target)] == [
            "device:CPU:0", "device:CPU:1", "device:CPU:2",
        ]  # fmt: skip
        assert server.server_def.default_session_config.device_count["CPU"] == 3
    finally:
        server.stop()


def test_arguments_stand_before_those_of_a_server_def():
    cluster = {"ps": ["localhost:0"], "worker": ["localhost:0", "localhost:0"]}
    server_def = pb.ServerDef(
        cluster=ClusterSpec(cluster).as_cluster_def(), job_name="ps", protocol="grpc"
    )
    assert Server(server_def, start=False).server_def.job_name == "ps"
    server = Server(server_def, job_name="worker", task_index=1, start=False)
    assert (server.server_def.job_name, server.server_def.task_index) == ("worker", 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"job_name": "chief"}, "no job 'chief'; its jobs are 'ps', 'worker'"),
        ({"job_name": "worker", "task_index": 2}, "no task 2"),
        ({"job_name": "worker"}, "say which task of job 'worker'"),
        ({}, "say which job"),
    ],
)
def test_an_unclear_place_is_refused(arguments, said):
    cluster = {"ps": ["localhost:0"], "worker": ["localhost:0", "localhost:0"]}
    with pytest.raises(ValueError, match=said):
        Server(cluster, start=False, **arguments)


def test_something_else_is_no_cluster():
    with pytest.raises(TypeError, match="found str"):
        Server("localhost:0")


def test_an_unknown_protocol_is_answered_with_those_that_are_there():
    with pytest.raises(errors.InvalidArgumentError, match="'grpc\\+verbs'; there is: grpc"):
        Server({"local": ["localhost:0"]}, protocol="grpc+verbs")
    with pytest.raises(ValueError, match="already"):
        register_server_factory("grpc", lambda server_pb, options: None)


# ---- addresses


def test_a_port_in_use_is_named_and_the_server_may_try_again():
    (port,) = free_ports(1)
    server = Server({"local": [f"127.0.0.1:{port}"]}, start=False)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        with pytest.raises(errors.AlreadyExistsError, match=f"127.0.0.1:{port}"):
            server.start()
        assert server.state is ServerState.NEW
    server.start()
    server.stop()


def test_it_listens_only_where_the_cluster_says():
    server = Server({"local": ["127.0.0.1:0"]})
    everywhere = Server({"local": ["127.0.0.1:0"]}, listen_all=True, insecure=True)
    try:
        for one, reachable in ((server, False), (everywhere, True)):
            port = int(one.target.rpartition(":")[2])
            with socket.socket() as probe:
                assert (probe.connect_ex(("127.0.0.2", port)) == 0) is reachable
    finally:
        server.stop()
        everywhere.stop()


# ---- the status page


def test_a_server_tells_its_status(server):
    ask(server.target, WorkerService, "GetStatus", pb.GetStatusRequest())
    page = ask(server.target, StatusService, "GetServerStatus", pb.ServerStatusRequest())
    assert page.task == "/job:localhost/replica:0/task:0"
    assert f"grpc://{page.address}" == server.target
    assert page.uptime_s > 0
    assert page.pid > 0
    assert page.version == tideflow.__version__
    assert [device.name for device in page.device] == devices(server.target)
    (row,) = page.method
    assert (row.path, row.calls) == ("/tensorflow.WorkerService/GetStatus", 1)


# ---- in a process of its own


@pytest.mark.processes
def test_ctrl_c_ends_a_joined_server():
    code = (
        "from tideflow.cluster import Server\n"
        "server = Server.create_local_server()\n"
        "try:\n    print(server.target, flush=True)\n    server.join()\n"
        "except KeyboardInterrupt:\n    server.stop()\n    print('stopped')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline().startswith("grpc://")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
        assert out == "stopped\n"
        assert process.returncode == 0


@pytest.mark.processes
@pytest.mark.real_time
def test_stop_ends_in_time_though_a_peer_hangs(start_process):
    spec = make_spec({"ps": 1, "worker": 1})
    ps = start_process(spec, "ps")
    server = Server(spec, "worker", 0)
    try:
        request = pb.CreateSessionRequest()
        request.graph_def.node.add(name="n", op="NoOp", device="/job:ps")
        ask(server.target, MasterService, "CreateSession", request)
        suspend(ps.process)
        with within(5):
            server.stop()
    finally:
        ps.process.send_signal(signal.SIGCONT)
        server.stop()


def test_strange_bytes_on_the_port_disturb_nobody(server):
    host, _, port = server.target.removeprefix("grpc://").rpartition(":")
    for noise in (b"", b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 40):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(noise)
    assert devices(server.target)


def test_the_status_tells_of_sessions_and_variables(server):
    request = pb.CreateSessionRequest()
    node_pb = request.graph_def.node.add(name="v", op="VarHandleOp")
    node_pb.attr["dtype"].type = 1
    node_pb.attr["shape"].shape.dim.add(size=3)
    node_pb.attr["shared_name"].s = b"weights"
    value_pb = request.graph_def.node.add(name="zeros", op="Const")
    value_pb.attr["dtype"].type = 1
    value_pb.attr["value"].tensor.CopyFrom(encode_tensor(np.zeros(3, np.float32)))
    assign_pb = request.graph_def.node.add(name="set", op="AssignVariableOp", input=["v", "zeros"])
    assign_pb.attr["dtype"].type = 1
    handle = ask(server.target, MasterService, "CreateSession", request).session_handle
    step = pb.RunStepRequest(session_handle=handle, target=["set"])
    ask(server.target, MasterService, "RunStep", step)

    page = ask(server.target, StatusService, "GetServerStatus", pb.ServerStatusRequest())
    (session,) = page.master_session
    assert (session.handle, session.node_count, session.step_count) == (handle, 3, 1)
    (part,) = page.worker_session
    assert (part.handle, part.graph_count, part.step_count) == (handle, 1, 1)
    (variable,) = page.resource
    assert (variable.name, variable.container, variable.dtype) == (
        "weights",
        "localhost",
        "float32",
    )
    assert (variable.shape, variable.size_bytes) == ("[3]", 12)

    ask(server.target, MasterService, "CloseSession", pb.CloseSessionRequest(session_handle=handle))
    page = ask(server.target, StatusService, "GetServerStatus", pb.ServerStatusRequest())
    assert not page.master_session
    assert not page.worker_session
    assert len(page.resource) == 1


def test_a_session_that_nobody_uses_goes_in_time_with_its_parts():
    server = Server({"local": ["localhost:0"]}, session_gc_s=0.2)
    try:
        ask(server.target, MasterService, "CreateSession", pb.CreateSessionRequest())
        pages = iter(
            lambda: ask(server.target, StatusService, "GetServerStatus", pb.ServerStatusRequest()),
            None,
        )
        assert next(p for p in pages if not p.master_session and not p.worker_session).device
    finally:
        server.stop()
