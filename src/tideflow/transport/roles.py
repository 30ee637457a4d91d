"""Which calls are whose: the one table, asked before any service is.

A row is a service, or one of its methods, which then counts instead.  Whoever runs the server may
call everything on its own host, and so may all whom a server was told to let in without proof.

    T  tasks of the cluster, and holders of its token
    C  clients
    R  readers, who may look and not touch
"""

from __future__ import annotations

import functools

from tideflow.transport.identity import Identity, Kind
from tideflow.wire import errors

WHO_MAY_CALL = {
    "/tensorflow.MasterService": "T C",
    "/tensorflow.MasterService/ListDevices": "T C R",
    "/tensorflow.eager.EagerService": "T C",
    "/tensorflow.WorkerService": "T",
    "/tensorflow.WorkerService/GetStatus": "T C R",
    # What eager clients, which are no tasks of the server's cluster, ask of workers.
    "/tensorflow.WorkerService/RecvTensor": "T C",
    "/tensorflow.WorkerService/Logging": "T C",
    "/tensorflow.WorkerService/Tracing": "T C",
    "/tensorflow.CoordinationService": "T",
    "/tideflow.Peer": "T C",
    "/tideflow.Collectives": "T",
    "/tideflow.Status": "T C R",
    "/tensorflow.data.DispatcherService": "T C",
    "/tensorflow.data.WorkerService": "T C",
}
# Of services that the table does not have.
_OTHERS = "T"

_LETTERS = {Kind.TASK: "T", Kind.CLIENT: "C", Kind.READER: "R"}
_WORDS = {"T": "tasks", "C": "clients", "R": "readers"}
_ALL = (Kind.LOCAL_USER, Kind.UNPROVEN)


def is_limited(identity: Identity) -> bool:
    """Whether there are calls that somebody may not make."""
    return identity.kind not in _ALL


@functools.cache
def may_call(kind: Kind, path: str) -> bool:
    """Whether whoever is of a kind may call a method."""
    return kind in _ALL or _LETTERS.get(kind, "-") in _who(path)


def refusal(identity: Identity, path: str) -> errors.OpError | None:
    """Return the error of a call that somebody may not make; None for one that may be made."""
    if may_call(identity.kind, path):
        return None
    who = " and ".join(_WORDS[letter] for letter in _who(path))
    hint = "" if identity.kind is not Kind.STRANGER else "; it brought no token that holds"
    return errors.PermissionDeniedError(
        f"{identity} ({identity.kind.value}) may not call {path}, which is for {who}{hint}"
    )


def _who(path: str) -> list[str]:
    service = path.rpartition("/")[0]
    return WHO_MAY_CALL.get(path, WHO_MAY_CALL.get(service, _OTHERS)).split()
