"""The main job with real processes: the demo, and the classic script that does the same."""

from __future__ import annotations

import re
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import Command
from cluster.servers import free_ports

pytestmark = pytest.mark.processes

Start = Callable[..., Command]
EXAMPLE = "examples/digits_replica.py"


def accuracy_in(output: str) -> float:
    [found] = re.findall(r"test accuracy ([0-9.]+)", output)
    return float(found)


def test_the_demo_trains_a_classifier(start: Start, tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    code, out, err = start("demo", "--steps", "500", "--svg", str(picture)).end()
    assert (code, err) == (0, "")
    assert accuracy_in(out) >= 0.95
    # Whichever worker was first; on a fast machine it is done before the other has started.
    assert re.search(r"worker:[01]: loss [0-9.]+, [0-9,]+ examples/s", out)
    text = "".join(ET.parse(picture).getroot().itertext()).replace("\xa0", " ")
    assert "worker:0" in text
    assert "test accuracy" in text


def test_a_demo_with_too_few_steps_says_what_to_do(start: Start) -> None:
    code, _, err = start("demo", "--steps", "2", "--workers", "1").end()
    assert code == 1
    assert "0.95 was expected" in err
    assert "more steps" in err


def test_a_demo_with_chaos_goes_on_when_tasks_are_killed(start: Start, tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    code, out, err = start("demo", "--chaos", "--svg", str(picture)).end()
    assert (code, err) == (0, "")
    assert accuracy_in(out) >= 0.95
    assert "kill -9 ps:0" in out
    assert "ps:0 is gone; it is started again in" in out
    assert re.search(r"all train again, [0-9.]+ s after ps:0 was killed", out)
    text = "".join(ET.parse(picture).getroot().itertext()).replace("\xa0", " ")
    assert "all train again" in text


def test_an_interrupted_demo_ends_cleanly(start: Start) -> None:
    command = start("demo", "--steps", "1000000")
    command.read_until("examples/s")
    command.send(signal.SIGINT)
    code, _, err = command.end(timeout_s=10)
    assert code == 130
    assert "Traceback" not in err


def test_the_example_runs_by_its_tf_config(start: Start) -> None:
    args = ("--ps", "2", "--workers", "2", "--", "--steps=1000")
    code, out, _ = start("run", EXAMPLE, *args).end()
    assert code == 0
    assert accuracy_in(out) >= 0.95
    assert re.search(r"worker:1 +\| made [1-9]", out)


def test_the_example_runs_by_its_flags(start: Start) -> None:
    ps, *workers = (f"127.0.0.1:{port}" for port in free_ports(3))
    flags = (f"--ps_hosts={ps}", f"--worker_hosts={','.join(workers)}", "--steps=200")
    servers = start(*flags, "--job_name=ps", program=(EXAMPLE,))
    other = start(*flags, "--job_name=worker", "--task_index=1", program=(EXAMPLE,))
    chief = start(*flags, "--job_name=worker", "--task_index=0", program=(EXAMPLE,))
    code, out, err = chief.end()
    assert code == 0, err
    assert accuracy_in(out) >= 0.9
    assert other.end()[0] == 0
    assert servers.process.poll() is None
