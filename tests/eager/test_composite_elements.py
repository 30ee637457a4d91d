"""Elements of datasets that are made of several tensors, or of none."""

from __future__ import annotations

import pytest

import tideflow as tf
import tideflow.v1 as v1
from ops.composite_programs import PROGRAMS
from shown_values import elements, value

Data = tf.data.Dataset


def sparse():
    return tf.SparseTensor([[0, 1]], [5], [2, 2])


def ragged():
    return tf.ragged.constant([[1, 2], [3]])


def test_an_element_may_have_parts_of_all_kinds():
    data = Data.from_tensors((sparse(), {"r": ragged(), "none": None}, Data.range(2)))
    thin, rest, inner = next(iter(data))
    assert value(thin)["values"].tolist() == [5]
    assert rest["r"].to_list() == [[1, 2], [3]]
    assert rest["none"] is None
    assert elements(inner) == [0, 1]
    assert data.element_spec == (
        tf.SparseTensorSpec([2, 2], tf.int32),
        {"r": tf.RaggedTensorSpec([2, None], tf.int32), "none": tf.NoneTensorSpec()},
        tf.data.DatasetSpec(tf.TensorSpec([], tf.int64)),
    )


def test_what_a_function_gives_goes_on_to_the_next():
    data = Data.range(1, 3).map(lambda n: (tf.ragged.range([n, 2]), None))
    assert elements(data.map(lambda r, nothing: r.row_lengths()))[1].tolist() == [2, 2]
    assert [r.to_list() for r, _ in data.filter(lambda r, _: tf.size(r.flat_values) > 3)] == [
        [[0, 1], [0, 1]]
    ]
    thin = Data.range(3).map(lambda n: tf.SparseTensor([[0]], [n], [2]))
    assert int(thin.reduce(tf.constant(0, tf.int64), lambda t, s: t + s.values[0])) == 3
    kept = thin.scan(sparse(), lambda state, s: (state, s.values[0]))
    assert elements(kept) == [0, 1, 2]


def test_rows_of_different_sizes_are_batched_and_taken_apart():
    rows = Data.range(1, 4).map(lambda n: tf.fill([n], n))
    assert [x.to_list() for x in rows.ragged_batch(2)] == [[[1], [2, 2]], [[3, 3, 3]]]
    again = rows.ragged_batch(3).unbatch()
    assert [x.tolist() for x in again.as_numpy_iterator()] == [[1], [2, 2], [3, 3, 3]]
    thin = Data.range(2).map(lambda n: tf.SparseTensor([[0]], [n], [n + 1])).batch(2)
    assert value(next(iter(thin)))["dense_shape"].tolist() == [2, 2]
    assert [x.tolist() for x in thin.unbatch().as_numpy_iterator()] == [[0, 0], [1, 0]]


def test_functions_walk_over_composite_elements():
    data = Data.range(3).map(lambda n: (tf.SparseTensor([[0]], [n], [2]), tf.ragged.range([n])))

    @tf.function
    def total(data):
        found = tf.constant(0, tf.int64)
        for thin, uneven in data:
            found += thin.values[0] + tf.cast(tf.size(uneven.flat_values), tf.int64)
        return found

    assert int(total(data)) == 6

    @tf.function
    def first(iterator):
        thin, uneven = next(iterator)
        return thin.values, uneven

    values, uneven = first(iter(data.skip(2)))
    assert (values.numpy().tolist(), uneven.to_list()) == ([2], [[0, 1]])


def test_generators_give_sparse_and_ragged_values():
    signature = (tf.SparseTensorSpec([None], tf.int32), tf.RaggedTensorSpec([None, None], tf.int32))
    given = (tf.SparseTensor([[1]], [7], [2]), ragged())
    [(thin, uneven)] = Data.from_generator(lambda: iter([given]), output_signature=signature)
    assert (thin.values.numpy().tolist(), uneven.to_list()) == ([7], [[1, 2], [3]])


def test_optionals_hold_them_and_are_elements_themselves():
    held = tf.experimental.Optional.from_value((sparse(), None))
    [found] = Data.from_tensors(held)
    thin, nothing = found.get_value()
    assert (thin.values.numpy().tolist(), nothing) == ([5], None)
    assert Data.from_tensors(held).element_spec == tf.OptionalSpec(held.element_spec)


@pytest.mark.parametrize(
    ("make", "raised"),
    [
        (lambda: Data.from_tensors(sparse()).padded_batch(2), TypeError),
        (lambda: Data.from_tensors(sparse()).concatenate(Data.from_tensors(ragged())), TypeError),
        (lambda: Data.from_tensor_slices(5), ValueError),
        (lambda: Data.from_tensor_slices(()), ValueError),
        (lambda: Data.from_tensor_slices(([1, 2], [1, 2, 3])), ValueError),
        (lambda: Data.range(3).unbatch(), ValueError),
        (lambda: Data.range(3).rebatch(2), ValueError),
        (lambda: Data.range(3).map(lambda x: object()), TypeError),
        (lambda: Data.range(3).scan(1, lambda s, x: (x, s)), TypeError),
        (lambda: Data.range(3).reduce(1, lambda s, x: x), TypeError),
        (lambda: Data.range(2).window(2).as_numpy_iterator(), TypeError),
        (lambda: Data.range(1).padded_batch(2, [1]), ValueError),
    ],
)
def test_what_does_not_fit_is_refused(make, raised):
    with pytest.raises(raised):
        make()


def test_a_state_may_grow():
    data = Data.range(2).scan([0], lambda s, x: (tf.concat([s, s], 0), s))
    assert [x.tolist() for x in data.as_numpy_iterator()] == [[0], [0, 0]]
    assert data.reduce([0], lambda s, x: tf.concat([s, x], 0)).shape == (4,)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sessions_are_given_them(program):
    with v1.Graph().as_default(), v1.Session() as session:
        assert program(v1, session)


def test_specs_say_what_fits():
    spec = tf.SparseTensorSpec([None, 2], tf.int32)
    assert spec.is_compatible_with(sparse())
    assert not spec.is_compatible_with(ragged())
    assert tf.type_spec_from_value(ragged()) == tf.RaggedTensorSpec([2, None], tf.int32)
    assert repr(spec) == "SparseTensorSpec(TensorShape([None, 2]), tf.int32)"
    assert spec.most_specific_common_supertype([tf.SparseTensorSpec([3, 2], tf.int32)]) == spec
    with pytest.raises(ValueError, match="ragged_rank"):
        tf.RaggedTensorSpec([None], tf.int32, ragged_rank=1)
