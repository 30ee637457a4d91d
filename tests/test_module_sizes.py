"""The lint that holds modules to a size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def _lint(folder):
    command = [sys.executable, "-m", "tools.module_sizes", str(folder)]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


def test_a_long_module_is_found(tmp_path):
    (tmp_path / "long.py").write_text("x = 1\n" * 600)
    (tmp_path / "short.py").write_text("x = 1\n" * 599)
    (tmp_path / "long_pb2.py").write_text("x = 1\n" * 600)
    ended = _lint(tmp_path)
    assert ended.returncode == 1
    assert [line.partition(":")[0] for line in ended.stdout.splitlines()] == ["long.py"]


def test_short_modules_pass(tmp_path):
    (tmp_path / "short.py").write_text("x = 1\n")
    assert (_lint(tmp_path).returncode, _lint(tmp_path).stdout) == (0, "")
