"""A cluster with certificates, from `tideflow certs` on: processes that know each other by them."""

from __future__ import annotations

import contextlib
import json
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

import tideflow
import tideflow.v1 as tf
from cli.commands import Command
from cluster.servers import free_ports
from tideflow.eager.context import Context, context, replace_context
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution
from tideflow.platform.settings import Settings, using
from tideflow.wire import errors

Start = Callable[..., Command]
Invoke = Callable[..., Result]

# As if they were on several hosts.
APART = ("--set", "shared_memory=off")


def cluster_of(*tasks: str) -> dict[str, list[str]]:
    return {job: [f"127.0.0.1:{port}"] for job, port in zip(tasks, free_ports(len(tasks)))}


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_it_makes_a_folder_for_each_who_needs_one(invoke: Invoke, tmp_path: Path) -> None:
    cluster = json.dumps(cluster_of("ps", "worker"))
    result = invoke("certs", str(tmp_path / "certs"), "--cluster", cluster, "--days", "2")
    assert result.exit_code == 0, result.output
    assert "2 tasks" in result.output
    folder = tmp_path / "certs"
    names = {"ps-0", "worker-0", "client", "reader"}
    assert {one.name for one in folder.iterdir()} == {*names, "ca.pem", "ca-key.pem"}
    for name in names:
        assert mode_of(folder / name / "key.pem") == 0o600
    assert mode_of(folder / "ca-key.pem") == 0o600


def test_another_authority_joins_the_first(invoke: Invoke, tmp_path: Path) -> None:
    cluster = json.dumps(cluster_of("ps"))
    for more in ((), (), ("--new-ca",)):
        assert invoke("certs", str(tmp_path), "--cluster", cluster, *more).exit_code == 0
    assert (tmp_path / "ca.pem").read_text().count("BEGIN CERTIFICATE") == 2
    assert (tmp_path / "ps-0" / "ca.pem").read_text() == (tmp_path / "ca.pem").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("certs", "{folder}", "--cluster", "no"), "Give --cluster JSON"),
        (("serve", "--tls", "{folder}"), "holds no certificate"),
        (("serve", "--cert", __file__), "belong together"),
        (
            ("status", "localhost:1", "--token-file", __file__, "--tls", "{folder}"),
            "no certificate",
        ),
    ],
)
def test_what_makes_no_sense_is_told(
    invoke: Invoke, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    result = invoke(*(one.format(folder=tmp_path) for one in arguments))
    assert result.exit_code == 2
    assert words in result.output


@pytest.fixture
def secured(start: Start, invoke: Invoke, tmp_path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Tasks with certificates; give their targets by job, and the folder."""
    cluster = cluster_of("ps", "worker")
    folder = str(tmp_path)
    assert invoke("certs", folder, "--cluster", json.dumps(cluster)).exit_code == 0
    commands = {
        job: start(
            *("serve", "--cluster", json.dumps(cluster), "--job", job, "--task", "0"),
            *("--tls", folder, *APART),
        )
        for job in cluster
    }
    for command in commands.values():
        command.read_until("is ready at")
    yield {job: f"grpc://{addresses[0]}" for job, addresses in cluster.items()}, folder
    for command in commands.values():
        command.send(signal.SIGHUP)
        command.send(signal.SIGTERM)
        assert command.end(timeout_s=20)[0] == 0


@contextlib.contextmanager
def eager_client(jobs: dict[str, list[str]]) -> Iterator[None]:
    enable_eager_execution()
    replace_context(Context())
    try:
        tideflow.config.experimental_connect_to_cluster(tideflow.train.ClusterSpec(jobs))
        yield
    finally:
        context().disconnect()
        replace_context(None)
        disable_eager_execution()


@pytest.mark.processes
def test_sessions_eager_programs_and_status_use_certificates(
    secured: tuple[dict[str, str], str], invoke: Invoke
) -> None:
    targets, folder = secured
    mine = Settings(tls=folder, shared_memory=False)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            variable = tf.Variable([1.0, 2.0])
        with tf.device("/job:worker/task:0"):
            doubled = variable * 2.0
        with tf.Session(targets["worker"], settings=mine) as session:
            session.run(variable.initializer)
            assert session.run(doubled).tolist() == [2.0, 4.0]
        nobody = Settings(shared_memory=False, wait_s=1.0)
        with tf.Session(targets["worker"], settings=nobody) as session:
            with pytest.raises((errors.DeadlineExceededError, errors.UnimplementedError)):
                session.run(doubled)
    with using(mine), eager_client({job: [one[7:]] for job, one in targets.items()}):
        with tideflow.device("/job:ps/task:0"):
            far = tideflow.constant([1.0, 2.0])
        with tideflow.device("/job:worker/task:0"):
            assert (far + 1.0).numpy().tolist() == [2.0, 3.0]
    result = invoke("status", targets["ps"], "--tls", folder)
    assert result.exit_code == 0, result.output
    assert result.output.count(" up ") >= 2
    assert "warning" not in result.output


@pytest.mark.processes
def test_status_warns_of_a_server_that_is_open(start: Start, invoke: Invoke) -> None:
    cluster = cluster_of("ps")
    place = ("--job", "ps", "--task", "0")
    command = start("serve", "--cluster", json.dumps(cluster), *place, "--insecure")
    command.read_until("is ready at")
    result = invoke("status", cluster["ps"][0])
    assert "warning: /job:ps/task:0 answers whoever reaches it (--insecure)" in result.output
    command.send(signal.SIGTERM)
    command.end(timeout_s=20)


@pytest.mark.processes
def test_beyond_loopback_a_task_does_not_start_without_certificates(start: Start) -> None:
    cluster = {"ps": [f"0.0.0.0:{free_ports(1)[0]}"]}
    command = start("serve", "--cluster", json.dumps(cluster), "--job", "ps", "--task", "0")
    code, _, err = command.end(timeout_s=60)
    assert code == 1
    assert "--insecure" in err
    assert "tideflow proxy" in err
