"""Tensors to messages and back, and every rule for messages that others wrote."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.handles import ResourceHandle, Variant
from tideflow.wire.shapes import encode_shape
from tideflow.wire.tensor_codec import (
    decode_content,
    decode_tensor,
    encode_tensor,
    tensor_header,
    value_dtype,
)

NUMERIC = [dtype for dtype in dtypes.all_dtypes() if dtype.as_numpy_dtype is not object]
HANDLE = ResourceHandle(
    device="/job:ps/replica:0/task:0/device:CPU:0",
    container="ps",
    name="v",
    hash_code=2**64 - 1,
    maybe_type_name="N10tensorflow3VarE",
    dtypes_and_shapes=((dtypes.float32, (2, None)), (dtypes.string, None)),
)


def message(dtype: dtypes.DType, shape: tuple[int, ...] | None, **fields: object) -> pb.TensorProto:
    tensor_pb = pb.TensorProto(dtype=dtype.number, **fields)
    if shape is not None:
        tensor_pb.tensor_shape.CopyFrom(encode_shape(shape))
    return tensor_pb


def sample(dtype: dtypes.DType, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count) % 2).reshape(shape).astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", NUMERIC, ids=lambda dtype: dtype.name)
def test_numbers_survive_the_trip(dtype, shape):
    array = sample(dtype, shape)
    tensor_pb = encode_tensor(array, dtype)
    back = decode_tensor(tensor_pb)
    assert tensor_pb.dtype == dtype.number
    assert back.dtype == array.dtype
    assert back.shape == shape
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.zeros((0, 4), np.complex64),
        np.array([b"", b"x" * 200, b"y"], dtype=object),
        HANDLE,
        Variant("somebody::List", b"\0m", (encode_tensor(np.float32(2)),)),
    ],
    ids=["scalar", "matrix", "transposed", "empty", "strings", "resource", "variant"],
)
def test_header_and_payload_join_to_the_serialised_message(value):
    header, payload = tensor_header(value)
    assert header + bytes(payload) == encode_tensor(value).SerializeToString(deterministic=True)


def test_payload_of_a_contiguous_array_is_its_own_memory():
    array = np.zeros(4000, np.float32)
    _, payload = tensor_header(array)
    array[0] = 1
    assert bytes(payload[:4]) == np.float32(1).tobytes()


def test_decoded_content_is_a_read_only_view():
    content = np.arange(4, dtype=np.int32).tobytes()
    array = decode_content(dtypes.int32, (4,), content)
    assert np.shares_memory(array, np.frombuffer(content, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_a_scalar_resource_is_a_bare_handle():
    assert decode_tensor(encode_tensor(HANDLE)) == HANDLE


def test_an_array_of_handles_keeps_its_shape():
    array = np.empty((2, 1), dtype=object)
    array[:] = HANDLE
    back = decode_tensor(encode_tensor(array))
    assert back.shape == (2, 1)
    assert list(back.flat) == [HANDLE, HANDLE]


def test_a_variant_keeps_its_tensors_as_they_came():
    inner = message(dtypes.qint8, (2,), int_val=[1, 2])
    value = Variant("t", b"meta", (inner,))
    assert decode_tensor(encode_tensor(value)) == value


def test_any_object_that_becomes_a_variant_may_be_an_element():
    class TensorList:
        def to_variant(self) -> Variant:
            return Variant("somebody::List", b"m")

    assert value_dtype(TensorList()) is dtypes.variant
    assert decode_tensor(encode_tensor(TensorList())) == Variant("somebody::List", b"m")


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_strings_survive_the_trip(strings):
    array = np.empty(len(strings), dtype=object)
    array[:] = strings
    assert list(decode_tensor(encode_tensor(array, dtypes.string))) == strings


def test_text_travels_as_utf_8():
    assert decode_tensor(encode_tensor(np.array(["grün"])))[0] == "grün".encode()
    assert decode_tensor(encode_tensor("é"))[()] == "é".encode()


def test_a_jax_array_is_a_value():
    back = decode_tensor(encode_tensor(jnp.ones((2, 2), jnp.bfloat16)))
    assert back.dtype == ml_dtypes.bfloat16
    assert back.tolist() == [[1, 1], [1, 1]]


def test_other_byte_orders_travel_little_endian():
    assert encode_tensor(np.array([1], ">i4")).tensor_content == b"\1\0\0\0"


def test_python_scalars_become_the_client_s_types():
    assert encode_tensor(1.5).dtype == dtypes.float32.number
    assert encode_tensor(3).dtype == dtypes.int32.number
    assert encode_tensor(True).dtype == dtypes.bool_.number


def test_an_array_of_another_type_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"float32 as a tensor of int32"):
        encode_tensor(np.ones(2, np.float32), dtypes.int32)


def test_a_string_tensor_refuses_a_handle():
    array = np.array([b"a", HANDLE], dtype=object)
    with pytest.raises(InvalidArgumentError, match="ResourceHandle"):
        encode_tensor(array, dtypes.string)


@pytest.mark.parametrize(
    ("tensor_pb", "expected"),
    [
        (message(dtypes.float32, (3,), float_val=[1, 2]), [1, 2, 2]),
        (message(dtypes.float32, (1,), float_val=[1, 2]), [1]),
        (message(dtypes.float32, (2,)), [0, 0]),
        (message(dtypes.float32, (2,), int_val=[7]), [0, 0]),
        (message(dtypes.float32, None, float_val=[4]), 4),
        (message(dtypes.float64, (1,), double_val=[0.1]), [0.1]),
        (message(dtypes.int8, (2,), int_val=[300, -1]), [44, -1]),
        (message(dtypes.uint16, (2,), int_val=[-1]), [65535, 65535]),
        (message(dtypes.int4, (2,), int_val=[9, -1]), [-7, -1]),
        (message(dtypes.qint32, (1,), int_val=[-5]), [-5]),
        (message(dtypes.int64, (1,), int64_val=[-(2**63)]), [-(2**63)]),
        (message(dtypes.uint32, (1,), uint32_val=[2**32 - 1]), [2**32 - 1]),
        (message(dtypes.uint64, (1,), uint64_val=[2**64 - 1]), [2**64 - 1]),
        (message(dtypes.bool_, (3,), bool_val=[True, False]), [True, False, False]),
        (message(dtypes.float16, (2,), half_val=[0x3C00]), [1, 1]),
        (message(dtypes.bfloat16, (2,), half_val=[0x3F80]), [1, 1]),
        (message(dtypes.float8_e5m2, (3,), float8_val=b"\x3c\x40"), [1, 2, 2]),
        (message(dtypes.complex64, (2,), scomplex_val=[1, 2, 3]), [1 + 2j, 1 + 2j]),
        (message(dtypes.complex64, (1,), scomplex_val=[1]), [0]),
        (message(dtypes.complex128, (2,), dcomplex_val=[1, 2, 3, 4]), [1 + 2j, 3 + 4j]),
        (message(dtypes.string, (2,), string_val=[b"a"]), [b"a", b"a"]),
        (message(dtypes.string, (1,)), [b""]),
        (message(dtypes.resource, (1,)), [ResourceHandle()]),
        (message(dtypes.variant, (), variant_val=[Variant("t").to_proto()]), Variant("t")),
        (message(dtypes.resource, (), resource_handle_val=[HANDLE.to_proto()]), HANDLE),
        (message(dtypes.int32, (1,), tensor_content=b"\5\0\0\0", int_val=[7]), [5]),
    ],
)
def test_list_fields_are_read_by_the_protocol_s_rules(tensor_pb, expected):
    value = decode_tensor(tensor_pb)
    assert (value.tolist() if isinstance(value, np.ndarray) else value) == expected


def test_an_unknown_rank_reads_as_a_scalar():
    tensor_pb = message(dtypes.int32, None, int_val=[3])
    tensor_pb.tensor_shape.unknown_rank = True
    assert decode_tensor(tensor_pb).shape == ()


@pytest.mark.parametrize(
    ("tensor_pb", "says"),
    [
        (message(dtypes.int32, (2,), tensor_content=b"123"), "3 bytes; its 2 elements take 8"),
        (message(dtypes.int32, (0,), tensor_content=b"1234"), "4 bytes; its 0 elements take 0"),
        (message(dtypes.bool_, (2,), tensor_content=b"\1\2"), "bytes above 1"),
        (message(dtypes.int32, (-1,), int_val=[1]), "size -1 on axis 0"),
        (message(dtypes.int32, (2**40, 2**40)), "more elements than an int64"),
        (pb.TensorProto(), "element type 0"),
        (pb.TensorProto(dtype=99), "element type 99"),
        (pb.TensorProto(dtype=101), "references stand in op signatures only"),
        (message(dtypes.string, (2,), tensor_content=b"\1"), "lengths of 2 elements"),
        (message(dtypes.string, (1,), tensor_content=b"\2a"), "2 bytes in all, but holds 1"),
        (message(dtypes.string, (1,), tensor_content=b"\1ab"), "1 bytes in all, but holds 2"),
        (message(dtypes.string, (1,), tensor_content=b"\x80"), "broken element length"),
        (message(dtypes.resource, (1,), tensor_content=b"\1\xff"), "does not parse"),
    ],
)
def test_malformed_messages_are_invalid_arguments_that_say_why(tensor_pb, says):
    with pytest.raises(InvalidArgumentError, match=says):
        decode_tensor(tensor_pb)


def test_a_handle_to_an_unknown_type_is_an_invalid_argument():
    handle_pb = pb.ResourceHandleProto(name="v")
    handle_pb.dtypes_and_shapes.add(dtype=99)
    with pytest.raises(InvalidArgumentError, match="resource 'v': 99"):
        decode_tensor(message(dtypes.resource, (), resource_handle_val=[handle_pb]))
