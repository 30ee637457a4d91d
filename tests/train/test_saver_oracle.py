"""Savers beside TensorFlow's: the same graphs and files, and each restores what the other saved."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import tideflow.v1 as ours
from tideflow.wire.messages import TrackableObjectGraph

tensorflow = pytest.importorskip("tensorflow")
theirs = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

BOTH = pytest.mark.parametrize(
    ("writer", "reader"), [(ours, theirs), (theirs, ours)], ids=["ours first", "theirs first"]
)


def nodes_of(tf, program):
    with tf.Graph().as_default() as graph:
        saver = program(tf)
        found = []
        for node in graph.as_graph_def().node:
            # The one tells TensorFlow's runtime how to read, which ours does anyway.
            if not node.name.startswith("save/") or node.op == "DisableCopyOnRead":
                continue
            groups = sorted(node.attr["_class"].list.s) if "_class" in node.attr else []
            inputs = [name for name in node.input if not name.startswith("^")]
            found.append((node.name, node.op, inputs, node.device, groups))
    message = saver.saver_def
    names = message.filename_tensor_name, message.save_tensor_name, message.restore_op_name
    return found, names, message.max_to_keep, message.sharded, message.version


def on_two_tasks(tf, use_resource):
    with tf.device("/job:ps/task:0"):
        tf.get_variable("a", [2, 3], use_resource=use_resource)
    with tf.device("/job:ps/task:1"):
        tf.get_variable("b", [3], use_resource=use_resource)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"sharded": True}, {"restore_sequentially": True, "max_to_keep": 0}]
)
def test_the_graph_has_the_same_nodes(use_resource, options):
    def program(tf):
        on_two_tasks(tf, use_resource)
        return tf.train.Saver(**options)

    assert nodes_of(ours, program) == nodes_of(theirs, program)


@pytest.mark.parametrize("use_resource", [True, False])
def test_slices_have_the_same_nodes(use_resource):
    def program(tf):
        split = tf.fixed_size_partitioner(2)
        tf.get_variable("p", [5, 3], partitioner=split, use_resource=use_resource)
        return tf.train.Saver()

    assert nodes_of(ours, program) == nodes_of(theirs, program)


def state(tf, scale):
    """Make variables of every kind; return them with a step counter's update."""
    rows = np.arange(15, dtype=np.float32).reshape(5, 3) * scale
    split = tf.fixed_size_partitioner(2)

    def part(shape, dtype=None, partition_info=None):
        at = partition_info.var_offset
        return rows[at[0] : at[0] + shape[0], at[1] : at[1] + shape[1]]

    tf.get_variable("a", initializer=np.float32([[1, 2], [3, 4]]) * scale)
    tf.get_variable("b", initializer=np.int64([5]) * scale, use_resource=False)
    tf.get_variable("names", initializer=tf.constant([f"x{scale}", ""]))
    tf.get_variable("p", [5, 3], initializer=part, partitioner=split)
    tf.train.get_or_create_global_step()


def values(tf, session):
    return {v.name: np.asarray(session.run(v)).tolist() for v in tf.global_variables()}


@contextlib.contextmanager
def running(tf, scale, initialize=True, **options):
    with tf.Graph().as_default():
        state(tf, scale)
        saver = tf.train.Saver(**options)
        with tf.Session() as session:
            if initialize:
                session.run(tf.global_variables_initializer())
            yield session, saver


@BOTH
@pytest.mark.parametrize("sharded", [False, True])
def test_one_restores_what_the_other_saved(tmp_path, writer, reader, sharded):
    with running(writer, 3, sharded=sharded) as (session, saver):
        path = saver.save(session, str(tmp_path / "m"), global_step=7)
        wanted = values(writer, session)
    assert reader.train.latest_checkpoint(str(tmp_path)) == path
    with running(reader, 1, initialize=False, sharded=sharded) as (session, saver):
        saver.restore(session, path)
        assert values(reader, session) == wanted
    listed = [(name, list(shape)) for name, shape in reader.train.list_variables(path)]
    assert listed == [("a", [2, 2]), ("b", [1]), ("global_step", []), ("names", [2]), ("p", [5, 3])]
    assert reader.train.load_variable(path, "p")[4, 2] == 42
    assert reader.train.load_checkpoint(str(tmp_path)).has_tensor("a")


