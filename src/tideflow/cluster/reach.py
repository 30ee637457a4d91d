"""Where a server connects to because somebody on the wire says so.

A client may give a session, or a context, a cluster of its own.  Its addresses must be of the
server's own cluster or of the client's host, unless the client is whoever runs the server; and no
Unix socket is ever connected to that is not of the server's own cluster.
"""

from __future__ import annotations

import ipaddress

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.transport import current_caller, split_host_port
from tideflow.transport.roles import is_limited
from tideflow.wire import errors


def require_reachable(asked: ClusterSpec, own: ClusterSpec) -> None:
    """Refuse a cluster that leads elsewhere.

    asked: what came with a call.  own: what the server was started with.
    Raises: PermissionDeniedError that names the caller and the address; InvalidArgumentError for
    what is no address.
    """
    caller = current_caller()
    identity = None if caller is None else caller.identity
    known = {address for job in own.jobs for address in own.tasks(job).values()}
    for job in asked.jobs:
        for index, address in asked.tasks(job).items():
            if address in known:
                continue
            if address.startswith("unix:"):
                raise errors.PermissionDeniedError(
                    f"the call names {job}:{index} at {address}: a server connects to no Unix"
                    " socket that a caller names"
                )
            if identity is None or not is_limited(identity):
                continue
            if not _is_at(split_host_port(address)[0], identity.host):
                raise errors.PermissionDeniedError(
                    f"{identity} names {job}:{index} at {address}, which is neither of this"
                    " server's cluster nor at the caller's own address; add it to the cluster that"
                    " the server is started with"
                )


def _is_at(host: str, callers: str) -> bool:
    """Whether a host that is named is the one that the caller calls from, by its address."""
    return host == callers or (_is_loopback(callers) and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
