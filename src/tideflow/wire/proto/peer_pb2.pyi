from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerFrame(_message.Message):
    __slots__ = ("hello", "tensor", "run", "run_end", "given_up_step", "over_step", "seen_count", "refused", "padding", "content")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RUN_END_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_STEP_FIELD_NUMBER: _ClassVar[int]
    OVER_STEP_FIELD_NUMBER: _ClassVar[int]
    SEEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    hello: PeerHello
    tensor: _containers.RepeatedCompositeFieldContainer[PeerTensor]
    run: _containers.RepeatedCompositeFieldContainer[PeerRun]
    run_end: _containers.RepeatedCompositeFieldContainer[PeerRunEnd]
    given_up_step: _containers.RepeatedScalarFieldContainer[int]
    over_step: _containers.RepeatedScalarFieldContainer[int]
    seen_count: int
    refused: _containers.RepeatedScalarFieldContainer[int]
    padding: int
    content: bytes
    def __init__(self, hello: _Optional[_Union[PeerHello, _Mapping]] = ..., tensor: _Optional[_Iterable[_Union[PeerTensor, _Mapping]]] = ..., run: _Optional[_Iterable[_Union[PeerRun, _Mapping]]] = ..., run_end: _Optional[_Iterable[_Union[PeerRunEnd, _Mapping]]] = ..., given_up_step: _Optional[_Iterable[int]] = ..., over_step: _Optional[_Iterable[int]] = ..., seen_count: _Optional[int] = ..., refused: _Optional[_Iterable[int]] = ..., padding: _Optional[int] = ..., content: _Optional[bytes] = ...) -> None: ...

class PeerHello(_message.Message):
    __slots__ = ("version", "task", "session_handle")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    version: int
    task: str
    session_handle: str
    def __init__(self, version: _Optional[int] = ..., task: _Optional[str] = ..., session_handle: _Optional[str] = ...) -> None: ...

class PeerTensor(_message.Message):
    __slots__ = ("step_id", "rendezvous_key", "is_dead", "ask", "header", "begin", "size")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_KEY_FIELD_NUMBER: _ClassVar[int]
    IS_DEAD_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    rendezvous_key: str
    is_dead: bool
    ask: bool
    header: bytes
    begin: int
    size: int
    def __init__(self, step_id: _Optional[int] = ..., rendezvous_key: _Optional[str] = ..., is_dead: bool = ..., ask: bool = ..., header: _Optional[bytes] = ..., begin: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class PeerRun(_message.Message):
    __slots__ = ("step_id", "session_handle", "graph_handle", "component", "op_id")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_HANDLE_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    session_handle: str
    graph_handle: str
    component: bytes
    op_id: int
    def __init__(self, step_id: _Optional[int] = ..., session_handle: _Optional[str] = ..., graph_handle: _Optional[str] = ..., component: _Optional[bytes] = ..., op_id: _Optional[int] = ...) -> None: ...

class PeerRunEnd(_message.Message):
    __slots__ = ("step_id", "code", "message", "payloads", "is_over")
    class PayloadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    code: int
    message: str
    payloads: _containers.ScalarMap[str, bytes]
    is_over: bool
    def __init__(self, step_id: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., payloads: _Optional[_Mapping[str, bytes]] = ..., is_over: bool = ...) -> None: ...