@pytest.mark.parametrize("options", [{}, {"save_relative_paths": True}, {"pad_step_number": True}])
def test_directories_look_alike(tmp_path, options):
    found = []
    for name, tf in (("ours", ours), ("theirs", theirs)):
        directory = tmp_path / name
        directory.mkdir()
        with running(tf, 1, max_to_keep=2, **options) as (session, saver):
            for step in (1, 2, 3):
                saver.save(session, str(directory / "m"), global_step=step)
        text = (directory / "checkpoint").read_text().replace(str(directory), "DIR")
        sizes = {p.name: p.stat().st_size for p in directory.iterdir() if ".data" in p.name}
        found.append((sorted(p.name for p in directory.iterdir()), text, sizes))
    assert found[0] == found[1]


def train_program(tf):
    with tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=np.float32([[1.0], [2.0]]))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w)), name="loss")
    step = tf.train.get_or_create_global_step()
    with tf.name_scope("steps"):
        local = tf.Variable(
            3, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="n", trainable=False
        )
    tf.add_to_collection("mine", loss)
    tf.add_to_collection("numbers", 4)
    tf.add_to_collection("texts", "four")
    tf.add_to_collection(tf.GraphKeys.SUMMARIES, tf.summary.scalar("s", loss))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step, name="train")
    saver = tf.train.Saver(max_to_keep=3)
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    return saver, local


def run_steps(session, count):
    feed = {"x:0": np.float32([[1, 2], [3, 4]])}
    return [session.run(["loss:0", "train"], feed)[0] for _ in range(count)]


@BOTH
@pytest.mark.parametrize("scope", [None, "inner"])
def test_training_goes_on_from_a_meta_graph(tmp_path, writer, reader, scope):
    with writer.Graph().as_default(), writer.Session() as session:
        saver, _ = train_program(writer)
        session.run([writer.global_variables_initializer(), writer.local_variables_initializer()])
        run_steps(session, 2)
        path = saver.save(session, str(tmp_path / "m"), global_step=2)
        wanted = run_steps(session, 3)
    with reader.Graph().as_default() as graph, reader.Session() as session:
        saver = reader.train.import_meta_graph(
            path + ".meta", clear_devices=True, import_scope=scope
        )
        prefix = f"{scope}/" if scope else ""
        assert not graph.get_operation_by_name(prefix + "x").device
        saver.restore(session, path)
        session.run(reader.local_variables_initializer())
        feed = {prefix + "x:0": np.float32([[1, 2], [3, 4]])}
        names = [prefix + "loss:0", prefix + "train"]
        found = [session.run(names, feed)[0] for _ in range(3)]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        kept = {
            key: [getattr(item, "name", item) for item in reader.get_collection(key)]
            for key in ("variables", "local_variables", "trainable_variables", "numbers", "mine")
        }
        assert kept == {
            "variables": [prefix + n for n in ("w:0", "global_step:0", "w/Momentum:0")],
            "local_variables": [prefix + "steps/n:0"],
            "trainable_variables": [prefix + "w:0"],
            "numbers": [4],
            "mine": [prefix + "loss:0"],
        }
        assert reader.get_collection("savers")[0].saver_def.max_to_keep == 3
        assert session.run(reader.get_collection("global_step")[0]) == 5


@BOTH
@pytest.mark.parametrize("as_text", [True, False])
def test_a_part_of_a_graph_is_exported_and_put_elsewhere(tmp_path, writer, reader, as_text):
    with writer.Graph().as_default():
        x = writer.constant([1.0, 2.0], name="outside")
        with writer.variable_scope("hidden"):
            w = writer.get_variable("w", initializer=np.float32([3, 4]))
            writer.identity(writer.multiply(x, w), name="y")
        writer.train.export_meta_graph(
            str(tmp_path / "part"), export_scope="hidden", as_text=as_text, strip_default_attrs=True
        )
    with reader.Graph().as_default(), reader.Session() as session:
        with pytest.raises(ValueError, match="unbound"):
            reader.train.import_meta_graph(str(tmp_path / "part"))
    with reader.Graph().as_default(), reader.Session() as session:
        z = reader.constant([5.0, 6.0])
        reader.train.import_meta_graph(
            str(tmp_path / "part"),
            import_scope="there",
            input_map={"$unbound_inputs_outside": z},
        )
        session.run(reader.global_variables_initializer())
        assert session.run("there/y:0").tolist() == [15.0, 24.0]
        assert [v.name for v in reader.global_variables()] == ["there/w:0"]


