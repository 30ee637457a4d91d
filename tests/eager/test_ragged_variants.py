"""Ragged tensors as variants: what goes in comes out."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf

I64 = np.int64


def _held(batched):
    return tf.raw_ops.RaggedTensorToVariant(
        rt_nested_splits=[I64([0, 2, 3])], rt_dense_values=[1.0, 2.0, 3.0], batched_input=batched
    )


def _taken(variants, rank):
    return tf.raw_ops.RaggedTensorFromVariant(
        encoded_ragged=variants,
        input_ragged_rank=-1,
        output_ragged_rank=rank,
        Tvalues=tf.float32,
        Tsplits=tf.int64,
    )


@pytest.mark.parametrize("batched", [False, True])
def test_what_goes_in_comes_out(batched):
    [splits], values = _taken(_held(batched), 1)
    assert splits.numpy().tolist() == [0, 2, 3]
    assert values.numpy().tolist() == [1, 2, 3]


def test_a_row_is_a_tensor():
    splits, values = _taken(_held(batched=True)[0], 0)
    assert (list(splits), values.numpy().tolist()) == ([], [1, 2])


def test_another_ragged_rank_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected ragged_rank=1"):
        _taken(_held(batched=True), 2)


def test_components_travel_as_one_variant_with_their_class():
    # A TypeSpecProto of a RaggedTensorSpec, and of a SparseTensorSpec, as field 1.
    ragged, sparse = b"\n\x02\x08\x03", b"\n\x02\x08\x01"
    raw = tf.raw_ops

    def taken(given, metadata, types):
        return raw.CompositeTensorVariantToComponents(
            encoded=given, metadata=metadata, Tcomponents=types
        )

    held = raw.CompositeTensorVariantFromComponents(
        components=[tf.constant([1.0, 2.0]), tf.constant([b"a"])], metadata=ragged
    )
    both = [tf.float32, tf.string]
    numbers, words = taken(tf.identity(held), ragged, both)
    assert (numbers.numpy().tolist(), words.numpy().tolist()) == ([1.0, 2.0], [b"a"])
    for metadata, types, told in (
        (sparse, both, "Expected a SPARSE_TENSOR_SPEC"),
        (ragged, both[:1], "has 2 tensor components"),
        (ragged, both[::-1], "component 0 had dtype float32"),
        (b"no message", both, "Error parsing metadata"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=told):
            taken(held, metadata, types)
