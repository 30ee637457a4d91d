"""Where values enter and leave a graph: function arguments, and sends and receives.

The runtime carries these out itself (tideflow.runtime.executor), so they have no kernels.
Source: runtime facts on rendezvous keys and partition graphs.
"""

from __future__ import annotations

from tideflow.graph import roles
from tideflow.graph.op_def import declare
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import no_outputs, unknown

for _name in ("_Arg", "_DeviceArg"):
    declare(
        f"""
        {_name}() -> output: T
        T: type
        index: int >= 0
        """,
        shape_rule=unknown,
        is_stateful=True,
        role=roles.ARGUMENT,
        effects=Effects.UNSEEN,
    )

for _name in ("_Retval", "_DeviceRetval"):
    declare(
        f"""
        {_name}(input: T)
        T: type
        index: int >= 0
        """,
        shape_rule=no_outputs,
        is_stateful=True,
        role=roles.RESULT,
    )

_ADDRESS = """
        tensor_name: string
        send_device: string
        send_device_incarnation: int
        recv_device: string
        client_terminated: bool = false
"""

# Those of the host's memory stay there; those without an underscore are what graphs of users hold.
for _name, _any_device in (("_Send", True), ("_HostSend", False), ("Send", True)):
    declare(
        f"""
        {_name}(tensor: T)
        T: type
        {_ADDRESS}
        """,
        shape_rule=no_outputs,
        is_stateful=True,
        role=roles.SEND,
        any_device=_any_device,
    )

for _name, _any_device in (("_Recv", True), ("_HostRecv", False), ("Recv", True)):
    declare(
        f"""
        {_name}() -> tensor: tensor_type
        tensor_type: type
        {_ADDRESS}
        """,
        shape_rule=unknown,
        is_stateful=True,
        role=roles.RECEIVE,
        any_device=_any_device,
    )
