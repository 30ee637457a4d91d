"""Sessions made before their cluster is there: they wait, say what for, and give up in the end."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_spec
from tideflow.client import wait_progress
from tideflow.platform.settings import Settings
from tideflow.wire import errors


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_progress, "REPORT_AFTER_S", 0.2)
    monkeypatch.setattr(wait_progress, "REPORT_EVERY_S", 0.2)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def limited(seconds: float) -> tf.ConfigProto:
    return tf.ConfigProto(operation_timeout_in_ms=int(1000 * seconds))


@pytest.fixture
def worker() -> Iterator[tf.train.Server]:
    """A worker whose ps is not there."""
    made = tf.train.Server(make_spec({"ps": 1, "worker": 1}), "worker", 0)
    yield made
    made.stop()


def test_a_missing_task_is_named_with_its_address_and_the_end_of_patience(
    worker: tf.train.Server, capfd: pytest.CaptureFixture[str]
) -> None:
    ps = f"/job:ps/replica:0/task:0 at {worker.cluster_spec.task_address('ps', 0)}"
    with tf.Session(worker.target, config=limited(1.0)) as session:
        with pytest.raises(errors.DeadlineExceededError, match=re.escape(f"waited for {ps} (")):
            session.run(tf.constant(1.0))
    told = capfd.readouterr().err
    assert f"CreateSession waits for {ps} (" in told
    assert re.search(r"; gives up in [01] s\n", told)


def test_a_session_goes_on_once_the_task_is_there(worker: tf.train.Server) -> None:
    one = tf.constant(1.0)
    session = tf.Session(worker.target)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(session.run(one)))
    thread.start()
    ps = tf.train.Server(worker.cluster_spec, "ps", 0)
    thread.join(30)
    assert found == [1.0]
    session.close()
    ps.stop()


def test_a_missing_master_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    (address,) = make_spec({"worker": 1})["worker"]
    with tf.Session(f"grpc://{address}", config=limited(1.0)) as session:
        with pytest.raises(errors.DeadlineExceededError, match=f"waited for grpc://{address}"):
            session.run(tf.constant(1.0))
    assert f"waits for grpc://{address} (no server can be reached there" in capfd.readouterr().err


def test_the_settings_bound_a_wait_that_nobody_bounded(worker: tf.train.Server) -> None:
    with tf.Session(worker.target, settings=Settings(wait_s=0.3)) as session:
        with pytest.raises(errors.DeadlineExceededError, match=r"0\.3 s.*TIDEFLOW_WAIT_S"):
            session.run(tf.constant(1.0))


@pytest.mark.processes
def test_a_remote_master_tells_what_it_waits_for(
    start_process: Callable[..., ServerProcess], capfd: pytest.CaptureFixture[str]
) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    master = start_process(spec, "worker")
    with tf.Session(master.target, config=limited(1.5)) as session:
        with pytest.raises(errors.DeadlineExceededError, match=spec["ps"][0]):
            session.run(tf.constant(1.0))
    assert f"/job:ps/replica:0/task:0 at {spec['ps'][0]} (" in capfd.readouterr().err
