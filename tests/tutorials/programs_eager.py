"""Datasets and checkpoints in the TF2 shape."""

from __future__ import annotations

import copy
import json
import os

import numpy as np

from tutorials.recording import attempt, program, v1_of


def keys(tf, path):
    return [
        [name, list(shape)]
        for name, shape in tf.train.list_variables(path)
        if not name.startswith("_CHECKPOINTABLE")
    ]


@program
def a_parallel_map_walked_over(tf, folder):
    dataset = tf.data.Dataset.range(5).map(lambda x: x * x, num_parallel_calls=2)
    auto = tf.data.Dataset.range(5).map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE)
    chained = auto.batch(2).prefetch(1).map(tf.reduce_sum, num_parallel_calls=2)
    return (
        [int(x) for x in dataset],
        [int(x) for x in auto],
        [int(x) for x in chained],
        [int(x) for x in dataset.filter(lambda x: x > 1).take(2)],
        [int(x) for x in auto.interleave(lambda x: dataset.take(x), num_parallel_calls=2).take(4)],
    )


@program
def next_as_optional(tf, folder):
    iterator = iter(tf.data.Dataset.range(2))
    found = []
    for _ in range(3):
        optional = iterator.get_next_as_optional()
        found.append(bool(optional.has_value()))
        if optional.has_value():
            found.append(optional.get_value())
    found.append(attempt(lambda: optional.get_value()))
    return found, optional.element_spec.dtype.name


@program
def next_as_optional_in_a_function(tf, folder):
    @tf.function
    def total(iterator):
        found = tf.constant(0, tf.int64)
        for _ in tf.range(4):
            optional = iterator.get_next_as_optional()
            if optional.has_value():
                found += optional.get_value()
            else:
                found += 100
        return found

    made = tf.experimental.Optional.from_value((1, 2.0))
    empty = tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32))
    return (
        total(iter(tf.data.Dataset.range(3))),
        made.get_value(),
        made.has_value(),
        empty.has_value(),
    )


@program
def lists_in_checkpoints(tf, folder):
    variables = [tf.Variable(1.0), tf.Variable(2.0)]
    checkpoint = tf.train.Checkpoint(
        v=variables, d={"x": tf.Variable(3.0), "n": [tf.Variable(4.0)]}
    )
    path = checkpoint.save(os.path.join(folder, "c"))
    for one in variables:
        one.assign(0.0)
    checkpoint.restore(path).assert_consumed()
    late = tf.train.Checkpoint(v=[])
    late.restore(path)
    late.v.append(tf.Variable(0.0))
    late.d = {"x": tf.Variable(0.0)}
    return keys(tf, path), variables, late.v[0], late.d["x"], checkpoint.save_counter


@program
def variables_of_v1_in_objects(tf, folder):
    v1 = v1_of(tf)
    v = v1.get_variable("v", initializer=2.0)
    checkpoint = tf.train.Checkpoint(v=v, other=tf.Variable(1))
    path = checkpoint.save(os.path.join(folder, "v"))
    v.assign(0.0)
    checkpoint.restore(path).assert_consumed()
    return v.numpy(), keys(tf, path)


@program
def files_that_match_nothing(tf, folder):
    pattern = os.path.join(folder, "*.none")
    return [
        attempt(lambda: list(tf.data.Dataset.list_files(pattern))),
        attempt(lambda: list(tf.data.Dataset.list_files(pattern, shuffle=False))),
        attempt(lambda: list(tf.data.Dataset.list_files([pattern, pattern]))),
    ]


@program
def options_of_datasets(tf, folder):
    options = tf.data.Options()
    options.deterministic = False
    options.autotune.enabled = True
    options.threading.private_threadpool_size = 3
    options.experimental_optimization.map_fusion = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.range(3).with_options(options)
    read = dataset.options()
    later = dataset.with_options(tf.data.Options()).options()
    return (
        [int(x) for x in dataset],
        [read.deterministic, read.autotune.enabled, read.threading.private_threadpool_size],
        [later.deterministic, read.experimental_optimization.map_fusion],
        str(read.experimental_distribute.auto_shard_policy),
        attempt(lambda: setattr(options, "wrong", 1)),
        attempt(lambda: setattr(tf.data.Options().threading, "wrong", 1)),
        attempt(lambda: tf.data.Dataset.range(3).with_options(3) and None),
        attempt(lambda: setattr(options, "deterministic", "yes")),
    )


