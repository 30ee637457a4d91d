"""What becomes of an operation's input that lies on another device: it is copied, or refused.

Source: tensorflow/python/framework/config.py (set_device_policy)
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tideflow import logging
from tideflow.graph import roles
from tideflow.graph.op_def import OpDef
from tideflow.wire import dtypes, errors
from tideflow.wire.device_name import task_name

_HANDLES = (dtypes.resource, dtypes.variant)
# What is there to copy.
_COPIES = frozenset({roles.IDENTITY, roles.IDENTITY_N})


class DevicePolicy(enum.Enum):
    """What differs from copying silently; the values are the names in the interface."""

    EXPLICIT = "explicit"
    WARN = "warn"
    SILENT_FOR_INT32 = "silent_for_int32"


def check_places(policy: DevicePolicy, op_def: OpDef, inputs: Sequence[Any], device: str) -> None:
    """Look at where the inputs of an operation on a device are.

    What the client has goes to other tasks in any case: constants are made there for them, too.
    Raises: InvalidArgumentError for one that is elsewhere, where the policy does not let it be
    copied.
    """
    if op_def.role in _COPIES or op_def.name.startswith("__"):
        return
    for number, tensor in enumerate(inputs):
        if tensor.dtype in _HANDLES or tensor.device == device:
            continue
        if tensor.is_here and task_name(tensor.device) != task_name(device):
            continue
        if policy is DevicePolicy.SILENT_FOR_INT32 and tensor.dtype is dtypes.int32:
            continue
        text = (
            f"Tensors on conflicting devices: {op_def.name} runs on {device}, but its input "
            f"#{number} is on {tensor.device}"
        )
        if policy is DevicePolicy.WARN:
            logging.warning("%s; it is copied", text)
            continue
        raise errors.InvalidArgumentError(
            f"{text}. Copy it with tf.identity where that device is asked for, or allow copies "
            "with tf.config.experimental.set_device_policy('silent')"
        )
