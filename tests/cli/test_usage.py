"""What is wrong on the command line is said in one block, with the next step, and ends with 2."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from click.testing import Result

Invoke = Callable[..., Result]

ONE_PS = '{"ps": ["localhost:2222"]}'
PLACE = ("--job", "ps", "--task", "0")


@pytest.mark.parametrize("command", ["demo", "serve", "run", "status", "settings"])
def test_help_of_each_command_has_examples_and_exit_codes(invoke: Invoke, command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert result.output.count(f"  tideflow {command}") >= 2
    assert "Exit codes:" in result.output


def test_help_names_the_commands(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for command in ("demo", "serve", "run", "status", "settings"):
        assert f"tideflow {command}" in result.output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "no --cluster"),
        (("--cluster", ONE_PS), "--job is missing"),
        (("--cluster", ONE_PS, "--job", "ps"), "--task is missing"),
        (("--cluster", ONE_PS, "--job", "worker", "--task", "0"), "no job 'worker'"),
        (("--cluster", ONE_PS, "--job", "ps", "--task", "3"), "no task 3"),
        (("--cluster", '{"ps": ["localhost:2222"', *PLACE), "at line 1, column 25"),
        (("--cluster", '["localhost:2222"]', *PLACE), "must be an object"),
        (("--cluster", "no-such-file.json", *PLACE), "neither a file nor JSON"),
        (("--cluster", '{"ps": ["localhost"]}', *PLACE), "must be host:port"),
        (("--cluster", '{"ps": ["h:1", "h:1"]}', *PLACE), "the same address 'h:1'"),
    ],
)
def test_a_server_without_a_right_place_is_refused(
    invoke: Invoke, args: tuple[str, ...], said: str
) -> None:
    result = invoke("serve", *args)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ('{"cluster": {"ps": ["h:1"]}}', '"cluster" and "task"'),
        ('{"cluster": {"ps": ["h:1"]}, "task": {"type": "ps", "index": 9}}', "no task 9"),
        ('{"cluster": {"ps": ["h:1"]}, "task": {"type": "ps", "index": "x"}}', "a number"),
    ],
)
def test_a_malformed_tf_config_is_pointed_at(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, config: str, said: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", config)
    result = invoke("serve")
    assert result.exit_code == 2
    assert said in result.output
    assert "Correct TF_CONFIG" in result.output


def test_a_script_that_is_not_there_is_named(invoke: Invoke) -> None:
    result = invoke("run", "no_such_script.py")
    assert result.exit_code == 2
    assert "no_such_script.py" in result.output


def test_a_cluster_without_workers_is_refused(invoke: Invoke) -> None:
    result = invoke("run", "x.py", "--workers", "0")
    assert result.exit_code == 2
    assert "--workers 1" in result.output


@pytest.mark.parametrize("target", ["foo", "http://localhost:1", "localhost:", "localhost:99999"])
def test_status_of_what_is_no_address_is_refused(invoke: Invoke, target: str) -> None:
    result = invoke("status", target)
    assert result.exit_code == 2
    assert "grpc://host:port" in result.output


def test_a_server_that_was_refused_leaves_ctrl_c_as_it_was(invoke: Invoke) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert invoke("serve", "--cluster", "{}").exit_code != 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_options_of_the_script_are_told_where_they_go(invoke: Invoke) -> None:
    result = invoke("run", "train.py", "--epochs", "40")
    assert result.exit_code == 2
    assert "tideflow run SCRIPT -- --epochs" in result.output
