"""Feeds and fetches that pass through the rendezvous.

A step over several tasks, and a partial run, hand feeds in and take fetches out by rendezvous keys
on the client device, as TensorFlow's master does.
Source: runtime facts on partition graphs (feed and fetch nodes) and on partial runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tideflow.compile.prune import ClientGraph, Signature
from tideflow.graph.node import Node
from tideflow.graph.op_def import get_op_def
from tideflow.wire import errors
from tideflow.wire.ids import signed64
from tideflow.wire.rendezvous_key import key_prefix


def endpoint_key(device: str, incarnation: int, name: str) -> str:
    """Return the rendezvous key of the feed or fetch `node:port` on the client device."""
    return key_prefix(device, incarnation, device, name) + "0:0"


def through_rendezvous(client_graph: ClientGraph, device: str, incarnation: int) -> None:
    """Turn the graph's `_Arg` and `_Retval` nodes into receives and sends, in place.

    Args:
      device: the client device, where feeds and fetches live.
      incarnation: of that device.
    """
    signature = client_graph.signature
    for name, node in zip(signature.feeds, client_graph.args):
        if node is not None:
            dtype = node.output_types[0]
            attrs = {"tensor_type": dtype, **_address(name, device, incarnation)}
            _become(node, "_recv", "_Recv", name, attrs, device)
    for name, node in zip(signature.fetches, client_graph.retvals):
        attrs = {"T": node.attrs["T"], **_address(name, device, incarnation)}
        _become(node, "_send", "_Send", name, attrs, device)


def _address(name: str, device: str, incarnation: int) -> dict[str, object]:
    return {
        "tensor_name": name,
        "send_device": device,
        "send_device_incarnation": signed64(incarnation),
        "recv_device": device,
        "client_terminated": True,
    }


def _become(
    node: Node, prefix: str, op: str, name: str, attrs: dict[str, object], device: str
) -> None:
    node.name = f"{prefix}_{name.replace(':', '_')}"
    node.op_def = get_op_def(op)
    node.attrs = attrs
    node.device = device
    node._output_types = None


@dataclass(slots=True)
class PartialRun:
    """What of a partial run was fed and fetched so far, and what may come next.

    Attributes:
      needs: for each fetch the feeds that it depends on.
    """

    signature: Signature
    needs: dict[str, frozenset[str]]
    fed: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, client_graph: ClientGraph) -> PartialRun:
        """Return the state of a run that begins (before its ends pass through the rendezvous)."""
        signature = client_graph.signature
        reach: dict[int, frozenset[str]] = {}
        for name, node in zip(signature.feeds, client_graph.args):
            if node is not None:
                reach[id(node)] = frozenset((name,))
        for node in client_graph.nodes:
            if id(node) not in reach:
                sources = [*(s for s, _ in node.edges), *node.controls]
                reach[id(node)] = frozenset().union(*(reach.get(id(s), ()) for s in sources))
        needs = {
            name: reach[id(node)] for name, node in zip(signature.fetches, client_graph.retvals)
        }
        return cls(signature, needs)

    def check(self, feeds: list[str], fetches: list[str]) -> None:
        """Raise InvalidArgumentError where feeds or fetches may not come now; the run goes on."""
        for role, names, declared, used in (
            ("feed", feeds, self.signature.feeds, self.fed),
            ("fetch", fetches, self.signature.fetches, self.fetched),
        ):
            for name in names:
                if name not in declared:
                    raise errors.InvalidArgumentError(
                        f"{role} {name!r} was not named when the partial run was set up"
                    )
                if name in used:
                    raise errors.InvalidArgumentError(
                        f"{role} {name!r} was used in this partial run already"
                    )
        have = self.fed.union(feeds)
        for name in fetches:
            missing = sorted(self.needs[name] - have)
            if missing:
                raise errors.InvalidArgumentError(
                    f"fetch {name!r} depends on feeds that are still missing: {', '.join(missing)}"
                )

    def advance(self, feeds: list[str], fetches: list[str]) -> None:
        """Note that feeds and fetches were used."""
        self.fed.update(feeds)
        self.fetched.update(fetches)

    @property
    def is_finished(self) -> bool:
        """Whether every feed and fetch was used."""
        return len(self.fed) == len(self.signature.feeds) and len(self.fetched) == len(
            self.signature.fetches
        )
