"""grpcio is an extra: nothing imports it unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

# Hides grpcio from the process, as if it were not installed, and tells who asks for it.
_HIDE = """
import sys
class Hider:
    asked = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "grpc":
            self.asked.append(name)
            raise ModuleNotFoundError("hidden by the test", name="grpc")
sys.meta_path.insert(0, Hider())
"""

_CLUSTER = """
import tideflow, tideflow.cli
import tideflow.v1 as tf
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    print("sum", session.run(tf.constant(1.0) + 2.0))
server.stop()
print("asked", Hider.asked, "loaded", "grpc" in sys.modules)
"""

_ASK = """
from tideflow.transport import make_channel
from tideflow.wire import errors
try:
    make_channel("grpcio://127.0.0.1:1")
except errors.FailedPreconditionError as error:
    print(error)
"""


def run(code: str, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k != "TIDEFLOW_GRPC"}
    done = subprocess.run(
        [sys.executable, "-c", _HIDE + code],
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_cluster_on_loopback_never_asks_for_grpcio() -> None:
    assert run(_CLUSTER).splitlines() == ["sum 3.0", "asked [] loaded False"]


def test_who_asks_for_grpcio_without_it_is_told_what_to_install() -> None:
    told = run(_ASK)
    assert "pip install tideflow[grpcio]" in told
    assert "TIDEFLOW_GRPC" in told


def test_the_variable_alone_does_not_import_it() -> None:
    told = run(_ASK.replace("grpcio://", "grpc://"), TIDEFLOW_GRPC="grpcio")
    assert "pip install tideflow[grpcio]" in told
