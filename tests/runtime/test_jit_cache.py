"""Executables that are kept in a folder serve the next program; a damaged one is made again."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tideflow
import tideflow.v1 as tf
from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.jit_cache import ExecutableFolder, code_key
from tideflow.runtime.jit_compile import forget_compiled


@pytest.fixture
def folder(tmp_path, set_settings):
    made = tmp_path / "compiled"
    set_settings(jit="always", jit_cache=str(made))
    return made


class Compilations(logging.Handler):
    """What the compiler says that it has compiled, while the test runs."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.said = []

    def emit(self, record):
        if record.getMessage().startswith("compiled a region"):
            self.said.append(record.getMessage())


@pytest.fixture
def compilations():
    """What was compiled since the list was cleared."""
    logger, handler = logging.getLogger("tideflow.runtime.jit_compile"), Compilations()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler.said
    logger.setLevel(level)
    logger.removeHandler(handler)


def run_as_a_new_program():
    """Train a little with nothing compiled in the process; return what it gives."""
    forget_compiled()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        v = tf.get_variable("v", initializer=tf.zeros([3]), use_resource=True)
        table = tf.constant(np.arange(3000, dtype=np.float32))
        step = v.assign_add(tf.exp(x) + tf.reduce_sum(table) * 0.0, read_value=False)
        size = tf.size(x) + 1
        with tf.Session() as session:
            session.run(v.initializer)
            sizes = [session.run([size, step], {x: [0, 1, 2]})[0] for _ in range(2)]
            # How the compiler would reshape it depends on values: straight code does.
            shaped = tf.reshape(tf.exp(v) * 2.0, tf.cast(x * 0.0 + [1, 1, 3], tf.int32))
            session.run(shaped, {x: [0, 1, 2]})
            return sizes, session.run(v)


def test_the_next_program_compiles_nothing(folder, compilations):
    sizes, first = run_as_a_new_program()
    assert compilations
    compilations.clear()
    again, second = run_as_a_new_program()
    assert compilations == []
    assert sizes == again == [4, 4]
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, 2 * np.exp([0, 1, 2]), rtol=1e-5)


def test_what_one_program_refuses_by_its_settings_others_compile(folder, compilations):
    def run():
        forget_compiled()
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [4, 64])
            y = tf.tanh(tf.tanh(x) + tf.ones([64]) * x[0])
            with tf.Session() as session:
                session.run(y, {x: np.ones((4, 64))})

    with load_jax().numpy_rank_promotion("raise"):
        run()
    compilations.clear()
    run()
    assert compilations


@pytest.mark.processes
def test_the_next_process_needs_no_jax(folder):
    _, expected = run_as_a_new_program()
    program = """
import sys
from test_jit_cache import run_as_a_new_program
print(run_as_a_new_program()[1].tolist(), "jax" in sys.modules)
"""
    assert run_with_the_folder(program, folder) == f"{expected.tolist()} False\n"


def run_with_the_folder(program, folder):
    """Return what a program prints in a process of its own that uses the folder."""
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    more = {"TIDEFLOW_JIT": "always", "TIDEFLOW_JIT_CACHE": str(folder), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **more}, check=True, timeout=120, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def run_what_checks_its_values():
    """Return the errors of steps with numbers that are refused, and what a good one gives."""
    forget_compiled()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        count = tf.get_variable("count", initializer=tf.zeros([]), use_resource=True)
        checked = tf.check_numerics(tf.exp(x) * 2.0, "bad", name="checked")
        with tf.control_dependencies([checked]):
            step = count.assign_add(1.0, read_value=False)
        found = []
        with tf.Session() as session:
            session.run(count.initializer)
            for given in ([0, 1, 1e4], [0, 1, 2], [np.nan, 1, 2]):
                try:
                    found.append(session.run([checked, step], {x: given})[0].tolist())
                except tf.errors.InvalidArgumentError as error:
                    found.append((error.op.name, session.run(count).item()))
        return found


@pytest.mark.processes
def test_code_of_the_process_before_checks_values_without_jax(folder):
    expected = run_what_checks_its_values()
    assert [one[:1] for one in expected] == [("checked",), [2.0], ("checked",)]
    program = """
import sys
from test_jit_cache import run_what_checks_its_values
print(run_what_checks_its_values(), "jax" in sys.modules)
"""
    assert run_with_the_folder(program, folder) == f"{expected} False\n"


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes()[:-1] + b"?"),
        lambda file: ExecutableFolder(file.parent).keep(file.stem, b"of another compiler"),
    ],
    ids=["empty", "cut", "changed", "strange"],
)
def test_a_damaged_file_is_made_again(folder, compilations, caplog, damage):
    expected = run_as_a_new_program()[1]
    for file in folder.iterdir():
        damage(file)
    compilations.clear()
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(run_as_a_new_program()[1], expected)
    assert compilations
    assert "compiled again" in caplog.text
    compilations.clear()
    run_as_a_new_program()
    assert compilations == []


