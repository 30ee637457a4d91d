"""Caches of datasets in files: TensorFlow reads what we write, and we what it writes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ops.dataset_harness import check, collect, server

tensorflow = pytest.importorskip("tensorflow")
tf = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

D = tf.data.Dataset


def pairs(count, path):
    return D.range(count).map(lambda x: (x, tf.as_string(x), tf.range(x))).cache(path)


@pytest.mark.parametrize("count", [0, 3, 150])
@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_each_reads_what_the_other_wrote(tmp_path, count, who):
    path = str(tmp_path / "cache")
    targets = [server().target, ""] if who == "ours" else ["", server().target]
    written, read = (collect(tf, lambda: pairs(count, path), target) for target in targets)
    assert len(written) == len(read) == count + 1
    for one, other in zip(written, read, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    files = ["cache.data-00000-of-00001", "cache.index"] if count or who == "ours" else None
    assert files is None or set(os.listdir(tmp_path)) == set(files)


def test_a_second_pass_reads_the_files(tmp_path):
    path = str(tmp_path / "shuffled")
    built = lambda where: D.range(20).shuffle(20).cache(str(where)).repeat(2)  # noqa: E731
    found = collect(tf, lambda: built(path), server().target)
    assert found[:20] == found[20:40]
    assert sorted(found[:20]) == list(range(20))


def test_a_directory_that_is_not_there(tmp_path):
    check(tf, lambda: pairs(3, str(tmp_path / "none" / "cache")))


def test_a_lock_keeps_others_away(tmp_path):
    found = []
    for name, target in (("ours", server().target), ("theirs", "")):
        (tmp_path / f"{name}_0.lockfile").write_text("somebody")
        path = str(tmp_path / name)
        found.append(collect(tf, lambda path=path: pairs(3, path), target)[0])
    assert found == ["AlreadyExistsError"] * 2


def test_nothing_is_left_of_a_cache_that_was_not_completed(tmp_path):
    path = str(tmp_path / "cache")
    with tf.Graph().as_default():
        element = tf.data.make_one_shot_iterator(pairs(5, path).take(2)).get_next()
        with tf.Session(server().target) as session:
            for _ in range(2):
                session.run(element)
    found = collect(tf, lambda: pairs(5, path), server().target)
    assert len(found) == 6
    assert sorted(os.listdir(tmp_path)) == ["cache.data-00000-of-00001", "cache.index"]
