"""What is saved and restored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tf_behaviours.registry import behaviour, error

SAVER = "python/training/saver_test.py"


@behaviour(SAVER, "A saver saves all variables, and restores them in another session.")
def saves_and_restores(tf: Any, folder: str) -> Any:
    v, w = tf.Variable(10.0, name="v"), tf.Variable([1, 2], name="w")
    saver = tf.train.Saver()
    path = os.path.join(folder, "model")
    with tf.Session() as session:
        unset = error(lambda: saver.save(session, path))
        session.run(tf.global_variables_initializer())
        saved = saver.save(session, path)
    with tf.Session() as session:
        saver.restore(session, saved)
        return [unset, saved, session.run([v, w]), sorted(os.listdir(folder))]


@behaviour(SAVER, "The global step is a number, a tensor or a variable, and stands in the name.")
def global_steps(tf: Any, folder: str) -> Any:
    v = tf.Variable(7, name="v")
    saver = tf.train.Saver([v])
    path = os.path.join(folder, "m")
    with tf.Session() as session:
        session.run(v.initializer)
        found = [saver.save(session, path, global_step=step) for step in (3, v, None)]
        found.append(error(lambda: saver.save(session, path, global_step="x")))
        return [found, tf.train.latest_checkpoint(folder), list(saver.last_checkpoints)]


@behaviour(SAVER, "A saver keeps the newest checkpoints, as many as it is told.")
def max_to_keep(tf: Any, folder: str) -> Any:
    v = tf.Variable(1.0, name="v")
    found = []
    for most in (2, 0, 1):
        saver = tf.train.Saver([v], max_to_keep=most)
        place = os.path.join(folder, str(most))
        os.mkdir(place)
        with tf.Session() as session:
            session.run(v.initializer)
            for step in range(4):
                saver.save(session, os.path.join(place, "m"), step, write_meta_graph=False)
        state = tf.train.get_checkpoint_state(place)
        names = sorted(n for n in os.listdir(place) if n.endswith("index"))
        paths = [os.path.basename(p) for p in state.all_model_checkpoint_paths]
        found.append([names, paths, [os.path.basename(p) for p in saver.last_checkpoints]])
    return found


@behaviour(
    SAVER, "A saver is given a list or dict of variables; other names and kinds are refused."
)
def what_is_saved(tf: Any, folder: str) -> Any:
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    renamed = tf.train.Saver({"other": v})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = renamed.save(session, os.path.join(folder, "m"))
        names = tf.train.list_variables(path)
        missing = error(lambda: tf.train.Saver([w]).restore(session, path), "Key w not found")
    return [
        names,
        missing,
        error(lambda: tf.train.Saver([v, v])),
        error(lambda: tf.train.Saver([v, 3])),
        error(lambda: tf.train.Saver({"v": tf.constant(1.0)})),
        error(lambda: tf.train.Saver([])),
        error(lambda: tf.train.Saver(max_to_keep=-1)),
    ]


@behaviour(SAVER, "Without variables there is nothing to save: ValueError, unless allow_empty.")
def nothing_to_save(tf: Any, folder: str) -> Any:
    found = [error(lambda: tf.train.Saver(), "No variables to save")]
    saver = tf.train.Saver(allow_empty=True)
    tf.constant(1.0)
    with tf.Session() as session:
        found.append(saver.save(session, os.path.join(folder, "m")))
        found.append(error(lambda: saver.restore(session, os.path.join(folder, "m"))))
    return found


@behaviour(SAVER, "Restoring from a path without checkpoint, or None, is a ValueError.")
def bad_paths(tf: Any, folder: str) -> Any:
    v = tf.Variable(1.0)
    saver = tf.train.Saver([v])
    with tf.Session() as session:
        session.run(v.initializer)
        return [
            error(lambda: saver.restore(session, None)),
            error(lambda: saver.restore(session, os.path.join(folder, "nothing"))),
            error(lambda: saver.save(session, os.path.join(folder, "none", "m")), "doesn't exist"),
            error(lambda: saver.save(session, os.path.join(folder, "m"), latest_filename="a/b")),
            saver.last_checkpoints,
            tf.train.latest_checkpoint(folder),
        ]


@behaviour(SAVER, "Restoring a variable of another shape or type is an error.")
def other_shapes(tf: Any, folder: str) -> Any:
    v = tf.Variable([1.0, 2.0], name="v")
    path = os.path.join(folder, "m")
    with tf.Session() as session:
        session.run(v.initializer)
        tf.train.Saver().save(session, path)
    found = []
    for start in ([1.0, 2.0, 3.0], [1, 2], [[1.0, 2.0]]):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.Variable(start, name="v")
            found.append(error(lambda session=session: tf.train.Saver().restore(session, path)))
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable([[1.0, 2.0]], name="v")
        tf.train.Saver(reshape=True).restore(session, path)
        found.append(session.run(w))
    return found


@behaviour(SAVER, "A checkpoint exists, has a time, can be removed, and is found as the latest.")
def checkpoint_files(tf: Any, folder: str) -> Any:
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver(save_relative_paths=True)
    with tf.Session() as session:
        session.run(v.initializer)
        path = saver.save(session, os.path.join(folder, "m"), global_step=1)
    state = tf.train.get_checkpoint_state(folder)
    found = [
        tf.train.checkpoint_exists(path),
        len(tf.train.get_checkpoint_mtimes([path])),
        Path(folder, "checkpoint").read_text(),
        state.model_checkpoint_path,
    ]
    tf.train.remove_checkpoint(path)
    return [*found, tf.train.checkpoint_exists(path), sorted(os.listdir(folder))]


@behaviour(SAVER, "update_checkpoint_state writes the list, relative where paths are.")
def checkpoint_states(tf: Any, folder: str) -> Any:
    tf.train.update_checkpoint_state(
        folder, os.path.join(folder, "b"), [os.path.join(folder, "a"), os.path.join(folder, "b")]
    )
    state = tf.train.get_checkpoint_state(folder)
    made = tf.train.generate_checkpoint_state_proto(folder, "c", ["a"])
    with open(os.path.join(folder, "checkpoint"), "w") as file:
        file.write("nonsense")
    return [
        [state.model_checkpoint_path, list(state.all_model_checkpoint_paths)],
        [made.model_checkpoint_path, list(made.all_model_checkpoint_paths)],
        tf.train.get_checkpoint_state(folder),
        tf.train.get_checkpoint_state(folder + "/none"),
    ]


@behaviour(SAVER, "A meta graph brings back graph, collections and saver.")
def meta_graphs(tf: Any, folder: str) -> Any:
    v = tf.Variable(3.0, name="v")
    tf.add_to_collection("answers", v * 2.0)
    path = os.path.join(folder, "m")
    with tf.Session() as session:
        session.run(v.initializer)
        tf.train.Saver().save(session, path)
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(path + ".meta")
        saver.restore(session, path)
        answers = tf.get_collection("answers")
        names = [x.name for x in tf.global_variables()]
        found = [session.run(answers), names, answers[0].name]
    with tf.Graph().as_default():
        tf.train.import_meta_graph(path + ".meta", import_scope="scope", clear_devices=True)
        found.append([x.name for x in tf.global_variables()])
    return [*found, error(lambda: tf.train.import_meta_graph(path + ".none"))]


@behaviour(SAVER, "A meta graph of a graph without variables gives no saver.")
def meta_graphs_without_variables(tf: Any, folder: str) -> Any:
    path = os.path.join(folder, "m.meta")
    tf.constant(1.0, name="c")
    message = tf.train.export_meta_graph(path)
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path)
        return [saver, [op.name for op in graph.get_operations()], message.HasField("saver_def")]


@behaviour(SAVER, "A saver's message makes a saver that reads the same files.")
def saver_messages(tf: Any, folder: str) -> Any:
    v = tf.Variable(3.0, name="v")
    saver = tf.train.Saver(max_to_keep=3, name="own")
    message = saver.as_saver_def()
    again = tf.train.Saver(saver_def=message, name="own")
    with tf.Session() as session:
        session.run(v.initializer)
        path = again.save(session, os.path.join(folder, "m"))
        saver.restore(session, path)
    return [
        message.filename_tensor_name,
        message.save_tensor_name,
        message.restore_op_name,
        message.max_to_keep,
        message.version,
        message.sharded,
    ]


@behaviour(SAVER, "Partitioned variables are saved as one, and restored into other partitions.")
def partitions(tf: Any, folder: str) -> Any:
    path = os.path.join(folder, "m")
    with tf.Session() as session:
        v = tf.get_variable(
            "v", [4, 2], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2)
        )
        session.run(tf.global_variables_initializer())
        session.run([tf.assign(part, part * float(i + 2)) for i, part in enumerate(v)])
        tf.train.Saver().save(session, path)
        names = tf.train.list_variables(path)
    with tf.Graph().as_default(), tf.Session() as session:
        whole = tf.get_variable("v", [4, 2])
        tf.train.Saver().restore(session, path)
        return [names, session.run(whole)]


@behaviour(SAVER, "A sharded saver writes a file for each device, and restores from them.")
def shards(tf: Any, folder: str) -> Any:
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.device("/cpu:0"):
        v = tf.Variable(1.0, name="v")
    with tf.device("/cpu:1"):
        w = tf.Variable(2.0, name="w")
    saver = tf.train.Saver(sharded=True)
    path = os.path.join(folder, "m")
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        saved = saver.save(session, path, write_meta_graph=False)
    with tf.Session(config=config) as session:
        saver.restore(session, saved)
        return [session.run([v, w]), sorted(os.listdir(folder))]


@behaviour(SAVER, "A checkpoint's reader tells shapes, types and values.")
def readers(tf: Any, folder: str) -> Any:
    tf.Variable([1.0, 2.0], name="v")
    tf.Variable(3, name="w", dtype=tf.int64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, os.path.join(folder, "m"))
    reader = tf.train.NewCheckpointReader(path)
    return [
        reader.has_tensor("v"),
        reader.has_tensor("x"),
        reader.get_tensor("v"),
        reader.get_variable_to_shape_map(),
        {k: v.name for k, v in reader.get_variable_to_dtype_map().items()},
        error(lambda: reader.get_tensor("x")),
        error(lambda: tf.train.NewCheckpointReader(os.path.join(folder, "none"))),
        tf.train.load_variable(folder, "w"),
    ]


@behaviour(SAVER, "Init from a checkpoint maps names and scopes onto variables.")
def init_from_checkpoint(tf: Any, folder: str) -> Any:
    with tf.variable_scope("old"):
        tf.get_variable("v", initializer=[1.0, 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, os.path.join(folder, "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("new"):
            v = tf.get_variable("v", [2])
            bad = tf.get_variable("bad", [3])
        tf.train.init_from_checkpoint(path, {"old/v": "new/v"})
        session.run(v.initializer)
        return [
            session.run(v),
            error(lambda: tf.train.init_from_checkpoint(path, {"old/v": bad})),
            error(lambda: tf.train.init_from_checkpoint(path, {"none": v})),
            error(lambda: tf.train.init_from_checkpoint(path, {"old/": "nothing/"})),
        ]
