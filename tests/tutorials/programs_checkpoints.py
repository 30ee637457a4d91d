"""Checkpoints: their keys, and who reads what who wrote."""

from __future__ import annotations

import os

from tutorials.recording import attempt, program
from tutorials.snappy_index import compress_index


def keys(tf, path):
    return [[name, list(shape)] for name, shape in tf.train.list_variables(path)]


def without_graph(found):
    return [pair for pair in found if not pair[0].startswith("_CHECKPOINTABLE")]


@program
def slots_under_a_scope(tf, folder):
    found = []
    for make in (
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.RMSPropOptimizer(0.1),
        lambda: tf.train.FtrlOptimizer(0.1),
        lambda: tf.train.AdadeltaOptimizer(0.1),
    ):
        for resource in (False, True):
            with tf.Graph().as_default():
                with tf.variable_scope("m"):
                    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=resource)
                    loss = tf.reduce_sum(v * v)
                    train = make().minimize(loss)
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    session.run(train)
                    path = tf.train.Saver().save(session, os.path.join(folder, "s"))
                found.append(keys(tf, path))
                found.append([one.name for one in tf.global_variables()])
    return found


@program
def slots_under_name_scopes(tf, folder):
    with tf.name_scope("outer"):
        v = tf.get_variable("v", initializer=1.0)
        w = tf.Variable(2.0, name="w")
    with tf.variable_scope("opt"), tf.name_scope("inner"):
        train = tf.train.AdamOptimizer(0.1, name="Mine").minimize(v * w)
    with tf.variable_scope("again"):
        tf.train.AdamOptimizer(0.1, name="Mine").minimize(v * w)
    return [one.name for one in tf.global_variables()], train.name


@program
def slots_of_partitioned_variables(tf, folder):
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
        v = tf.get_variable("v", [4], initializer=tf.ones_initializer())
        loss = tf.reduce_sum(tf.convert_to_tensor(v))
        train = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = tf.train.Saver().save(session, os.path.join(folder, "s"))
    return keys(tf, path), sorted(one.name for one in tf.global_variables())


@program
def averages(tf, folder):
    with tf.variable_scope("net"):
        v = tf.get_variable("v", initializer=1.0)
        fixed = tf.get_variable("fixed", initializer=5.0, trainable=False)
    t = tf.identity(v * 2.0, name="t")
    with tf.variable_scope("avg"):
        ema = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([v.assign(3.0)]):
            update = ema.apply([v])
        also = ema.apply([t])
    restore = ema.variables_to_restore()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(update)
        session.run(also)
        path = tf.train.Saver().save(session, os.path.join(folder, "e"))
        values = session.run([v, ema.average(v), ema.average(t)])
    found = [
        sorted((name, one.op.name) for name, one in restore.items()),
        sorted((n, o.op.name) for n, o in ema.variables_to_restore([v]).items()),
        [one.op.name for one in tf.moving_average_variables()],
        [one.op.name for one in tf.get_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES)],
        [one.op.name for one in tf.global_variables()],
        [ema.average_name(v), ema.average_name(fixed), ema.average_name(t)],
        ema.average(fixed) is None,
        keys(tf, path),
        values,
    ]
    with tf.Session() as session:
        saver = tf.train.Saver(restore)
        attempt(lambda: saver.restore(session, path))
        found.append(attempt(lambda: session.run(v)))
    return found


@program
def averages_of_all(tf, folder):
    step = tf.train.get_or_create_global_step()
    a = tf.Variable(1.0, name="a")
    b = tf.get_variable("s/b", initializer=2.0)
    ema = tf.train.ExponentialMovingAverage(0.9, step, name="E")
    op = ema.apply()
    zero = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    op2 = zero.apply([tf.identity(a, name="ta")])
    return (
        sorted(n for n in ema.variables_to_restore()),
        [one.op.name for one in tf.moving_average_variables()],
        [one.op.name for one in tf.global_variables()],
        [op.name, op2.name, ema.name],
        [ema.average(b).dtype.name],
        attempt(lambda: ema.apply([tf.Variable(1, name="i")]) and None),
        attempt(lambda: ema.apply([a]) and None),
    )


