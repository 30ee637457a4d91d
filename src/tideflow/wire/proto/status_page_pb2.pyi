from tideflow.wire.proto import cluster_pb2 as _cluster_pb2
from tideflow.wire.proto import device_pb2 as _device_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerStatusRequest(_message.Message):
    __slots__ = ("long_step_s",)
    LONG_STEP_S_FIELD_NUMBER: _ClassVar[int]
    long_step_s: float
    def __init__(self, long_step_s: _Optional[float] = ...) -> None: ...

class ServerStatusResponse(_message.Message):
    __slots__ = ("task", "address", "pid", "uptime_s", "version", "cluster", "device", "master_session", "worker_session", "resource", "method", "running_steps", "waited_for", "step", "warning")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MASTER_SESSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_SESSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    RUNNING_STEPS_FIELD_NUMBER: _ClassVar[int]
    WAITED_FOR_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    task: str
    address: str
    pid: int
    uptime_s: float
    version: str
    cluster: _cluster_pb2.ClusterDef
    device: _containers.RepeatedCompositeFieldContainer[_device_pb2.DeviceAttributes]
    master_session: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    worker_session: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    resource: _containers.RepeatedCompositeFieldContainer[ResourceStatus]
    method: _containers.RepeatedCompositeFieldContainer[MethodStatus]
    running_steps: int
    waited_for: _containers.RepeatedScalarFieldContainer[str]
    step: _containers.RepeatedCompositeFieldContainer[StepStatus]
    warning: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[str] = ..., address: _Optional[str] = ..., pid: _Optional[int] = ..., uptime_s: _Optional[float] = ..., version: _Optional[str] = ..., cluster: _Optional[_Union[_cluster_pb2.ClusterDef, _Mapping]] = ..., device: _Optional[_Iterable[_Union[_device_pb2.DeviceAttributes, _Mapping]]] = ..., master_session: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ..., worker_session: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ..., resource: _Optional[_Iterable[_Union[ResourceStatus, _Mapping]]] = ..., method: _Optional[_Iterable[_Union[MethodStatus, _Mapping]]] = ..., running_steps: _Optional[int] = ..., waited_for: _Optional[_Iterable[str]] = ..., step: _Optional[_Iterable[_Union[StepStatus, _Mapping]]] = ..., warning: _Optional[_Iterable[str]] = ...) -> None: ...

class StepStatus(_message.Message):
    __slots__ = ("step_id", "is_running", "seconds", "story")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    STORY_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    is_running: bool
    seconds: float
    story: str
    def __init__(self, step_id: _Optional[int] = ..., is_running: bool = ..., seconds: _Optional[float] = ..., story: _Optional[str] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("handle", "made_by", "graph_version", "node_count", "step_count", "graph_count", "is_isolated")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STEP_COUNT_FIELD_NUMBER: _ClassVar[int]
    GRAPH_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_ISOLATED_FIELD_NUMBER: _ClassVar[int]
    handle: str
    made_by: str
    graph_version: int
    node_count: int
    step_count: int
    graph_count: int
    is_isolated: bool
    def __init__(self, handle: _Optional[str] = ..., made_by: _Optional[str] = ..., graph_version: _Optional[int] = ..., node_count: _Optional[int] = ..., step_count: _Optional[int] = ..., graph_count: _Optional[int] = ..., is_isolated: bool = ...) -> None: ...

class ResourceStatus(_message.Message):
    __slots__ = ("device", "container", "name", "kind", "dtype", "shape", "size_bytes")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    device: str
    container: str
    name: str
    kind: str
    dtype: str
    shape: str
    size_bytes: int
    def __init__(self, device: _Optional[str] = ..., container: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class MethodStatus(_message.Message):
    __slots__ = ("path", "peer", "calls", "errors", "in_flight", "received_bytes", "sent_bytes", "total_s")
    PATH_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_S_FIELD_NUMBER: _ClassVar[int]
    path: str
    peer: str
    calls: int
    errors: int
    in_flight: int
    received_bytes: int
    sent_bytes: int
    total_s: float
    def __init__(self, path: _Optional[str] = ..., peer: _Optional[str] = ..., calls: _Optional[int] = ..., errors: _Optional[int] = ..., in_flight: _Optional[int] = ..., received_bytes: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., total_s: _Optional[float] = ...) -> None: ...
