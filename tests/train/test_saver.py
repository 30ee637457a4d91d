"""Saver: which files there are after which calls, and what comes back from them."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def started(session=None):
    session = session or tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def two_variables():
    a = tf.get_variable("a", initializer=np.arange(6, dtype=np.float32).reshape(2, 3))
    b = tf.get_variable("b", initializer=np.int32([7, 8]), use_resource=False)
    return a, b


def test_variables_come_back_without_being_initialized(tmp_path):
    a, b = two_variables()
    saver = tf.train.Saver()
    with started() as session:
        assert saver.save(session, tmp_path / "m") == str(tmp_path / "m")
    with tf.Session() as session:
        saver.restore(session, str(tmp_path / "m"))
        found_a, found_b = session.run([a, b])
    np.testing.assert_array_equal(found_a, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(found_b, [7, 8])


def test_only_the_last_checkpoints_are_kept_and_the_state_file_tells(tmp_path):
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    saver = tf.train.Saver(max_to_keep=2)
    with started() as session:
        for _ in range(4):
            session.run(count)
            saver.save(session, str(tmp_path / "m"), global_step=step)
    kept = [f"m-{i}{end}" for i in (3, 4) for end in (".data-00000-of-00001", ".index", ".meta")]
    assert names(tmp_path) == ["checkpoint", *kept]
    assert saver.last_checkpoints == [str(tmp_path / "m-3"), str(tmp_path / "m-4")]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == str(tmp_path / "m-4")
    assert list(state.all_model_checkpoint_paths) == saver.last_checkpoints
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m-4")


@pytest.mark.parametrize("max_to_keep", [0, None])
def test_all_checkpoints_are_kept_when_no_number_is_set(tmp_path, max_to_keep):
    two_variables()
    saver = tf.train.Saver(max_to_keep=max_to_keep)
    with started() as session:
        for step in range(7):
            saver.save(session, str(tmp_path / "m"), step, write_meta_graph=False)
    assert sum(name.endswith(".index") for name in names(tmp_path)) == 7
    assert saver.last_checkpoints == []


def test_a_checkpoint_of_every_few_hours_stays(tmp_path):
    two_variables()
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1e-9)
    with started() as session:
        for step in range(3):
            saver.save(session, str(tmp_path / "m"), step, write_meta_graph=False)
    assert {"m-0.index", "m-1.index", "m-2.index"} <= set(names(tmp_path))


def test_a_new_saver_takes_over_the_checkpoints_of_an_earlier_one(tmp_path):
    two_variables()
    first, second = tf.train.Saver(max_to_keep=2), tf.train.Saver(max_to_keep=2)
    with started() as session:
        for step in range(2):
            first.save(session, str(tmp_path / "m"), step)
        paths = [*first.last_checkpoints, str(tmp_path / "gone")]
        second.recover_last_checkpoints(paths)
        assert second.last_checkpoints == first.last_checkpoints
        second.save(session, str(tmp_path / "m"), 2)
    assert "m-0.index" not in names(tmp_path)


def test_a_checkpoint_saved_twice_counts_once(tmp_path):
    two_variables()
    saver = tf.train.Saver(max_to_keep=2)
    with started() as session:
        for step in (1, 2, 1, 2):
            saver.save(session, str(tmp_path / "m"), step)
    assert saver.last_checkpoints == [str(tmp_path / "m-1"), str(tmp_path / "m-2")]


def test_names_of_a_dict_are_those_in_the_checkpoint(tmp_path):
    a, b = two_variables()
    with started() as session:
        tf.train.Saver({"x": a, "y/z": b}).save(session, str(tmp_path / "m"))
        assert tf.train.list_variables(str(tmp_path / "m")) == [("x", [2, 3]), ("y/z", [2])]
        session.run(tf.assign(b, [0, 0]))
        tf.train.Saver({"y/z": b}).restore(session, str(tmp_path / "m"))
        assert session.run(b).tolist() == [7, 8]


def test_slices_of_a_partitioned_variable_are_one_tensor(tmp_path):
    whole = np.arange(15, dtype=np.float32).reshape(5, 3)
    parts = tf.get_variable(
        "p", [5, 3], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2)
    )
    saver = tf.train.Saver()
    with started() as session:
        session.run(parts.assign(tf.constant(whole)))
        saver.save(session, str(tmp_path / "m"))
    np.testing.assert_array_equal(tf.train.load_variable(str(tmp_path / "m"), "p"), whole)
    with tf.Graph().as_default():
        other = tf.get_variable("p", [5, 3], partitioner=tf.fixed_size_partitioner(3))
        with tf.Session() as session:
            tf.train.Saver().restore(session, str(tmp_path / "m"))
            np.testing.assert_array_equal(session.run(other.as_tensor()), whole)
    with tf.Graph().as_default():
        one = tf.get_variable("p", [5, 3])
        with tf.Session() as session:
            tf.train.Saver({"p": one}).restore(session, str(tmp_path / "m"))
            np.testing.assert_array_equal(session.run(one), whole)


def test_a_sharded_saver_leaves_one_checkpoint_and_no_temporary_directory(tmp_path):
    with tf.device("/cpu:0"):
        a = tf.get_variable("a", initializer=np.float32([1, 2]))
    b = tf.get_variable("b", initializer=np.float32([3]))
    saver = tf.train.Saver(sharded=True)
    with started() as session:
        saver.save(session, str(tmp_path / "m"), 1)
        ends = [".data-00000-of-00002", ".data-00001-of-00002", ".index", ".meta"]
        assert names(tmp_path) == ["checkpoint", *(f"m-1{end}" for end in ends)]
        session.run([tf.assign(a, [0, 0]), tf.assign(b, [0])])
        saver.restore(session, str(tmp_path / "m-1"))
        assert [x.tolist() for x in session.run([a, b])] == [[1, 2], [3]]


def test_reshape_fits_tensors_of_another_shape(tmp_path):
    two_variables()
    with started() as session:
        tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("a", [6])
        tf.train.Saver(reshape=True).restore(session, str(tmp_path / "m"))
        assert session.run(a).tolist() == [0, 1, 2, 3, 4, 5]


def test_steps_are_padded_and_paths_relative_on_request(tmp_path):
    two_variables()
    saver = tf.train.Saver(pad_step_number=True, save_relative_paths=True)
    with started() as session:
        saved = saver.save(session, str(tmp_path / "m"), 12, latest_filename="mine")
    assert saved == str(tmp_path / "m-00000012")
    assert (tmp_path / "mine").read_text() == (
        'model_checkpoint_path: "m-00000012"\nall_model_checkpoint_paths: "m-00000012"\n'
    )
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert tf.train.latest_checkpoint(str(moved), "mine") == str(moved / "m-00000012")


def test_paths_may_be_relative_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, _ = two_variables()
    saver = tf.train.Saver()
    with started() as session:
        assert saver.save(session, "m", 1) == "m-1"
        os.mkdir("sub")
        assert saver.save(session, "sub/m", 2) == "sub/m-2"
        assert tf.train.latest_checkpoint(".") == "./m-1"
        assert tf.train.latest_checkpoint("sub") == "sub/m-2"
        saver.restore(session, tf.train.latest_checkpoint("sub"))
        assert session.run(a).shape == (2, 3)


def test_restoring_what_does_not_fit_lists_all_differences_and_changes_nothing(tmp_path):
    tf.get_variable("a", [2, 3])
    tf.get_variable("only_saved", [1])
    with started() as session:
        tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default():
        tf.get_variable("a", [3, 3])
        fine = tf.get_variable("new", [2])
        saver = tf.train.Saver()
        with started() as session:
            before = session.run(fine)
            with pytest.raises(tf.errors.NotFoundError) as raised:
                saver.restore(session, str(tmp_path / "m"))
            np.testing.assert_array_equal(session.run(fine), before)
    for line in (
        "Key new not found in checkpoint; the program wants float32 [2]",
        "a: the program wants float32 [3, 3]; the checkpoint has float32 [2, 3]",
        "only_saved: only the checkpoint has it, float32 [1]",
    ):
        assert line in str(raised.value)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize(("shape", "dtype"), [([3], tf.float32), ([2], tf.float64)])
def test_another_shape_or_type_is_an_invalid_argument(tmp_path, use_resource, shape, dtype):
    tf.get_variable("a", [2])
    with started() as session:
        tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("a", shape, dtype, use_resource=use_resource)
        saver = tf.train.Saver()
        with pytest.raises(tf.errors.InvalidArgumentError, match="the checkpoint has float32"):
            saver.restore(session, str(tmp_path / "m"))


def test_calls_that_cannot_work_say_why(tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    a, b = two_variables()
    saver = tf.train.Saver()
    with started() as session:
        with pytest.raises(ValueError, match=r"Parent directory of .*er/m doesn't exist"):
            saver.save(session, str(tmp_path / "lost" / "er" / "m"))
        with pytest.raises(ValueError, match="not a path"):
            saver.save(session, str(tmp_path / "m"), latest_filename="a/b")
        with pytest.raises(ValueError, match="name of the state file"):
            saver.save(session, str(tmp_path / "checkpoint"))
        with pytest.raises(TypeError, match="must be a Session"):
            saver.save(None, str(tmp_path / "m"))
        with pytest.raises(ValueError, match="None"):
            saver.restore(session, None)
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            saver.restore(session, str(tmp_path / "m"))
    with pytest.raises(TypeError, match="no variable"):
        tf.train.Saver([tf.constant(1)])
    with pytest.raises(ValueError, match="called 'a'"):
        tf.train.Saver([a, a])
    with pytest.raises(ValueError, match="saved twice"):
        tf.train.Saver({"x": b, "y": b})
    with pytest.raises(RuntimeError, match="build"):
        tf.train.Saver(defer_build=True).save(tf.Session(), str(tmp_path / "m"))
    with pytest.raises(ValueError, match="defer_build"):
        tf.train.Saver([a], defer_build=True)


def test_an_empty_saver_does_nothing(tmp_path):
    saver = tf.train.Saver(allow_empty=True)
    with tf.Session() as session:
        assert saver.save(session, str(tmp_path / "m")) is None
        saver.restore(session, str(tmp_path / "nothing"))
    assert names(tmp_path) == ["m.meta"]


def test_a_saver_built_later_saves_what_there_is_then(tmp_path):
    saver = tf.train.Saver(defer_build=True)
    two_variables()
    saver.build()
    with started() as session:
        saver.save(session, str(tmp_path / "m"))
    assert [name for name, _ in tf.train.list_variables(str(tmp_path / "m"))] == ["a", "b"]


def test_a_saver_is_made_again_from_its_message(tmp_path):
    a, _ = two_variables()
    saver = tf.train.Saver()
    again = tf.train.Saver.from_proto(saver.to_proto())
    with started() as session:
        again.save(session, str(tmp_path / "m"))
        session.run(tf.assign(a, tf.zeros([2, 3])))
        again.restore(session, str(tmp_path / "m"))
        assert session.run(a)[1, 2] == 5
    assert again.as_saver_def() == saver.as_saver_def()
    assert saver.to_proto("elsewhere") is None


def test_objects_may_say_how_they_are_saved(tmp_path):
    a, _ = two_variables()

    class Doubled(tf.train.BaseSaverBuilder.SaveableObject):
        def __init__(self, variable, name):
            spec = tf.train.BaseSaverBuilder.SaveSpec(variable.value() * 2, "", name)
            super().__init__(variable.op, [spec], name)
            self.variable = variable

        def restore(self, restored_tensors, restored_shapes):
            return tf.assign(self.variable, restored_tensors[0] / 2)

    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, Doubled(a, "twice"))
    saver = tf.train.Saver()
    with started() as session:
        saver.save(session, str(tmp_path / "m"))
        assert tf.train.load_variable(str(tmp_path / "m"), "twice")[1, 2] == 10
        session.run(tf.assign(a, tf.zeros([2, 3])))
        saver.restore(session, str(tmp_path / "m"))
        assert session.run(a)[1, 2] == 5


@pytest.mark.parametrize("sharded", [True, False])
def test_variables_of_parameter_servers_are_saved_and_come_back(tmp_path, sharded):
    cluster = LocalCluster({"ps": 2, "worker": 1})
    try:
        made = []
        for task in range(2):
            with tf.device(f"/job:ps/task:{task}"):
                made.append(tf.get_variable(f"v{task}", initializer=np.float32([task, 5])))
        saver = tf.train.Saver(sharded=sharded)
        zero = [tf.assign(v, [0, 0]) for v in made]
        with started(tf.Session(cluster.target("worker"))) as session:
            path = saver.save(session, str(tmp_path / "m"), 3)
            session.run(zero)
            saver.restore(session, path)
            assert [v.tolist() for v in session.run(made)] == [[0, 5], [1, 5]]
    finally:
        cluster.stop()
    shards = 2 if sharded else 1
    data = [f"m-3.data-{i:05d}-of-{shards:05d}" for i in range(shards)]
    assert names(tmp_path) == ["checkpoint", *data, "m-3.index", "m-3.meta"]


def test_what_a_checkpoint_lacks_is_told_in_tensorflows_words(tmp_path):
    tf.get_variable("v", [2])
    with started() as session:
        path = tf.train.Saver().save(session, tmp_path / "m")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", [2])
        with pytest.raises(tf.errors.NotFoundError, match="Key w not found in checkpoint"):
            tf.train.Saver().restore(session, path)


def test_a_meta_graph_that_is_not_there_is_an_oserror(tmp_path):
    with pytest.raises(OSError, match="does not exist") as raised:
        tf.train.import_meta_graph(tmp_path / "none.meta")
    assert type(raised.value) is OSError


@pytest.mark.parametrize("sharded", [False, True])
def test_a_checkpoint_of_the_first_version_is_restored(graph, tmp_path, sharded):
    v = tf.get_variable("v", initializer=tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    n = tf.get_variable("n", initializer=tf.constant(b"text"))
    saver = tf.train.Saver(write_version=tf.train.SaverDef.V1, sharded=sharded)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"), global_step=3)
        assert tf.train.checkpoint_exists(path)
        assert tf.train.latest_checkpoint(str(tmp_path)) == path
        session.run([v.assign([[0.0, 0.0], [0.0, 0.0]]), n.assign(b"")])
        saver.restore(session, path)
        assert session.run(v).tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert session.run(n) == b"text"
        tf.train.Saver().restore(session, path)
    assert not list(tmp_path.glob("*.index"))
