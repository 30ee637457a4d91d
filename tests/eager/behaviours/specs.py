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


@program
def iterators_by_their_specs(tf: Any) -> Any:
    spec = tf.data.IteratorSpec(tf.TensorSpec([], tf.int64))
    iterator = iter(tf.data.Dataset.range(8))

    @tf.function(input_signature=[spec])
    def following(numbers: Any) -> Any:
        return next(numbers) + 1

    @tf.function(input_signature=[spec])
    def total(numbers: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in numbers:
            found += x
        return found

    @tf.function
    def has_more(numbers: Any) -> Any:
        return numbers.get_next_as_optional().has_value()

    more = has_more.get_concrete_function(spec)
    batches = tf.data.IteratorSpec(tf.TensorSpec([1], tf.int64))
    return [
        following(iterator),
        following.get_concrete_function()(iterator),
        str(following.get_concrete_function().structured_input_signature),
        more(iterator),
        total(iterator),
        more(iterator),
        str(tf.type_spec_from_value(iterator)),
        tf.type_spec_from_value(iterator) == spec,
        isinstance(iterator, tf.data.Iterator),
        [spec.is_compatible_with(one) for one in (iterator, spec, batches, 1)],
        str(
            batches.most_specific_common_supertype(
                [tf.data.IteratorSpec(tf.TensorSpec([2], tf.int64))]
            )
        ),
        [one.dtype.name for one in tf.nest.flatten(iterator, expand_composites=True)],
        error(lambda: following(tf.data.Dataset.range(3))),
    ]


@program
def slices_by_their_specs(tf: Any) -> Any:
    spec = tf.IndexedSlicesSpec
    open_slices = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([0, 2]))
    whole = tf.IndexedSlices(open_slices.values, open_slices.indices, tf.constant([3, 2]))
    traced = []

    @tf.function(input_signature=[spec([None, 2], tf.float32, tf.int32)])
    def summed(slices: Any) -> Any:
        traced.append([slices.values.shape.as_list(), slices.indices.shape.as_list()])
        return tf.math.unsorted_segment_sum(slices.values, slices.indices, 4)

    @tf.function(input_signature=[spec([None, 2], tf.float32, tf.int32, tf.int32)])
    def dense(slices: Any) -> Any:
        return tf.convert_to_tensor(slices)

    @tf.function
    def doubled(slices: Any) -> Any:
        return tf.IndexedSlices(slices.values * 2.0, slices.indices, slices.dense_shape)

    concrete = doubled.get_concrete_function(spec([None, 2], indices_dtype=tf.int32))
    return [
        str(tf.type_spec_from_value(open_slices)),
        str(tf.type_spec_from_value(whole)),
        str(spec()),
        str(spec([3, 2], tf.float64, tf.int32, tf.int32, [4])),
        summed(open_slices),
        traced,
        dense(whole),
        str(dense.get_concrete_function().structured_input_signature),
        [str(one.shape) for one in dense.get_concrete_function().inputs],
        concrete(open_slices).values,
        doubled(whole).dense_shape,
        error(lambda: summed(whole)),
        error(lambda: dense(open_slices)),
        [
            spec(shape, dtype, tf.int32).is_compatible_with(open_slices)
            for shape, dtype in ([None, tf.float32], [[3, 2], tf.float32], [None, tf.int32])
        ],
        spec([3, 2], indices_dtype=tf.int32).is_compatible_with(whole),
        [
            str(spec([3, 2]).most_specific_common_supertype([spec([4, 2], dtype)]))
            for dtype in (tf.float32, tf.int32)
        ],
        spec([3, 2]).is_subtype_of(spec([None, 2])),
    ]


@program
def specs_of_both_of_two(tf: Any) -> Any:
    one, two = tf.TensorSpec([1], tf.int64), tf.TensorSpec([2], tf.int64)
    either = tf.TensorSpec([None], tf.int64)

    def both(kind: Any, first: Any, second: Any) -> Any:
        found = [kind(first).most_specific_common_supertype([kind(second)])]
        found.append(kind(first).is_compatible_with(kind(second)))
        found.append(kind(first).is_subtype_of(kind(second)))
        return str(found)

    return [
        both(kind, first, second)
        for kind in (tf.data.DatasetSpec, tf.data.IteratorSpec, tf.OptionalSpec)
        for first, second in (
            (one, two),
            (one, either),
            ((one, two), (two, two)),
            ({"a": one}, {"a": either}),
            ({"a": one}, {"b": one}),
            ((one,), [one]),
            (one, (one,)),
            (one, tf.TensorSpec([1], tf.int32)),
        )
    ]
