"""Elements of datasets in the form in which they travel."""

from __future__ import annotations

import numpy as np
import pytest

from tideflow.formats import CompressedElement, compress_element, uncompress_element
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.handles import Variant, read_variant


def strings(*values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


@pytest.mark.parametrize("size", [0, 1, 60, 61, 256, 257, 70_000])
def test_numbers_of_any_size_come_back(size):
    given = np.arange(size, dtype=np.uint8)
    [found] = uncompress_element(compress_element([given], [dtypes.uint8]))
    assert found.dtype == np.uint8
    assert found.tolist() == given.tolist()


def test_components_of_several_kinds_come_back():
    inner = Variant("some.Type", b"inside")
    given = [np.float32(1.5), strings(b"a", b"", b"bcd"), np.array([[True], [False]]), inner]
    kinds = [dtypes.float32, dtypes.string, dtypes.bool_, dtypes.variant]
    number, text, truths, variant = uncompress_element(compress_element(given, kinds))
    assert number == 1.5
    assert text.tolist() == [b"a", b"", b"bcd"]
    assert truths.tolist() == [[True], [False]]
    assert variant == inner


def test_an_element_travels_as_a_variant():
    sent = compress_element([np.arange(3)], [dtypes.int64]).to_variant().to_proto()
    assert sent.type_name == "tensorflow.data.CompressedElement"
    found = read_variant(sent)
    assert isinstance(found, CompressedElement)
    assert uncompress_element(found)[0].tolist() == [0, 1, 2]


def test_bytes_that_are_no_element_are_refused():
    damaged = pb.VariantTensorDataProto(
        type_name="tensorflow.data.CompressedElement", metadata=b"\xff\xff"
    )
    with pytest.raises(errors.InvalidArgumentError, match="2 bytes that are none"):
        read_variant(damaged)


def test_an_element_of_another_version_is_refused():
    element = compress_element([np.int32(1)], [dtypes.int32])
    element.message.version = 7
    with pytest.raises(errors.InternalError, match="Unsupported compressed element version: 7"):
        uncompress_element(element)


def test_sizes_that_do_not_agree_are_refused():
    element = compress_element([np.int32(1)], [dtypes.int32])
    element.message.component_metadata[0].uncompressed_bytes[0] = 8
    with pytest.raises(errors.InternalError, match="Uncompressed size mismatch"):
        uncompress_element(element)


def test_fewer_strings_than_the_shape_says_are_refused():
    element = compress_element([strings(b"ab", b"c")], [dtypes.string])
    element.message.component_metadata[0].tensor_shape.dim[0].size = 3
    with pytest.raises(errors.InternalError, match="2 strings"):
        uncompress_element(element)


def test_damaged_data_is_refused():
    element = compress_element([np.arange(9)], [dtypes.int64])
    element.data = bytes(element.data)[:-1]
    with pytest.raises(errors.DataLossError, match="corrupt"):
        uncompress_element(element)
