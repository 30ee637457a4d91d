"""SIGTERM ends a server in five seconds, whatever runs in it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable

import pytest

import tideflow.v1 as tf
from cli.commands import Command
from cluster.servers import free_ports
from real_time import eventually, within
from tideflow.wire import errors

pytestmark = [pytest.mark.processes, pytest.mark.real_time]

# A loop of code in C that never lets the interpreter go: a long number's digits.
_HOLDS_THE_INTERPRETER = """
import sys, threading
sys.set_int_max_str_digits(0)
from tideflow.cli.ending import ended_in_time
with ended_in_time():
    print("ready", flush=True)
    str(7 ** (10 ** 9))
"""


def test_code_that_keeps_the_interpreter_is_killed_and_named(start: Callable[..., Command]) -> None:
    script = (
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\n" + _HOLDS_THE_INTERPRETER
    )
    command = start(program=("-c", script))
    command.read_until("ready")
    with within(5.5):
        command.send(signal.SIGTERM)
        code, _, err = command.end(timeout_s=10)
    assert code in (-signal.SIGABRT, -signal.SIGKILL)
    assert "did not end within 4.75 s" in err
    assert "in <module>" in err


def test_an_endless_loop_in_a_step_does_not_keep_a_server(start: Callable[..., Command]) -> None:
    cluster = {"ps": [f"127.0.0.1:{free_ports(1)[0]}"]}
    command = start("serve", "--cluster", json.dumps(cluster), "--job", "ps", "--task", "0")
    command.read_until("is ready at")
    with tf.Graph().as_default(), tf.Session(f"grpc://{cluster['ps'][0]}") as session:
        turns = tf.get_variable("turns", initializer=0, use_resource=True)
        session.run(turns.initializer)
        endless = tf.while_loop(
            lambda _: True, lambda _: turns.assign_add(1), [tf.constant(0)], back_prop=False
        )

        def run() -> None:
            with pytest.raises(errors.OpError):
                session.run(endless)

        running = threading.Thread(target=run)
        running.start()
        eventually(lambda: session.run(turns) > 0)
        with within(5):
            command.send(signal.SIGTERM)
            command.end(timeout_s=10)
        running.join()
