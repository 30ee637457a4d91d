"""`tideflow serve --set memory=MIB`: what takes more is refused, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tideflow.v1 as tf
from cli.commands import Command
from cluster.servers import free_ports
from tideflow.wire import errors

pytestmark = pytest.mark.processes

_MOST_MIB = 400


def highest_mib(command: Command) -> int:
    """Return how much memory the process of a command has held at most."""
    lines = Path(f"/proc/{command.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def test_what_takes_more_memory_is_refused(start: Callable[..., Command]) -> None:
    cluster = {"ps": [f"127.0.0.1:{free_ports(1)[0]}"]}
    place = ("--cluster", json.dumps(cluster), "--job", "ps", "--task", "0")
    command = start("serve", *place, "--set", f"memory={_MOST_MIB}")
    command.read_until("is ready at")
    with tf.Graph().as_default(), tf.Session(f"grpc://{cluster['ps'][0]}") as session:
        count, sent = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32)
        filled = tf.reduce_sum(tf.fill([count], 1.0))
        product = tf.reduce_sum(tf.ones([count, 1]) * tf.ones([1, count]))
        large = np.zeros(1 << 27, np.float32)
        for made, feeds in (
            (filled, {count: 1 << 29}),
            (product, {count: 30_000}),
            (tf.shape(sent), {sent: large}),
        ):
            with pytest.raises(errors.ResourceExhaustedError, match=r"Unable to allocate|it may"):
                session.run(made, feeds)
            assert session.run(filled, {count: 1000}) == 1000.0
    assert highest_mib(command) < 2 * _MOST_MIB


def test_a_server_that_other_hosts_reach_gives_graphs_no_files(
    start: Callable[..., Command], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for more, is_refused in (((), True), (("--file-root", str(tmp_path)), False)):
        port = free_ports(1)[0]
        cluster = {"ps": [f"0.0.0.0:{port}"]}
        place = ("--cluster", json.dumps(cluster), "--job", "ps", "--task", "0", "--insecure")
        command = start("serve", *place, *more)
        command.read_until("is ready at")
        with tf.Graph().as_default(), tf.Session(f"grpc://127.0.0.1:{port}") as session:
            read = tf.io.read_file(str(tmp_path / "file"))
            if is_refused:
                with pytest.raises(errors.PermissionDeniedError, match="may reach none"):
                    session.run(read)
            else:
                assert session.run(read) == b"x"
        command.close()
