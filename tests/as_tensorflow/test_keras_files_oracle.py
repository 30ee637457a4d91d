"""Files of Keras' models: each engine goes on from those of the other as from its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is not installed"),
]

SCRIPT = Path(__file__).with_name("keras_files.py")


def outcome(engine: str, action: str, folder: Path) -> dict[str, Any]:
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), engine, action, str(folder)],
        capture_output=True, text=True, timeout=200, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("writer", "reader"), [("tensorflow", "tideflow"), ("tideflow", "tensorflow")]
)
def test_an_engine_goes_on_from_files_of_the_other(
    tmp_path: Path, writer: str, reader: str
) -> None:
    expected = outcome(writer, "write", tmp_path)
    assert list(expected) == ["checkpoint", "model.keras", "model.h5", "model.weights.h5"]
    found = outcome(reader, "read", tmp_path)
    for name, (values, losses) in expected.items():
        np.testing.assert_allclose(found[name][0], values, atol=0.002, err_msg=name)
        np.testing.assert_allclose(found[name][1], losses, atol=0.002, err_msg=name)
