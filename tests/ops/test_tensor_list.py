"""Versions of a TensorList, and lists that arrive malformed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tideflow.ops.tensor_arrays.list_values import TYPE_NAME, TensorList
from tideflow.wire import errors
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.handles import Variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

FLOAT = as_dtype("float32")


def test_each_version_keeps_its_elements_in_whatever_order_versions_are_made_and_read():
    rng = random.Random(5)
    versions = [(TensorList(FLOAT, None, range(4)), list(range(4)))]
    for step in range(400):
        made, model = rng.choice(versions)
        start = rng.randint(0, len(model))
        count = rng.randint(0, len(model) - start)
        values = [step * 10 + i for i in range(rng.randint(0, 2))]
        versions.append(
            (made.changed(start, count, values), model[:start] + values + model[start + count :])
        )
        read, expected = rng.choice(versions)
        assert read.items() == expected
    assert all(made.items() == model for made, model in versions)


def test_a_list_and_its_unset_elements_survive_the_journey():
    sent = TensorList(FLOAT, (None, 2), [None, np.ones((3, 2), np.float32), None], most=7)
    found = decode_tensor(encode_tensor(sent))
    assert isinstance(found, TensorList)
    assert (found.element_dtype, found.element_shape, found.most) == (FLOAT, (None, 2), 7)
    first, second, third = found.items()
    assert first is None
    assert third is None
    np.testing.assert_array_equal(second, np.ones((3, 2)))


def test_lists_inside_a_list_travel_with_it():
    inner = TensorList(FLOAT, (), [np.float32(2)])
    found = decode_tensor(encode_tensor(TensorList(as_dtype("variant"), (), [inner, inner])))
    assert [one.items()[0].item() for one in found.items()] == [2.0, 2.0]


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\xff", b"\x05", b"\x01\x09\x01\x01", b"\x00\x7f\x01", b"\x00\x01\x01\xff\xff"],
)
def test_a_malformed_list_is_refused(metadata):
    with pytest.raises(errors.InvalidArgumentError, match="TensorList"):
        TensorList.from_variant(Variant(TYPE_NAME, metadata))


def test_a_list_with_elements_of_another_type_is_refused():
    one = TensorList(as_dtype("int32"), None, [np.int32(3)]).to_variant()
    metadata = TensorList(FLOAT, None).to_variant().metadata
    with pytest.raises(errors.InvalidArgumentError, match="float32 came with elements of types"):
        TensorList.from_variant(Variant(TYPE_NAME, metadata, one.tensors))


def test_a_variant_of_another_type_stays_as_it_came():
    other = Variant("somebody::Thing", b"\x01")
    assert decode_tensor(encode_tensor(other)) == other
