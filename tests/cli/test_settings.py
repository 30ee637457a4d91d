"""`tideflow settings` shows what holds and why."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from tideflow.platform.settings import Settings

Invoke = Callable[..., Result]


def test_it_shows_every_setting_with_its_origin(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEFLOW_WAIT_S", "60")
    result = invoke("settings", "--set", "peer=off")
    assert result.exit_code == 0
    lines = {line.split()[0]: line.split() for line in result.output.splitlines() if line.split()}
    assert {one.name for one in Settings().described()} <= lines.keys()
    assert lines["wait_s"][1:6] == ["TIDEFLOW_WAIT_S", "60", "7200", "environment", "variable"]
    assert lines["peer"][1:5] == ["TIDEFLOW_PEER", "off", "on", "argument"]
    assert lines["grpc"][1:5] == ["TIDEFLOW_GRPC", "h2", "h2", "default"]


def test_programs_read_json(invoke: Invoke) -> None:
    result = invoke("settings", "--json", "--set", "spin=40")
    assert result.exit_code == 0
    found = {one["name"]: one for one in json.loads(result.output)}
    assert found["spin"]["value"] == "40"
    assert found["spin"]["default"] == "on"
    assert found["spin"]["origin"] == "argument"
    assert found["spin"]["variable"] == "TIDEFLOW_SPIN"
    assert "microseconds" in found["spin"]["meaning"]


@pytest.mark.parametrize("command", [("settings",), ("serve", "--job", "ps", "--task", "0")])
def test_what_makes_no_sense_is_told(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    result = invoke(*command, "--set", "peer=maybe")
    assert result.exit_code == 2
    assert result.output.startswith("error: the setting peer is 'maybe'; it must be on or off")
    monkeypatch.setenv("TIDEFLOW_PEER", "maybe")
    result = invoke(*command)
    assert result.exit_code == 2
    assert result.output.startswith("error: TIDEFLOW_PEER is 'maybe'; it must be on or off")
