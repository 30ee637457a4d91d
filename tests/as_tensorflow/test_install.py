"""Imports of `tensorflow` after `install()`, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tideflow.runtime import jit_compile

# One process runs all of them, since each import of the package takes seconds of a small machine.
SECTIONS = {
    "repeated": """
s.install()
print(sum(type(f).__module__ == "tideflow.as_tensorflow.finder" for f in sys.meta_path))
print(tf.__spec__.origin, any("pywrap" in name for name in sys.modules))
""",
    "errors": """
def said(statement):
    try:
        exec(statement)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, error)
said("tf.nn.sofmax")
said("from tensorflow.nn import sofmax")
said("import tensorflow.nnn")
said("from tensorflow import tpu")
said("tf.tpu")
said("from tensorflow.python.framework import opss")
said("from tensorflow.python.framework.ops import no_such_name")
""",
    "namespaces": """
for api in (tf, tf.compat.v1, tideflow, tideflow.v1):
    shown = set(dir(api))
    print(sorted(shown & {"sys", "types_", "importlib", "annotations", "Any", "tideflow", "api",
        "framework", "behavior", "exports", "TYPE_CHECKING", "Iterator"}))
    print([hasattr(api, n) for n in ("sys", "importlib", "annotations", "framework", "api")])
    print({"add", "nn", "train", "Variable", "errors"} <= shown)
of_keras = {"keras", "losses", "metrics", "optimizers", "initializers"}
for api in (tf, tf.compat.v1):
    for name in dir(api):
        if not name.startswith("_") and name not in of_keras:
            getattr(api, name)
print([name for name in dir(tf.nn) if isinstance(getattr(tf.nn, name), types.ModuleType)])
print("relu" in dir(tf.nn), "MatMul" in dir(tf.raw_ops), "NotFoundError" in dir(tf.errors))
""",
    "questions": """
import importlib.util
for name in ("tensorflow.lite", "tensorflow.nnn", "tensorflow.nn.relu", "tensorflow.nn"):
    found = importlib.util.find_spec(name)
    print(found and found.name)
try:
    import tensorflow.nnn
except ModuleNotFoundError as error:
    print(error.name)
print(hasattr(tf, "__wrapped__"), hasattr(tf.nn, "__no_such__"), tf.__version__)
""",
    "shapes": """
import tensorflow.compat.v1.compat.v2 as again
import tensorflow._api.v2.compat.v1 as inner
print(again.add is tf.add, inner.placeholder is tf.compat.v1.placeholder)
print(tf.compat.v1.placeholder.__name__, tf.compat.as_str(b"x"), hasattr(tf, "placeholder"))
""",
    "other names": """
print(tf.dtypes.half is tf.half, tf.test.TestCase is tf.compat.v1.test.TestCase)
print(tf.compat.v1.config.list_physical_devices is tf.config.list_physical_devices)
""",
    "compiled": """
from tideflow.runtime import jit_compile
requests, compile_here = [], jit_compile.compile_region
jit_compile.compile_elsewhere = lambda folder, key, request, must_end: requests.append(request)
def compile_region(plan, signature, **how):
    jit_compile.have_compiled(plan, signature)
    return compile_here(plan, signature, **how)
jit_compile.compile_region = compile_region
@tf.function(jit_compile=True)
def f(x):
    turns = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.nn.relu(y) * 2.0), [0, x])
    return tf.reduce_sum(turns[1], axis=0)
print(f(tf.ones([4, 3])).numpy().tolist())
print(*(request.hex() for request in requests))
""",
    "parts for libraries": """
import os, tempfile
import numpy as np
from tensorflow.python.framework.smart_cond import smart_constant_value
from tensorflow.python.trackable.base import no_automatic_dependency_tracking
given = True, 0, np.bool_(True), np.bool_(False), np.int64(1), np.uint8(0), tf.constant(True)
print([smart_constant_value(one) for one in given])
for wrong in (2, np.int32(-1), 1.0, np.float32(1), "x"):
    try:
        print(smart_constant_value(wrong))
    except TypeError as error:
        print(type(error).__name__)
class M(tf.Module):
    def __init__(self):
        super().__init__()
        self.a = tf.Variable(1.0)
        self.build()
    @no_automatic_dependency_tracking
    def build(self):
        self.b = tf.Variable(2.0)
m = M()
def saved():
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(m=m).write(os.path.join(folder, "c"))
        names = [name for name, _ in tf.train.list_variables(path)]
    return [name.partition("/.")[0] for name in names if name.startswith("m/")]
print(saved(), len(m.variables))
m.b = m.b
print(saved())
""",
    "package": """
import importlib.metadata
for name in ("tensorflow", "TensorFlow"):
    found = importlib.metadata.distribution(name)
    print(found.version, found.metadata["Name"], list(found.files or ()))
""",
}
PROGRAM = """
import contextlib, io, json, sys, types
import tideflow, tideflow.v1, tideflow.as_tensorflow as s
s.install()
import tensorflow as tf
found = {}
for name, text in json.load(sys.stdin).items():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(text, {**globals()})
    found[name] = printed.getvalue().splitlines()
