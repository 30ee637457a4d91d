"""What members and leaders of groups say to each other, as TensorFlow's messages and as values.

Two fields that mean nothing to TensorFlow's CPU workers carry what is ours: the description of a
device says that its task takes pushed buffers, which group it has given up and which rank it wants;
the communicator key of a group (for NCCL in TensorFlow) its number.
Source: worker.proto of TensorFlow 2.21; runtime facts on CompleteGroup and CompleteInstance.
"""

from __future__ import annotations

import re

from tideflow.runtime.collective_groups import Group, InstanceRequest, JoinRequest, Member
from tideflow.wire import messages as pb
from tideflow.wire.shapes import decode_full_shape

_MARK = re.compile(r"tideflow streams:(\d) given_up:(\d+) rank:(-?\d+);")
_NUMBER = b"tideflow group "


def join_to_pb(request: JoinRequest) -> pb.CompleteGroupRequest:
    """Return the message of a request to join."""
    attributes_pb = _marked(request.member, request.given_up)
    return pb.CompleteGroupRequest(
        group_key=request.key,
        group_size=request.size,
        device_type=attributes_pb.device_type,
        device_attributes=attributes_pb,
    )


def join_from_pb(request: pb.CompleteGroupRequest) -> JoinRequest:
    """Return the request to join of a message."""
    member, given_up = _member(request.device_attributes)
    return JoinRequest(request.group_key, request.group_size, member, given_up)


def _marked(member: Member, given_up: int) -> pb.DeviceAttributes:
    attributes_pb = pb.DeviceAttributes()
    attributes_pb.CopyFrom(member.attributes)
    rank = -1 if member.rank is None else member.rank
    mark = f"tideflow streams:{int(member.has_lines)} given_up:{given_up} rank:{rank};"
    attributes_pb.physical_device_desc = mark
    return attributes_pb


def _member(attributes_pb: pb.DeviceAttributes) -> tuple[Member, int]:
    found = _MARK.match(attributes_pb.physical_device_desc)
    if found is None:
        return Member(attributes_pb, has_lines=False), 0
    streams, given_up, rank = (int(word) for word in found.groups())
    return Member(attributes_pb, bool(streams), None if rank < 0 else rank), given_up


def group_to_pb(group: Group) -> pb.CompleteGroupResponse:
    """Return the message of a complete group."""
    return pb.CompleteGroupResponse(
        group_key=group.key,
        group_size=group.size,
        device_type=group.members[0].attributes.device_type,
        num_tasks=len(group.tasks),
        communicator_key=_NUMBER + str(group.number).encode(),
        device_attributes=[_marked(member, 0) for member in group.members],
    )


def group_from_pb(response: pb.CompleteGroupResponse) -> Group:
    """Return the group of a message."""
    members = tuple(_member(attributes_pb)[0] for attributes_pb in response.device_attributes)
    number = 0
    if response.communicator_key.startswith(_NUMBER):
        number = int(response.communicator_key[len(_NUMBER) :])
    # Without a number the leader is TensorFlow's, and buffers of two groups could not be told
    # apart.
    has_lines = number != 0 and all(member.has_lines for member in members)
    return Group(response.group_key, number, members, has_lines)


def instance_to_pb(request: InstanceRequest, device_type: str) -> pb.CompleteInstanceRequest:
    """Return the message of a member's call."""
    message = pb.CompleteInstanceRequest(
        name=request.name,
        type=request.kind,
        data_type=request.dtype,
        shape=pb.TensorShapeProto(
            dim=[pb.TensorShapeProto.Dim(size=size) for size in request.shape]
        ),
        group_key=request.group_key,
        group_size=request.group_size,
        instance_key=request.instance_key,
        device_type=device_type,
        device=request.device,
        is_source=request.is_source,
    )
    if request.kind == _BROADCAST:
        message.subdiv_offset.append(0)
    return message


_BROADCAST = 1


def instance_from_pb(request: pb.CompleteInstanceRequest) -> InstanceRequest:
    """Return a member's call of a message."""
    return InstanceRequest(
        request.name,
        request.type,
        request.data_type,
        tuple(decode_full_shape(request.shape)),
        request.group_key,
        request.group_size,
        request.instance_key,
        request.device,
        request.is_source,
    )
