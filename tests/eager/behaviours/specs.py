"""Specs of what is no plain tensor, as signatures and as what values are made of."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import error, program


@program
def sparse_tensors_by_their_specs(tf: Any) -> Any:
    traced: list[Any] = []

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.int32)])
    def total(x: Any) -> Any:
        traced.append([x.shape.as_list(), x.indices.shape.as_list(), x.dense_shape.shape.as_list()])
        return tf.sparse.reduce_sum(x)

    @tf.function
    def dense(x: Any, y: Any) -> Any:
        return tf.sparse.to_dense(x) * y

    small = tf.sparse.from_dense([[0, 1], [2, 0]])
    large = tf.sparse.from_dense([[0, 1, 0], [2, 0, 4]])
    spec = tf.SparseTensorSpec([None, 2], tf.int32)
    concrete = dense.get_concrete_function(x=spec, y=tf.TensorSpec([], tf.int32))
    return [
        total(small),
        total(large),
        traced,
        total.get_concrete_function()(large),
        concrete(x=small, y=tf.constant(3)),
        str(concrete.structured_input_signature),
        [one.shape.as_list() for one in concrete.inputs],
        error(lambda: total(tf.ones([2, 2], tf.int32))),
        error(lambda: total(tf.cast(small, tf.float32))),
    ]


@program
def ragged_tensors_by_their_specs(tf: Any) -> Any:
    traced: list[Any] = []
    spec = tf.RaggedTensorSpec([None, None, 2], tf.float32, ragged_rank=1)

    @tf.function(input_signature=[{"a": spec, "b": (tf.TensorSpec([]), spec)}])
    def total(given: Any) -> Any:
        traced.append([given["a"].shape.as_list(), given["a"].flat_values.shape.as_list()])
        return tf.reduce_sum(given["a"], [1, 2]) + given["b"][0] * tf.reduce_sum(given["b"][1])

    @tf.function
    def rows(x: Any) -> Any:
        return x.nrows(), tf.reduce_sum(x, 1)

    def ragged(*lengths: int) -> Any:
        return tf.RaggedTensor.from_row_lengths(tf.ones([sum(lengths), 2]), lengths)

    given = {"a": ragged(1, 2), "b": (tf.constant(2.0), ragged(3))}
    other = {"a": ragged(1, 2, 0), "b": (tf.constant(1.0), ragged(0))}
    concrete = rows.get_concrete_function(spec)
    whole = tf.cast(ragged(1), tf.int32)
    return [
        total(given),
        total(other),
        traced,
        concrete(ragged(0, 2)),
        str(concrete.structured_input_signature),
        error(lambda: total({**given, "a": whole})),
        error(lambda: total({**given, "b": tf.constant(1.0)})),
    ]


@program
def datasets_and_optionals_by_their_specs(tf: Any) -> Any:
    element = tf.TensorSpec([], tf.int64)

    @tf.function(input_signature=[tf.data.DatasetSpec(element), tf.OptionalSpec(element)])
    def total(numbers: Any, more: Any) -> Any:
        found = more.get_value()
        for x in numbers:
            found += x
        return found

    more = tf.experimental.Optional.from_value(tf.constant(3, tf.int64))
    return [total(tf.data.Dataset.range(4), more), total(tf.data.Dataset.range(6), more)]
