"""Settings: read once, checked, told apart by where they come from, and each server's own."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tideflow.platform.settings import Settings
from tideflow.wire import errors

SOURCE = Path(__file__).parents[2] / "src"


def origins(settings: Settings) -> dict[str, str]:
    return {one.name: one.origin for one in settings.described() if one.origin != "default"}


def test_each_setting_has_a_variable_a_default_and_a_meaning() -> None:
    for one in Settings().described():
        assert one.variable == f"TIDEFLOW_{one.name.upper()}"
        assert one.value == one.default
        assert one.origin == "default"
        assert one.meaning.endswith(".")


def test_values_come_from_variables_and_arguments() -> None:
    found = Settings.from_environment({"TIDEFLOW_JIT": "Never", "TIDEFLOW_SPIN": "40", "HOME": "/"})
    assert (found.jit, found.spin, found.peer) == ("never", 40, True)
    assert origins(found) == {"jit": "environment variable", "spin": "environment variable"}
    changed = found.replace(spin=False, wait_s=3.0)
    assert origins(changed) == {
        "jit": "environment variable", "spin": "argument", "wait_s": "argument",
    }  # fmt: skip
    assert found.with_words(["peer=off", "jit_cache=/x=y"]) == found.replace(
        peer=False, jit_cache="/x=y"
    )
    with pytest.raises(FrozenInstanceError):
        found.peer = False  # type: ignore[misc]


def test_an_empty_variable_counts_as_none() -> None:
    found = Settings.from_environment({"TIDEFLOW_PEER": ""})
    assert found == Settings()
    assert origins(found) == {}


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("TIDEFLOW_JIT", "sometimes", "one of never, auto, always"),
        ("TIDEFLOW_ACCELERATORS", "cpu", "such as cpu=GPU"),
        ("TIDEFLOW_GRPC", "http", "one of grpcio, h2"),
        ("TIDEFLOW_PEER", "maybe", "on or off"),
        ("TIDEFLOW_SHARED_MEMORY", "-1", "on, off, or a number of MiB"),
        ("TIDEFLOW_SHARED_MEMORY", "1.5", "on, off, or a number of MiB"),
        ("TIDEFLOW_WAIT_S", "0", "a number of seconds above 0"),
        ("TIDEFLOW_WAIT_S", "nan", "a number of seconds above 0"),
        ("TIDEFLOW_SILENCE_S", "soon", "from 0.2 to 3600"),
        ("TIDEFLOW_SILENCE_S", "0.1", "from 0.2 to 3600"),
        ("TIDEFLOW_SPIN", "10001", "up to 10000 microseconds"),
        ("TIDEFLOW_SPIN", "yes", "up to 10000 microseconds"),
    ],
)
def test_a_variable_without_sense_is_refused(variable: str, text: str, expected: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as found:
        Settings.from_environment({variable: text})
    assert found.value.message.startswith(f"{variable} is {text!r}; it must be ")
    assert expected in found.value.message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"peer": "off"}, "the setting peer is 'off'; it must be on or off"),
        ({"peer": 1}, "the setting peer is 1"),
        ({"spin": 20_000}, "the setting spin is 20000"),
        ({"silence_s": True}, "the setting silence_s is True"),
        ({"jit": "ever"}, "the setting jit is 'ever'; it must be one of never, auto, always"),
        ({"jitt": "never"}, "there is no setting 'jitt'; there is jit, "),
    ],
)
def test_an_argument_without_sense_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as found:
        Settings().replace(**changes)
    assert said in found.value.message


@pytest.mark.parametrize("word", ["peer", "peer=maybe", "per=on", "=on"])
def test_a_word_without_sense_is_refused(word: str) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        Settings().with_words([word])


def test_an_unknown_variable_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tideflow"):
        Settings.from_environment({"TIDEFLOW_JITT": "never", "TIDEFLOW_TEST_ANYTHING": "1"})
    (record,) = caplog.records
    assert "TIDEFLOW_JITT is no setting of tideflow; did you mean TIDEFLOW_JIT?" in record.message


_TWO_SERVERS = """
import os, sys
import numpy as np
import tideflow.v1 as tf
from tideflow.cluster.peers.service import PeerService
from tideflow.platform.settings import Settings, process_settings
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub

tf.disable_eager_execution()
always = tf.ConfigProto()
always.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_2
quiet = Settings(jit="never", peer=False, shared_memory=False)
plain = tf.train.Server({"local": ["127.0.0.1:0"]}, settings=quiet)
full = tf.train.Server({"local": ["127.0.0.1:0"]})
# Read once: what is set afterwards has no effect.
os.environ["TIDEFLOW_JIT"] = "never"

def offers_lines(server):
    async def ask():
        channel = make_channel(server.target)
        try:
            async def nothing():
                return
                yield
            async for _ in stub(PeerService, channel).Exchange(nothing()):
                pass
            return True
        except tf.errors.UnimplementedError:
            return False
        finally:
            await channel.close()
    return run_sync(ask(), 30)

def compiles(server):
    x = tf.placeholder(tf.float32, [64, 64])
    with tf.Session(server.target, config=always) as session:
        session.run(tf.exp(x @ x) + 1.0, {x: np.ones((64, 64), np.float32)})
    return "jax" in sys.modules  # which nothing else imports

print(offers_lines(plain), compiles(plain), offers_lines(full), compiles(full))
"""


@pytest.mark.processes
def test_two_servers_of_one_process_may_differ() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TWO_SERVERS],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False", "True", "True"]