print(json.dumps(found))
"""


def outcome(program: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        input=given, env={**os.environ, **env},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    cache = str(tmp_path_factory.mktemp("code"))
    env = {"TIDEFLOW_JIT": "always", "TIDEFLOW_JIT_CACHE": cache}
    done = outcome(PROGRAM, json.dumps(SECTIONS), **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_install_imports_nothing_of_tensorflow_and_may_be_repeated(
    printed: dict[str, list[str]],
) -> None:
    assert printed["repeated"] == ["1", "tideflow.as_tensorflow False"]


def test_it_is_refused_beside_another_tensorflow() -> None:
    program = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
import tideflow.as_tensorflow
tideflow.as_tensorflow.install()
"""
    done = outcome(program)
    assert done.returncode == 1
    assert "RuntimeError: TensorFlow itself is imported already" in done.stderr


def test_errors_say_what_is_not_there_and_what_is_like_it(printed: dict[str, list[str]]) -> None:
    lacking = "tideflow has nothing for tensorflow.tpu, which TensorFlow 2.21.0 has"
    assert [line.partition("; nearest: ")[0] for line in printed["errors"]] == [
        "AttributeError module 'tensorflow.nn' has no attribute 'sofmax'",
        "ModuleNotFoundError module 'tensorflow.nn' has no attribute 'sofmax'",
        "ModuleNotFoundError module 'tensorflow' has no attribute 'nnn'",
        f"ModuleNotFoundError {lacking}",
        f"AttributeError {lacking}",
        "ModuleNotFoundError module 'tensorflow.python.framework' has no attribute 'opss'",
        "ModuleNotFoundError module 'tensorflow.python.framework.ops' has no attribute "
        "'no_such_name'",
    ]
    assert printed["errors"][0].endswith("; nearest: softmax, log_softmax")


def test_what_is_not_there_may_be_asked_for(printed: dict[str, list[str]]) -> None:
    asked = ["None", "None", "None", "tensorflow.nn"]
    assert printed["questions"] == [*asked, "tensorflow.nnn", "False False 2.21.0"]


def test_without_keras_its_name_is_not_there_and_errors_say_why() -> None:
    program = """
import importlib.util, sys
sys.modules["keras"] = None  # as if there were none
import tideflow.as_tensorflow
tideflow.as_tensorflow.install()
import tensorflow as tf
print("keras" in dir(tf), "keras" in tf.__all__, "losses" in dir(tf), hasattr(tf, "keras"))
print(importlib.util.find_spec("tensorflow.keras"))
exec("from tensorflow import *", {})
for statement in ("tf.keras", "import tensorflow.keras", "from tensorflow import keras"):
    try:
        exec(statement)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, error)
"""
    done = outcome(program)
    lacking = "tensorflow.keras is Keras 3, which is not installed: pip install 'tideflow[keras]'"
    assert done.stdout.splitlines() == [
        "False False True False",
        "None",
        f"AttributeError {lacking}",
        f"ModuleNotFoundError {lacking}",
        f"ModuleNotFoundError {lacking}",
    ], done.stderr


def test_namespaces_show_what_there_is_and_nothing_of_how_they_are_made(
    printed: dict[str, list[str]],
) -> None:
    each = ["[]", str([False] * 5), "True"]
    assert printed["namespaces"] == [*each * 4, "['experimental']", "True True True"]


def test_the_shapes_show_each_other_again(printed: dict[str, list[str]]) -> None:
    assert printed["shapes"] == ["True True", "placeholder x False"]


def test_a_name_is_there_when_another_name_of_the_same_thing_is(
    printed: dict[str, list[str]],
) -> None:
    assert printed["other names"] == ["True True", "True"]


def test_compiled_code_is_made_while_classes_bear_tensorflows_names(
    printed: dict[str, list[str]],
) -> None:
    assert printed["compiled"][0] == "[32.0, 32.0, 32.0]"


def test_what_another_process_is_to_compile_is_told_by_tideflows_names(
    printed: dict[str, list[str]],
) -> None:
    requests = [bytes.fromhex(request) for request in printed["compiled"][1].split()]
    assert requests
    assert [request for request in requests if b"tensorflow" in request] == []
    assert all(map(jit_compile.compile_request, requests))


def test_parts_of_libraries_do_as_tensorflows(printed: dict[str, list[str]]) -> None:
    found = printed["parts for libraries"]
    assert found[0] == "[True, False, True, False, True, False, True]"
    assert found[1:6] == ["TypeError"] * 5
    assert found[6:] == ["['m/a'] 2", "['m/a']"]


def test_the_package_is_known_by_its_name(printed: dict[str, list[str]]) -> None:
    assert printed["package"] == ["2.21.0 tensorflow []"] * 2


# ---- as a command


def run_script(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tideflow.as_tensorflow", *arguments],
        capture_output=True, text=True, timeout=100, check=False, cwd=cwd,
    )  # fmt: skip


def test_a_script_runs_with_its_arguments_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "beside.py").write_text("NUMBER = 20\n")
    (tmp_path / "package" / "script.py").write_text(
        "import sys\nimport tensorflow as tf\nfrom beside import NUMBER\n"
        "class Mine: pass\n"
        "import pickle\n"
        "assert type(pickle.loads(pickle.dumps(Mine()))) is Mine\n"
        "print(__name__, sys.argv[1:], int(tf.add(NUMBER, 1)))\n"
        "sys.exit(7)\n"
    )
    done = run_script("package/script.py", "--steps", "3", "-m", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (7, "__main__ ['--steps', '3', '-m'] 21\n"), (
        done.stderr
    )


def test_a_module_runs_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import sys, tensorflow\nprint(sys.argv[1:], tensorflow.__version__)\n"
    )
    done = run_script("-m", "mine", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "['x'] 2.21.0\n"), done.stderr


def test_a_script_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = run_script("none.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no script 'none.py'" in done.stderr