@program
def names_read_checkpoints_of_objects(tf, folder):
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    optimizer = tf.train.AdamOptimizer(0.5)
    train = optimizer.minimize(v * v)
    checkpoint = tf.train.Checkpoint(v=v, optimizer=optimizer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(os.path.join(folder, "o"), session=session)
        value = session.run(v)
        session.run(v.assign(0.0))
        saver = tf.train.Saver([v])
        saver.restore(session, path)
        return without_graph(keys(tf, path)), value, session.run(v)


@program
def objects_of_reference_variables(tf, folder):
    v = tf.get_variable("v", initializer=1.0, use_resource=False)
    checkpoint = tf.train.Checkpoint(v=v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(v.assign(4.0))
        path = attempt(lambda: checkpoint.save(os.path.join(folder, "r"), session=session))
        session.run(v.assign(0.0))
        if isinstance(path, dict):
            return path
        checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        return session.run(v), without_graph(keys(tf, path))


@program
def warm_starts(tf, folder):
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("old/a", initializer=[1.0, 2.0])
        b = tf.get_variable("old/b", initializer=3.0)
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver({"x/a": a, "x/b": b}).save(session, os.path.join(folder, "w"))
    with tf.variable_scope("new"):
        a = tf.get_variable("a", [2])
        b = tf.get_variable("b", [])
        c = tf.get_variable("c", initializer=7.0)
    found = [attempt(lambda: tf.train.init_from_checkpoint(path, {"x/": "new/"}))]
    tf.train.init_from_checkpoint(path, {"x/a": a, "x/b": "new/b"})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found += session.run([a, b, c])
    reader = tf.train.NewCheckpointReader(path)
    found += [
        reader.get_variable_to_shape_map(),
        {k: v.name for k, v in reader.get_variable_to_dtype_map().items()},
        reader.has_tensor("x/a"),
        reader.has_tensor("none"),
        reader.get_tensor("x/a"),
        attempt(lambda: reader.get_tensor("none")),
        attempt(lambda: tf.train.NewCheckpointReader(os.path.join(folder, "no")) and None),
        tf.train.load_variable(path, "x/b"),
    ]
    return found


@program
def saving_as_tutorials_do(tf, folder):
    step = tf.train.get_or_create_global_step()
    w = tf.Variable(tf.zeros([2]), name="w")
    b = tf.Variable(1.0, name="b", trainable=False)
    train = tf.group(w.assign_add([1.0, 2.0]), step.assign_add(1))
    saver = tf.train.Saver(max_to_keep=2)
    only = tf.train.Saver({"bias": b})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
            path = saver.save(session, os.path.join(folder, "model.ckpt"), global_step=step)
        other = only.save(session, os.path.join(folder, "only"))
    found = [
        sorted(os.listdir(folder)),
        os.path.basename(tf.train.latest_checkpoint(folder)),
        keys(tf, path),
        keys(tf, other),
        [os.path.basename(one) for one in saver.last_checkpoints],
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.train.import_meta_graph(path + ".meta")
        loaded.restore(session, path)
        found.append(session.run(tf.global_variables()))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", [3])
        tf.get_variable("absent", [3])
        bad = tf.train.Saver()
        found.append(attempt(lambda: bad.restore(session, path)))
        found.append(attempt(lambda: bad.restore(session, path + "none")))
        found.append(attempt(lambda: bad.restore(session, None)))
        found.append(
            attempt(lambda: tf.train.Saver([tf.get_variable("w2", [3])]).save(session, path))
        )
        found.append(attempt(lambda: tf.train.Saver([1])))
    return found


@program
def an_index_that_is_compressed(tf, folder):
    for number in range(30):
        tf.get_variable(f"layer_{number}/kernel", initializer=[float(number)] * 3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, os.path.join(folder, "c"))
        compress_index(path + ".index")
        session.run([v.assign([0.0] * 3) for v in tf.global_variables()])
        tf.train.Saver().restore(session, path)
        return keys(tf, path), session.run(tf.global_variables())
