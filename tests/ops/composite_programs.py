"""Programs of the v1 shape whose datasets have sparse and ragged elements, by several iterators."""

from __future__ import annotations

from typing import Any

Runs = list[Any]


def pairs(tf: Any) -> Any:
    """Return a dataset of a sparse tensor, a ragged one and a number."""

    def made(i: Any) -> Any:
        thin = tf.SparseTensor([[0, 0]], tf.reshape(i, [1]), [1, 3])
        uneven = tf.RaggedTensor.from_row_splits(tf.range(i + 2), tf.stack([0, 1, i + 2]))
        return thin, {"r": uneven, "n": i}

    return tf.data.Dataset.range(3).map(made)


def parts(element: Any) -> Runs:
    thin, rest = element
    uneven = rest["r"]
    return [*thin_parts(thin), uneven.flat_values, uneven.row_splits, rest["n"]]


def thin_parts(thin: Any) -> Runs:
    return [thin.indices, thin.values, thin.dense_shape]


def one_shot(tf: Any, session: Any) -> Runs:
    taken = parts(tf.data.make_one_shot_iterator(pairs(tf).batch(2)).get_next())
    return [session.run(taken), session.run(taken)]


def initializable(tf: Any, session: Any) -> Runs:
    iterator = tf.data.make_initializable_iterator(pairs(tf))
    taken = parts(iterator.get_next())
    found = []
    for _ in range(2):
        session.run(iterator.initializer)
        found += [session.run(taken) for _ in range(3)]
    return found


def by_string_handle(tf: Any, session: Any) -> Runs:
    data = pairs(tf).map(lambda thin, rest: thin)
    kinds = [tf.data.get_output_types(data), tf.data.get_output_shapes(data)]
    kinds.append(tf.data.get_output_classes(data))
    name = tf.placeholder(tf.string, [])
    taken = thin_parts(tf.data.Iterator.from_string_handle(name, *kinds).get_next())
    begun = tf.data.make_one_shot_iterator(data)
    text = session.run(begun.string_handle())
    return [session.run(taken, {name: text}) for _ in range(3)]


def from_structure(tf: Any, session: Any) -> Runs:
    data = tf.data.Dataset.from_tensors(tf.SparseTensor([[0]], [7], [2]))
    types, shapes = tf.data.get_output_types(data), tf.data.get_output_shapes(data)
    classes = tf.data.get_output_classes(data)
    iterator = tf.data.Iterator.from_structure(types, shapes, output_classes=classes)
    taken = thin_parts(iterator.get_next())
    session.run(iterator.make_initializer(data))
    found = [session.run(taken)]
    dense = tf.data.Dataset.from_tensors(7)
    try:
        iterator.make_initializer(dense)
    except TypeError as error:
        found.append(type(error).__name__)
    return found


def taken_apart(tf: Any, session: Any) -> Runs:
    data = pairs(tf).batch(3).map(lambda thin, rest: (thin, rest["n"])).unbatch()
    thin, number = tf.data.make_one_shot_iterator(data).get_next()
    taken = [*thin_parts(thin), number]
    return [session.run(taken) for _ in range(3)]


PROGRAMS = [one_shot, initializable, by_string_handle, from_structure, taken_apart]
