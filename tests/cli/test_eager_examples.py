"""The examples of the TF2 shape, as a user runs them."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

import pytest

from cluster.servers import free_ports, make_environment

pytestmark = pytest.mark.processes

needs_keras = pytest.mark.skipif(
    importlib.util.find_spec("keras") is None, reason="Keras is not installed"
)


def run_example(name: str, *options: str, launcher: tuple[str, ...] = (), times: int = 1) -> str:
    done = subprocess.run(
        [sys.executable, *launcher, f"examples/{name}.py", *options],
        capture_output=True,
        text=True,
        env=make_environment(),
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"test accuracy ([0-9.]+)", done.stdout)
    assert len(found) == times
    assert all(float(one) >= 0.95 for one in found)
    return done.stdout


@pytest.mark.parametrize("option", ["--as_function", "--noas_function"])
def test_eager_training(option: str) -> None:
    assert "job:localhost" in run_example("digits_eager", option)


def test_training_on_another_task() -> None:
    [port] = free_ports(1)
    address = f"localhost:{port}"
    place = ["--cluster", json.dumps({"worker": [address]}), "--job", "worker", "--task", "0"]
    server = subprocess.Popen(
        [sys.executable, "-m", "tideflow", "serve", *place],
        stdout=subprocess.PIPE,
        text=True,
        env=make_environment(),
    )
    try:
        assert server.stdout is not None
        assert "is ready" in server.stdout.readline()
        assert "trained on /job:worker" in run_example(
            "digits_eager", "--worker", f"localhost:{port}"
        )
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


def test_mirrored_training() -> None:
    assert "2 replicas" in run_example("digits_mirrored")


def test_training_on_workers_in_step() -> None:
    launcher = ("-m", "tideflow", "run", "--ps", "0", "--workers", "2")
    output = run_example("digits_multi_worker", launcher=launcher, times=2)
    losses = re.findall(r"(worker:\d) \| (epoch .*)", output)
    assert {text for one, text in losses if one == "worker:0"} == {
        text for one, text in losses if one == "worker:1"
    }


def test_training_by_a_coordinator() -> None:
    launcher = ("-m", "tideflow", "run", "--coordinator", "--ps", "2", "--workers", "2")
    assert "2 workers" in run_example("digits_coordinator", launcher=launcher)


@needs_keras
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_a_network_of_keras(replicas: str) -> None:
    stand_in = ("-m", "tideflow.as_tensorflow")
    output = run_example("keras_digits", "--replicas", replicas, launcher=stand_in)
    assert f"{replicas} replicas" in output


@needs_keras
def test_a_network_of_keras_by_a_coordinator() -> None:
    options = ("--as-tensorflow", "--coordinator", "--ps", "1", "--workers", "2")
    launcher = ("-m", "tideflow", "run", *options)
    assert "variables on /job:ps" in run_example("keras_coordinator", launcher=launcher)
