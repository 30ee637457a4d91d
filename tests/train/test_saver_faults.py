"""What happens to checkpoints when a save is killed, a disk is full, or a file is damaged."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import make_environment
from real_time import pause
from tideflow.formats.sorted_table import read_table


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def save_one(directory, name="m", value=1.0, **options):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("a", initializer=np.full(1000, value, np.float32))
        tf.get_variable("b/c", initializer=np.full((20, 30), value, np.float64))
        tf.get_variable("text", initializer=tf.constant(["some", "words"]))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver(**options).save(session, str(directory / name))


def restored(path):
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("a", [1000])
        b = tf.get_variable("b/c", [20, 30], tf.float64)
        text = tf.get_variable("text", initializer=tf.constant(["", ""]))
        tf.train.Saver().restore(session, path)
        return session.run([a, b, text])


# ---- damage


def whole(path):
    a, b, text = restored(path)
    return (a == 1).all() and (b == 1).all() and text.tolist() == [b"some", b"words"]


def places(size):
    """Return where to cut a file or change a byte of it: both ends, and between."""
    near = {0, 1, 7, 8, size // 3, size // 2, size - 49, size - 48, size - 9, size - 8, size - 1}
    return sorted(at for at in near if 0 <= at < size)


@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001"])
def test_a_cut_file_is_named_wherever_it_was_cut(tmp_path, end):
    path = save_one(tmp_path)
    file = tmp_path / f"m{end}"
    content = file.read_bytes()
    for at in places(len(content)):
        file.write_bytes(content[:at])
        with pytest.raises(tf.errors.DataLossError, match=rf"{tmp_path}/m"):
            restored(path)
    file.write_bytes(content)
    assert whole(path)


@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001"])
def test_a_changed_byte_is_found(tmp_path, end):
    path = save_one(tmp_path)
    file = tmp_path / f"m{end}"
    content = file.read_bytes()
    # Where an index tells of a block that is always empty, and padding.
    unread = {len(content) - 48, len(content) - 9} if end == ".index" else set()
    for at in set(places(len(content))) - unread:
        changed = bytearray(content)
        changed[at] ^= 0x10
        file.write_bytes(changed)
        with pytest.raises(tf.errors.DataLossError, match=rf"{tmp_path}/m"):
            restored(path)
    file.write_bytes(content)
    assert whole(path)


def test_damage_tells_file_tensor_and_checksum(tmp_path):
    path = save_one(tmp_path)
    file = tmp_path / "m.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(
        tf.errors.DataLossError,
        match=r"tensor 'a' in .*m\.data-00000-of-00001 has checksum 0x\w{8}; 0x\w{8} is stored",
    ):
        restored(path)


def test_a_checkpoint_without_its_data_is_no_checkpoint(tmp_path):
    path = save_one(tmp_path)
    (tmp_path / "m.data-00000-of-00001").unlink()
    with pytest.raises(tf.errors.NotFoundError, match=r"m\.data-00000-of-00001"):
        restored(path)


@pytest.mark.parametrize("text", ["model_checkpoint_path: ", "\xff\xfe", "no such field: 1"])
def test_a_bad_state_file_is_passed_over(tmp_path, text):
    save_one(tmp_path)
    (tmp_path / "checkpoint").write_bytes(text.encode("latin-1"))
    assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_a_state_file_that_names_nothing_is_refused(tmp_path):
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="names no checkpoint"):
        tf.train.get_checkpoint_state(str(tmp_path))


# ---- disks that fail

_LIMITED = """
import os, resource, sys
import numpy as np
import tideflow.v1 as tf
directory, limit, sharded = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
with tf.device("/cpu:0"):
    a = tf.get_variable("a", initializer=np.zeros(100_000, np.float32))
tf.get_variable("b", initializer=np.zeros(10, np.float32))
saver = tf.train.Saver(sharded=sharded)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    saver.save(session, os.path.join(directory, "m"), 1)
    before = sorted(os.listdir(directory)), open(os.path.join(directory, "checkpoint")).read()
    session.run(a.assign_add(tf.ones([100_000])))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        saver.save(session, os.path.join(directory, "m"), int(sys.argv[4]))
    except tf.errors.OpError as error:
        print(type(error).__name__, error)
    after = sorted(os.listdir(directory)), open(os.path.join(directory, "checkpoint")).read()
    assert after == before, (before, after)
    saver.restore(session, os.path.join(directory, "m-1"))
    assert session.run(a).max() == 0
    print("as before")