@program
def windows_and_generators(tf, folder):
    def numbers(stop):
        yield from range(stop)

    dataset = tf.data.Dataset.from_generator(numbers, args=[5], output_types=tf.int32)
    windows = dataset.window(2, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(2))
    nested = [[int(x) for x in window] for window in tf.data.Dataset.range(5).window(2)]
    ragged = tf.data.Dataset.from_generator(
        lambda: iter([[1], [2, 3]]), output_signature=tf.TensorSpec([None], tf.int64)
    )
    return (
        [x.numpy() for x in windows],
        nested,
        [x.numpy() for x in ragged.padded_batch(2)],
        dataset.element_spec.shape.rank,
        attempt(lambda: list(tf.data.Dataset.from_generator(lambda: iter(["x"]), tf.int32))),
    )


@program
def ctc_losses(tf, folder):
    rng = np.random.RandomState(0)
    logits = tf.constant(rng.randn(4, 2, 5).astype(np.float32))
    found = []
    for labels, blank in (
        ([[1, 2], [3, 3]], 0),
        ([[0, 2], [3, 3]], 0),
        ([[1, 4], [3, 3]], 4),
        ([[1, 4], [3, 3]], -1),
        ([[1, 0], [3, 0]], 0),
    ):
        for lengths in ([2, 1], [2, 2]):
            found.append(
                attempt(
                    lambda labels=labels, blank=blank, lengths=lengths: tf.nn.ctc_loss(
                        labels, logits, lengths, [4, 4], blank_index=blank
                    )
                )
            )
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 4, 0], [2, 3])
    found.append(attempt(lambda: tf.nn.ctc_loss(sparse, logits, None, [4, 4], blank_index=4)))
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 4, 0], [2, 3])
    found.append(attempt(lambda: tf.nn.ctc_loss(sparse, logits, None, [4, 4], blank_index=0)))
    return found


@program
def checkpoints_of_names_read_by_objects(tf, folder):
    v1 = v1_of(tf)
    with v1.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", initializer=[1.0, 2.0])
        v1.get_variable("s/b", initializer=3.0)
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, os.path.join(folder, "n"))
    w, b = tf.Variable([0.0, 0.0], name="w"), tf.Variable(0.0, name="s/b")
    checkpoint = tf.train.Checkpoint(w=w, b=b)
    status = checkpoint.restore(path)
    found = [w, b, attempt(lambda: status.assert_consumed() and None)]
    late = tf.train.Checkpoint()
    late.restore(path)
    late.anything = tf.Variable([0.0, 0.0], name="w")
    found.append(late.anything)
    other = tf.Variable(5.0, name="other")
    status = tf.train.Checkpoint(o=other, w=w).restore(path)
    found.append(attempt(lambda: status.assert_existing_objects_matched() and None))
    return found


@program
def linear_algebra(tf, folder):
    x = tf.constant([[2.0, 1.0], [4.0, 5.0]])
    determinant, factors = tf.linalg.slogdet(x), tf.linalg.lu(x)
    traced = tf.function(lambda x: tf.linalg.slogdet(x))(x)
    found = (determinant, factors, traced, tf.linalg.eigh(x), tf.linalg.svd(x), tf.linalg.qr(x))
    return (
        [type(one).__name__ for one in (*found, tf.math.top_k(x), tf.unique_with_counts([1, 1]))],
        [list(determinant._fields), list(factors._fields)],
        [determinant.sign, determinant.log_abs_determinant, factors.lu, factors.p],
    )


@program
def constant_initializers(tf, folder):
    def made(value, **kwargs):
        return attempt(lambda: tf.constant_initializer(value)([2], **kwargs))

    return [
        [made(value), made(value, dtype=tf.float32), made(value, dtype=tf.int32)]
        for value in (3, [1, 2], 2.5, "a")
    ]


@program
def recomputed(tf, folder):
    calls = []
    v = tf.Variable(3.0)

    def f(x):
        calls.append(1)
        return tf.sin(x) * x * v

    r = tf.recompute_grad(f)
    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = r(x)
    g = t.gradient(y, [x, v])
    g2 = tf.function(lambda x: tf.gradients(r(x) * 2.0, x)[0])(x)
    with tf.GradientTape() as t:
        y = tf.recompute_grad(lambda a, b: (a * b, a + b))(x, v)
        z = y[0] + y[1]
    g3 = t.gradient(z, v)
    return y, g, g2, len(calls), g3, tf.recompute_grad(lambda: tf.constant(2.0))()


