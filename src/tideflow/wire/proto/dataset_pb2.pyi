from tideflow.wire.proto import tensor_pb2 as _tensor_pb2
from tideflow.wire.proto import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompressedComponentMetadata(_message.Message):
    __slots__ = ("dtype", "tensor_shape", "uncompressed_bytes")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_SHAPE_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    dtype: int
    tensor_shape: _tensor_pb2.TensorShapeProto
    uncompressed_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dtype: _Optional[_Union[int, str]] = ..., tensor_shape: _Optional[_Union[_tensor_pb2.TensorShapeProto, _Mapping]] = ..., uncompressed_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class CompressedElement(_message.Message):
    __slots__ = ("data", "component_metadata", "version")
    DATA_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_METADATA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    component_metadata: _containers.RepeatedCompositeFieldContainer[CompressedComponentMetadata]
    version: int
    def __init__(self, data: _Optional[bytes] = ..., component_metadata: _Optional[_Iterable[_Union[CompressedComponentMetadata, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class UncompressedElement(_message.Message):
    __slots__ = ("components",)
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    components: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorProto]
    def __init__(self, components: _Optional[_Iterable[_Union[_tensor_pb2.TensorProto, _Mapping]]] = ...) -> None: ...