"""


def run(program, *args):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(("step", "limit"), [(2, 0), (2, 100), (2, 300_000), (1, 300_000)])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, sharded, step, limit):
    found = run(_LIMITED, tmp_path, limit, sharded, step)
    assert found.returncode == 0, found.stderr
    assert "ResourceExhaustedError" in found.stdout
    assert f"cannot write {tmp_path}/m-{step}" in found.stdout
    assert "as before" in found.stdout


def test_a_disk_that_is_really_full_leaves_everything_as_it_was(tmp_path):
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mount = f"mount -t tmpfs -o size=1100k tmpfs {tmp_path}"
    if subprocess.run([*inside, mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    arguments = [str(tmp_path), "-1", "False", "2"]
    found = subprocess.run(
        [*inside, f'{mount}; exec "$@"', "sh", sys.executable, "-c", _LIMITED, *arguments],
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert found.returncode == 0, found.stderr
    assert "ResourceExhaustedError" in found.stdout
    assert "No space left on device" in found.stdout
    assert "as before" in found.stdout


def test_a_place_that_nobody_may_write_to_is_named(tmp_path):
    with tf.Session() as session:
        tf.get_variable("a", initializer=1.0)
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.PermissionDeniedError, match="cannot write /sys/kernel/m"):
            tf.train.Saver().save(session, "/sys/kernel/m")


# ---- saves that are killed

_SAVING = """
import os, sys
import numpy as np
import tideflow.v1 as tf
directory, mode = sys.argv[1:]
made = [
    tf.get_variable(f"v{i}", initializer=np.zeros((64, 1024), np.float32)) for i in range(4)
]
count = tf.group(*[v.assign_add(tf.ones([64, 1024])) for v in made])
saver = tf.train.Saver(max_to_keep=2, sharded=mode == "sharded")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print("ready", flush=True)
    step = 0
    while True:
        session.run(count)
        step += 1
        saver.save(session, os.path.join(directory, "m"), None if mode == "one" else step)
        print(step, flush=True)
"""


@pytest.mark.parametrize("mode", ["steps", "one", "sharded"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.real_time
def test_a_killed_save_leaves_the_checkpoint_before_it(tmp_path, mode, seed):
    rng = random.Random(f"{mode}{seed}")
    process = subprocess.Popen(
        [sys.executable, "-c", _SAVING, str(tmp_path), mode],
        env=make_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        told = [int(process.stdout.readline()) for _ in range(rng.randrange(1, 6))]
        pause(rng.random() * 0.03)  # somewhere within a save or two
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout]
    path = tf.train.latest_checkpoint(str(tmp_path))
    reader = tf.train.load_checkpoint(path)
    found = [reader.get_tensor(f"v{i}") for i in range(4)]
    # All of one step, and no step that was saved is lost.
    assert {float(x) for value in found for x in (value.min(), value.max())} == {found[0][0, 0]}
    assert found[0][0, 0] >= told[-1]


def test_what_killed_writers_left_is_cleared_away(tmp_path):
    left = tmp_path / "m-1.index.tempstate0123456789abcdef"
    recent = tmp_path / "m-2.index.tempstate0123456789abcdef"
    other = tmp_path / "my.tempstate"
    for path in (left, recent, other):
        path.write_bytes(b"x")
    for path in (left, other):
        os.utime(path, (1, 1))
    save_one(tmp_path)
    assert not left.exists()
    assert recent.exists()
    assert other.exists()


# ---- one checkpoint in place of another


@pytest.mark.parametrize("sharded", [False, True])
def test_the_present_checkpoint_is_whole_until_the_next_one_of_its_name_is(tmp_path, sharded):
    save_one(tmp_path, value=1.0, sharded=sharded)
    copies = []
    for value in (2.0, 3.0, 4.0):
        before = {path.name for path in tmp_path.iterdir()} - {"checkpoint", "m.meta", "m.index"}
        save_one(tmp_path, value=value, sharded=sharded)
        assert restored(str(tmp_path / "m"))[0][0] == value
        after = {path.name for path in tmp_path.iterdir()} - {"checkpoint", "m.meta", "m.index"}
        assert before.isdisjoint(after), "data files of the old one were written over"
        copies.append(len(after))
    assert copies == [1, 1, 1]
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert restored(str(tmp_path / "copy" / "m"))[0][0] == 4.0


def test_an_index_is_a_table_whose_header_counts_the_data_files(tmp_path):
    save_one(tmp_path)
    save_one(tmp_path)
    entries = dict(read_table((tmp_path / "m.index").read_bytes(), "index"))
    assert entries[b""][:2] == b"\x08\x02"
    assert names(tmp_path) == ["checkpoint", "m.data-00001-of-00002", "m.index", "m.meta"]