@program
def lists_made_later(tf, folder):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.layers = []
            self.named = {}

    first = Model()
    first.layers.append(tf.Variable(1.0))
    first.layers.append(tf.Variable([2.0, 3.0]))
    first.named["a"] = tf.Variable(4.0)
    path = tf.train.Checkpoint(model=first).write(os.path.join(folder, "l"))
    second = Model()
    tf.train.Checkpoint(model=second).restore(path)
    second.layers.append(tf.Variable(0.0))
    found = [second.layers[0].numpy()]
    second.layers.extend([tf.Variable([0.0, 0.0])])
    found.append(second.layers[1].numpy())
    second.named["a"] = tf.Variable(0.0)
    found.append(second.named["a"].numpy())
    third = Model()
    tf.train.Checkpoint(model=third).restore(path)
    third.layers += [tf.Variable(0.0)]
    third.named.update(a=tf.Variable(0.0))
    found += [third.layers[0].numpy(), third.named["a"].numpy()]
    return (
        found,
        keys(tf, path),
        isinstance(second.layers, list),
        len(second.layers),
        [type(one).__name__ for one in (list(second.layers), dict(second.named))],
    )


@program
def lists_and_dicts_of_modules(tf, folder):
    class Model(tf.Module):
        pass

    model = Model()
    model.layers = layers = [tf.Variable(1.0)]
    layers.append(tf.Variable(2.0))
    model.named = {"a": tf.Variable(3.0), "b": [tf.Variable(4.0)]}
    model.named["b"].append(tf.Variable(5.0))
    numbers = model.numbers = [1, 2, 3]
    model.numbers[1:2] = [7, 8]
    model.numbers.reverse()
    model.numbers.remove(8)
    model.numbers.sort()
    found = model.numbers
    return (
        tf.function(lambda: sum(variable for variable in model.layers))(),
        [len(model.layers), len(layers), [variable.numpy() for variable in model.variables]],
        [found, list(found), [*found], [*found, 1], found + found, found[::-1], found * 2, numbers],
        [found == [1, 3, 7], found.index(3), 3 in found, sum(found), max(found), bool(found)],
        [np.array(found).tolist(), tf.constant(found), tf.stack(model.layers), str(found)],
        [isinstance(found, list), isinstance(model.named, dict), sorted(model.named)],
        [len({**model.named}), "a" in model.named, model.named.get("c"), len(dict(model.named))],
        [list(reversed(found)), tf.nest.flatten(found), json.dumps(found), copy.deepcopy(found)],
        tf.function(lambda x: x[0] + x[1])(found),
        tf.nest.map_structure(lambda x: x + 1, found),
        [len(model.named.pop("b")), list(model.named)],
    )


@program
def tables_restored_late(tf, folder):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a", "b"], tf.constant([1, 2], tf.int64))
    path = tf.train.Checkpoint(table=table).write(os.path.join(folder, "t"))
    table.insert(["c"], tf.constant([3], tf.int64))
    tf.train.Checkpoint(table=table).read(path).assert_consumed()
    late = tf.train.Checkpoint()
    late.read(path)
    late.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    wanted = tf.constant(["a", "b", "c"])
    return keys(tf, path), table.lookup(wanted), late.table.lookup(wanted)


@program
def tables_from_files(tf, folder):
    vocabulary = os.path.join(folder, "words.txt")
    with open(vocabulary, "w") as file:
        file.write("emerson\nlake\npalmer\n")
    lookup = tf.lookup
    index = lookup.TextFileIndex

    def of_lines(**kwargs):
        return lookup.TextFileInitializer(
            vocabulary, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER, **kwargs
        )

    wanted = tf.constant(["lake", "who", "palmer"])
    table = lookup.StaticHashTable(of_lines(), -1)
    some = lookup.StaticHashTable(of_lines(vocab_size=2, value_index_offset=10), -1)
    vocabulary_table = lookup.StaticVocabularyTable(of_lines(), 2)
    return (
        [table.lookup(wanted), some.lookup(wanted), vocabulary_table.lookup(wanted)],
        [table.size(), vocabulary_table.size()],
        tf.function(lambda words: table.lookup(words))(wanted),
        attempt(
            lambda: (
                lookup.TextFileInitializer(
                    vocabulary, tf.string, index.LINE_NUMBER, tf.int64, index.WHOLE_LINE
                )
                and None
            )
        ),
        attempt(lambda: of_lines(vocab_size=0) and None),
        [index.WHOLE_LINE, index.LINE_NUMBER],
    )
