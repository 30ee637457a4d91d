"""The benchmarks that are programs of their own run, at a tiny size."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cluster.servers import make_environment

pytestmark = pytest.mark.processes

_TINY_MODEL = ["--layers", "1", "--width", "8", "--heads", "2", "--length", "4", "--batch", "2"]


def run_module(name: str, *options: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options],
        capture_output=True,
        text=True,
        env={**make_environment(), **environment},
        cwd=os.getcwd(),
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_memory_of_a_parameter_server() -> None:
    found = run_module("memory", "--variables", "4", "--size", "16", "--steps", "3")
    assert "MiB" in found


def test_a_transformer_beside_bare_jax() -> None:
    found = run_module("transformer", *_TINY_MODEL, "--vocabulary", "16", "--steps", "3")
    assert "jax.jit" in found


def test_a_transformer_on_an_accelerator() -> None:
    found = run_module(
        "transformer",
        *_TINY_MODEL,
        *("--vocabulary", "16", "--steps", "3", "--device", "gpu"),
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
        TIDEFLOW_ACCELERATORS="cpu=GPU",
    )
    assert "jax.jit" in found


def test_epochs_of_a_keras_model() -> None:
    pytest.importorskip("keras")
    told = ("train", "tideflow", "mlp", "2")
    found = json.loads(run_module("keras_epochs", *told, KERAS_BACKEND="tensorflow"))
    assert [len(found[what]) for what in ("wall", "cpu", "loss")] == [2, 2, 2]
    assert found["loss"][1] < found["loss"][0]