def test_without_a_setting_the_users_own_cache_serves(
    tmp_path, monkeypatch, set_settings, compilations
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    set_settings(jit="always", jit_cache="auto")
    run_as_a_new_program()
    compilations.clear()
    run_as_a_new_program()
    assert compilations == []
    folder = tmp_path / "tideflow" / "compiled"
    assert list(folder.iterdir())
    assert folder.stat().st_mode & 0o077 == 0


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    folder = ExecutableFolder(tmp_path, most_bytes=10_000)
    for at, key in enumerate("abc"):
        folder.keep(key, bytes(3000))
        os.utime(tmp_path / f"{key}.tfx", (at, at))
    assert folder.find("a") == bytes(3000)  # and is the latest now
    folder.keep("d", bytes(3000))
    assert {key for key in "abcd" if folder.find(key) is not None} == {"a", "d"}


def test_what_others_keep_in_the_folder_stays(tmp_path):
    folder = ExecutableFolder(tmp_path, most_bytes=2000)
    (tmp_path / "a folder").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    folder.keep("a", bytes(3000))
    assert folder.find("a") is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a folder", "notes.txt"]


def test_a_cache_that_cannot_be_written_says_so_to_who_asked_for_it(tmp_path, caplog):
    gone = tmp_path / "gone"
    with caplog.at_level(logging.INFO):
        ExecutableFolder(gone, level=logging.DEBUG).keep("a", b"of nobody")
        assert caplog.text == ""
        ExecutableFolder(gone).keep("a", b"of nobody")
    assert "not kept" in caplog.text


def test_a_folder_that_others_may_write_to_is_not_used(folder, caplog):
    folder.mkdir()
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        run_as_a_new_program()
    assert list(folder.iterdir()) == []
    assert "chmod go-w" in caplog.text


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_cache(tmp_path, folder):
    (tmp_path / "compiled").write_text("a file")
    assert run_as_a_new_program()[0] == [4, 4]


# No module was changed since.
NEVER_NS = 1 << 62


@pytest.mark.parametrize("is_wheel", [False, True])
def test_code_that_was_changed_since_it_was_loaded_is_that_of_no_other_process(tmp_path, is_wheel):
    package = tmp_path / "tideflow"
    package.mkdir()
    changed = package / "__init__.py"
    changed.touch()
    if is_wheel:
        changed = tmp_path / "tideflow-1.0.dist-info" / "RECORD"
        changed.parent.mkdir()
        changed.write_text("tideflow/__init__.py,sha256=a,0\n")
    changed_ns = changed.stat().st_mtime_ns
    assert code_key(package, changed_ns) == code_key(package, changed_ns + 1)
    keys = {code_key(package, at) for at in (changed_ns, changed_ns - 1, changed_ns - 1)}
    assert len(keys) == 3


def test_other_code_is_another_key_wherever_it_is(tmp_path):
    package = Path(tideflow.__file__).parent
    copy = shutil.copytree(package, tmp_path / "tideflow", ignore=shutil.ignore_patterns("*.pyc"))
    keys = {code_key(copy, NEVER_NS)}
    assert code_key(copy, NEVER_NS) in keys
    for module in ("graph/op_def.py", "ops/math/arithmetic.py", "ops/nn/losses.py"):
        found = (copy / module).stat()
        os.utime(copy / module, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
        assert code_key(copy, NEVER_NS) not in keys
        keys.add(code_key(copy, NEVER_NS))


def test_the_record_of_a_wheel_tells_its_code(tmp_path):
    package = tmp_path / "tideflow"
    package.mkdir()
    module = package / "__init__.py"
    module.touch()
    record = tmp_path / "tideflow-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    keys = set()
    for text in ("tideflow/__init__.py,sha256=a,0\n", "x,,\ntideflow/__init__.py,sha256=b,0\n"):
        record.write_text(text)
        keys.add(code_key(package, NEVER_NS))
        os.utime(module, (1, 1))
        keys.add(code_key(package, NEVER_NS))
    assert len(keys) == 2
    # That of an editable installation tells nothing.
    record.write_text("_editable_impl_tideflow.pth,sha256=a,14\n")
    for at in (1, 2):
        os.utime(module, (at, at))
        keys.add(code_key(package, NEVER_NS))
    assert len(keys) == 4


_FORKS = """
import os, sys, warnings
warnings.simplefilter("ignore")  # of forks of processes with threads
import numpy as np
import tideflow.v1 as tf

v = tf.get_variable("v", initializer=tf.zeros([3]), use_resource=True)
step = v.assign_add(tf.exp(v), read_value=False)
other = tf.exp(v) * 2.0

def regions(session):
    return sum(one.compiled_regions for one in session.backend.runners.values())

with tf.Session() as session:
    session.run(v.initializer)
    session.run(step)
    before = regions(session)
    child = os.fork()
    if not child:
        session.run(step)
        session.run(step)
        found = session.run(other)
        x = 1 + np.exp(1)
        np.testing.assert_allclose(found, np.full(3, 2 * np.exp(x + np.exp(x))), rtol=1e-4)
        os._exit(0 if regions(session) == before + 1 else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.processes
def test_a_forked_process_compiles_for_variables_from_before(folder):
    more = {"TIDEFLOW_JIT": "always", "TIDEFLOW_JIT_CACHE": str(folder)}
    subprocess.run(
        [sys.executable, "-c", _FORKS], env={**os.environ, **more}, check=True, timeout=120
    )
