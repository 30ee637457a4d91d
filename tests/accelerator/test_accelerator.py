"""Graphs on accelerators, with devices of jax's CPU in their place (see cases/)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_CASES = sorted(path for path in (_HERE / "cases").glob("*.py") if path.name != "conftest.py")
_STAND_IN = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
    "TIDEFLOW_ACCELERATORS": "cpu=GPU",
    "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT / "tests")]),
}


def _names() -> list[str]:
    return [
        node.name
        for path in _CASES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **_STAND_IN, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What became of each case: "" or why it failed, by name."""
    report = tmp_path_factory.mktemp("accelerator") / "report.xml"
    ended = _python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
        f"--junitxml={report}", f"--rootdir={_ROOT}", *map(str, _CASES),
    )  # fmt: skip
    assert report.exists(), ended.stdout + ended.stderr
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"].split("[")[0]
        bad = [child for child in case if child.tag in ("failure", "error")]
        found.setdefault(name, []).extend(child.text or "failed" for child in bad)
    return found


@pytest.mark.parametrize("name", _names())
def test_on_an_accelerator(outcomes, name):
    assert name in outcomes, "the case was not run"
    assert not outcomes[name], "\n\n".join(outcomes[name])


def test_without_hardware_there_is_a_cpu_alone():
    ended = _python(
        "-c",
        "import tideflow.v1 as tf\n"
        "print([d.name for d in tf.Session().list_devices()])\n"
        "print(tf.Session().run(tf.constant(1.0) + 2.0))",
        TIDEFLOW_ACCELERATORS="",
    )
    assert ended.stdout.split("\n")[0].endswith("/device:CPU:0']")
    assert "3.0" in ended.stdout
    assert not ended.stderr


def test_a_platform_that_jax_lacks_is_no_error():
    ended = _python(
        "-c",
        "import tideflow.v1 as tf\nprint(len(tf.Session().list_devices()))",
        TIDEFLOW_ACCELERATORS="rocm=GPU",
    )
    assert ended.stdout.strip() == "1"


def test_the_memory_options_reach_jax_by_the_environment():
    program = """
import os, tideflow.v1 as tf
config = tf.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.25
config.gpu_options.allow_growth = True
tf.Session(config=config)
print(os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"], os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"])
config.gpu_options.per_process_gpu_memory_fraction = 0.5
tf.Session(config=config)
"""
    ended = _python("-c", program)
    assert ended.stdout.strip() == "0.25 false"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION=0.25 stands" in ended.stderr
