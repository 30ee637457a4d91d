"""`tideflow run` with real processes: places, output, exit codes, and that no task is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

import pytest

from cli.commands import Command, wait_until_dead

pytestmark = pytest.mark.processes

Start = Callable[..., Command]
Script = Callable[[str], str]

# Says which process it is and waits for a signal, in each task and a child of each.
WAITS = """
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("pids", os.getpid(), child.pid)
print("waits", job, index)
signal.pause()
"""
ALL_WAIT = ("waits ps 0", "waits worker 0", "waits worker 1")


def pids_in(lines: list[str]) -> list[int]:
    return [int(pid) for line in lines if "pids" in line for pid in line.split("pids")[1].split()]


def test_each_task_learns_its_place_and_the_arguments(start: Start, script: Script) -> None:
    path = script("print(os.environ['TF_CONFIG'])\nprint(sys.argv[1:])")
    command = start("run", path, "--ps", "2", "--workers", "2", "--chief", "--", "--steps", "3")
    code, out, err = command.end()
    assert (code, err) == (0, "")
    told = {}
    for line in out.splitlines():
        name, _, rest = line.partition("| ")
        if rest.startswith("{"):
            told[name.strip()] = json.loads(rest)
        elif rest:
            assert rest == "['--steps', '3']"
    assert set(told) >= {"chief:0", "worker:0", "worker:1"}
    for name, config in told.items():
        assert f"{config['task']['type']}:{config['task']['index']}" == name
    clusters = [json.dumps(config["cluster"], sort_keys=True) for config in told.values()]
    assert len(set(clusters)) == 1
    addresses = [a for tasks in told["chief:0"]["cluster"].values() for a in tasks]
    assert len(set(addresses)) == 5
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_parameter_servers_end_when_the_workers_have(start: Start, script: Script) -> None:
    command = start("run", script("if job == 'ps': signal.pause()"))
    code, _, err = command.end()
    assert (code, err) == (0, "")


def test_a_module_is_run_by_name(start: Start) -> None:
    command = start("run", "-m", "calendar", "--ps", "0", "--workers", "1", "--", "2024", "2")
    code, out, _ = command.end()
    assert code == 0
    assert "worker:0 |" in out
    assert "February 2024" in out


def test_both_streams_are_passed_on_and_the_last_line_needs_no_end(
    start: Start, script: Script
) -> None:
    path = script("print('to err', file=sys.stderr)\nsys.stdout.write('one\\ntwo')")
    code, out, err = start("run", path, "--ps", "0", "--workers", "1").end()
    assert code == 0
    assert out.splitlines() == ["worker:0 | one", "worker:0 | two"]
    assert err.splitlines() == ["worker:0 | to err"]


def test_the_first_failure_stops_all_and_gives_the_code(start: Start, script: Script) -> None:
    # Worker 1 fails once the test has seen that all others wait.
    path = script(
        "if (job, index) == ('worker', 1):\n"
        "  print('pid', os.getpid()); signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))\n"
        + WAITS
    )
    command = start("run", path)
    lines = command.read_until(*ALL_WAIT)
    victim = next(int(line.split()[-1]) for line in lines if "| pid " in line)
    os.kill(victim, signal.SIGUSR1)
    code, _, err = command.end()
    assert code == 7
    assert "worker:1 exited with code 7" in err
    wait_until_dead(pids_in(lines))


def test_a_killed_task_gives_the_code_of_its_signal(start: Start, script: Script) -> None:
    command = start("run", script(WAITS))
    lines = command.read_until(*ALL_WAIT)
    victim = next(
        pids_in([line])[0] for line in lines if line.startswith("ps:0") and "pids" in line
    )
    os.kill(victim, signal.SIGKILL)
    code, _, err = command.end()
    assert code == 128 + signal.SIGKILL
    assert "ps:0" in err
    assert "SIGKILL" in err
    wait_until_dead(pids_in(lines))


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_all_tasks_and_what_they_started(
    start: Start, script: Script, number: signal.Signals, expected: int
) -> None:
    command = start("run", script(WAITS))
    lines = command.read_until(*ALL_WAIT)
    command.send(number)
    code, _, err = command.end(timeout_s=10)
    assert code == expected
    assert number.name in err
    assert len(pids_in(lines)) == 6
    wait_until_dead(pids_in(lines))


@pytest.mark.real_time
def test_a_second_interrupt_does_not_wait_for_tasks_that_will_not_end(
    start: Start, script: Script
) -> None:
    path = script(
        "signal.signal(signal.SIGTERM, lambda *_: print('will not'))\n"
        "print('pids', os.getpid())\nprint('waits', job, index)\n"
        "while True: signal.pause()"
    )
    command = start("run", path)
    command.read_until(*ALL_WAIT)
    command.send(signal.SIGINT)
    lines = command.read_until("will not")
    command.send(signal.SIGINT)
    code, _, _ = command.end(timeout_s=4)
    assert code == 130
    wait_until_dead(pids_in(lines))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_no_task_outlives_a_launcher_that_is_killed(start: Start, script: Script) -> None:
    path = script("print('pids', os.getpid())\nprint('waits', job, index)\nsignal.pause()")
    command = start("run", path)
    lines = command.read_until(*ALL_WAIT)
    command.send(signal.SIGKILL)
    command.end()
    wait_until_dead(pids_in(lines))
    assert len(pids_in(lines)) == 3