@pytest.mark.parametrize("use_resource", [True, False])
def test_what_does_not_fit_is_the_same_error(tmp_path, use_resource):
    with theirs.Graph().as_default(), theirs.Session() as session:
        theirs.get_variable("a", [2])
        session.run(theirs.global_variables_initializer())
        theirs.train.Saver().save(session, str(tmp_path / "m"))
    kinds = []
    for tf in (ours, theirs):
        for name, dtype in (("b", tf.float32), ("a", tf.int32)):
            with tf.Graph().as_default(), tf.Session() as session:
                tf.get_variable(name, [2], dtype, tf.zeros_initializer(), use_resource=use_resource)
                with pytest.raises(tf.errors.OpError) as raised:
                    tf.train.Saver().restore(session, str(tmp_path / "m"))
                kinds.append(raised.value.error_code)
    assert kinds[:2] == kinds[2:]


def objects(tf, value):
    """Return a checkpoint of two kinds of variables with an optimizer, and what trains them."""
    v = tf.get_variable("v", initializer=np.float32([value, 2]), use_resource=True)
    w = tf.get_variable("w", initializer=np.float32([value]), use_resource=False)
    optimizer = tf.train.AdamOptimizer(0.1)
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(v * v) + tf.reduce_sum(w * w)
    train = optimizer.minimize(loss, global_step=step)
    held = {"v": v, "list": [w, {"again": w}]}
    return tf.train.Checkpoint(net=held, optimizer=optimizer, step=step), train


def variables_now(tf, session):
    return {v.name: np.asarray(session.run(v)).tolist() for v in tf.global_variables()}


@BOTH
def test_objects_saved_by_one_are_restored_by_the_other(tmp_path, writer, reader):
    with writer.Graph().as_default(), writer.Session() as session:
        checkpoint, train = objects(writer, 1.0)
        session.run(writer.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(str(tmp_path / "c"), session=session)
        wanted = variables_now(writer, session)
    assert reader.train.latest_checkpoint(str(tmp_path)) == path == str(tmp_path / "c-1")
    with reader.Graph().as_default(), reader.Session() as session:
        checkpoint, _ = objects(reader, 9.0)
        status = checkpoint.restore(path)
        status.assert_consumed()
        status.run_restore_ops(session)
        assert variables_now(reader, session) == wanted
    with reader.Graph().as_default(), reader.Session() as session:
        objects(reader, 9.0)
        reader.train.Saver().restore(session, path)
        found = variables_now(reader, session)
        assert found == {name: value for name, value in wanted.items() if name in found}


def test_objects_are_described_alike(tmp_path):
    found = []
    for name, tf in (("ours", ours), ("theirs", theirs)):
        with tf.Graph().as_default(), tf.Session() as session:
            checkpoint, _ = objects(tf, 1.0)
            session.run(tf.global_variables_initializer())
            path = checkpoint.save(str(tmp_path / name), session=session)
            text = ours.train.load_variable(path, "_CHECKPOINTABLE_OBJECT_GRAPH")
            listed = [(key, list(shape)) for key, shape in ours.train.list_variables(path)]
            found.append((listed, TrackableObjectGraph.FromString(text)))
    assert found[0] == found[1]


def test_an_eager_program_reads_a_graphs_objects(tmp_path):
    with ours.Graph().as_default(), ours.Session() as session:
        a = ours.get_variable("a", initializer=np.float32([1, 2]))
        session.run(a.initializer)
        path = ours.train.Checkpoint(model={"a": a}).save(str(tmp_path / "c"), session=session)
    a = tensorflow.Variable([0.0, 0.0])
    checkpoint = tensorflow.train.Checkpoint(model={"a": a})
    checkpoint.restore(path).assert_consumed()
    assert a.numpy().tolist() == [1, 2]
    saved = tensorflow.train.CheckpointManager(checkpoint, str(tmp_path / "e"), 2).save()
    with ours.Graph().as_default(), ours.Session() as session:
        b = ours.get_variable("b", [2])
        status = ours.train.Checkpoint(model={"a": b}).restore(saved)
        status.assert_consumed().run_restore_ops(session)
        assert session.run(b).tolist() == [1, 2]
