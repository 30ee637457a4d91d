"""Where a server connects to because a caller names addresses."""

from __future__ import annotations

import pytest

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.reach import require_reachable
from tideflow.transport import Caller
from tideflow.transport.identity import Identity, Kind
from tideflow.wire import errors

OWN = ClusterSpec({"ps": ["host1:1"], "worker": ["host2:2", "unix:/run/mine"]})
CLIENT = Identity(Kind.CLIENT, "a client", "10.0.0.9")


def ask(identity: Identity | None, *addresses: str) -> None:
    """Do as a server that the caller gives a cluster with these addresses."""
    asked = ClusterSpec({"ps": ["host1:1"], "more": list(addresses)})
    Caller(identity).context.run(require_reachable, asked, OWN)


@pytest.mark.parametrize("address", ["host2:2", "10.0.0.9:77", "unix:/run/mine"])
@pytest.mark.parametrize("kind", [Kind.CLIENT, Kind.TASK])
def test_a_caller_may_name_what_the_server_knows_and_its_own_host(address: str, kind: Kind) -> None:
    ask(Identity(kind, "x", "10.0.0.9"), address)


@pytest.mark.parametrize("address", ["169.254.169.254:80", "host3:1", "localhost:22"])
def test_a_caller_sends_a_server_nowhere_else(address: str) -> None:
    with pytest.raises(errors.PermissionDeniedError, match=f"a client names more:0 at {address}"):
        ask(CLIENT, address)


def test_on_one_host_loopback_is_the_callers_own() -> None:
    ask(Identity(Kind.CLIENT, "a client", "127.0.0.1"), "localhost:5")


@pytest.mark.parametrize("kind", list(Kind))
def test_nobody_names_a_unix_socket(kind: Kind) -> None:
    with pytest.raises(errors.PermissionDeniedError, match="no Unix socket"):
        ask(Identity(kind), "unix:/run/docker.sock")


def test_whoever_runs_the_server_may_name_any_host() -> None:
    ask(Identity(Kind.LOCAL_USER), "host3:1")
    ask(None, "host3:1")
