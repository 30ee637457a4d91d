"""`tideflow serve` with real processes."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import tideflow.v1 as tf
from cli.commands import Command, tf_config
from cluster.servers import free_ports

pytestmark = pytest.mark.processes

Start = Callable[..., Command]


def one_task() -> dict[str, list[str]]:
    return {"ps": [f"127.0.0.1:{free_ports(1)[0]}"]}


def ready(command: Command) -> str:
    """Return the target that a server prints when it is ready."""
    [line] = command.read_until("is ready at")
    return re.search(r"grpc://\S+", line)[0]


@pytest.mark.real_time
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_runs_steps_until_a_signal(start: Start, number: signal.Signals) -> None:
    cluster = one_task()
    place = ("--job", "ps", "--task", "0", "--cpus", "2")
    command = start("serve", "--cluster", json.dumps(cluster), *place)
    target = ready(command)
    assert target == f"grpc://{cluster['ps'][0]}"
    with tf.Graph().as_default(), tf.Session(target) as session:
        assert session.run(tf.add(1.0, 2.0)) == 3.0
        names = [device.name for device in session.list_devices()]
        assert names == [f"/job:ps/replica:0/task:0/device:CPU:{i}" for i in (0, 1)]
    command.send(number)
    code, _, err = command.end(timeout_s=5)
    assert (code, err) == (0, "")


@pytest.mark.real_time
def test_a_server_stops_while_a_client_is_connected(start: Start) -> None:
    command = start("serve", "--cluster", json.dumps(one_task()), "--job", "ps", "--task", "0")
    with tf.Graph().as_default(), tf.Session(ready(command)) as session:
        session.run(tf.constant(1))
        command.send(signal.SIGTERM)
        assert command.end(timeout_s=5)[0] == 0


def test_the_place_is_read_from_tf_config(start: Start) -> None:
    cluster = one_task()
    assert ready(start("serve", env=tf_config(cluster, "ps", 0))) == f"grpc://{cluster['ps'][0]}"


def test_the_cluster_is_read_from_a_file(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    cluster = one_task()
    path.write_text(json.dumps(cluster))
    command = start("serve", "--cluster", str(path), "--job", "ps", "--task", "0")
    assert cluster["ps"][0] in ready(command)


def test_a_port_in_use_is_named(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        command = start("serve", env=tf_config({"ps": [address]}, "ps", 0))
        code, _, err = command.end()
    assert code == 1
    assert err.startswith("error: ")
    assert address in err
    assert "Traceback" not in err


def test_garbage_on_the_port_leaves_the_server_usable(start: Start) -> None:
    cluster = one_task()
    target = ready(start("serve", env=tf_config(cluster, "ps", 0)))
    host, _, port = cluster["ps"][0].partition(":")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff" * 4096, b"PRI * HTTP/2.0\r\n\r\nSM"):
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            peer.sendall(garbage)
    with tf.Graph().as_default(), tf.Session(target) as session:
        assert session.run(tf.constant(4)) == 4
