"""A session's graph, and its part for one signature, split by task: all without I/O.

Nodes are placed as they come, and then stay; each signature's part is pruned, folded and split
once.  For large graphs both take a while, so a session calls them in a thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideflow.blocking import StopFlag
from tideflow.cluster.collectives import collective_key
from tideflow.cluster.library import FunctionLibrary
from tideflow.cluster.master.device_discovery import ClusterDevices
from tideflow.compile.feeds import PartialRun, endpoint_key, through_rendezvous
from tideflow.compile.partition import partition
from tideflow.compile.place import place
from tideflow.compile.placed_graph import tell_placement
from tideflow.compile.prune import ClientGraph, Signature, find_edge, prune
from tideflow.compile.prune_loops import prune_loops
from tideflow.compile.receive_levels import mark_receive_levels
from tideflow.compile.rewrite import ALL_REWRITES, Rewrites, rewrite
from tideflow.compile.spread import spread_constants
from tideflow.graph.collection import collection_paused
from tideflow.graph.graph_def import nodes_to_graph_def, read_nodes
from tideflow.graph.node import Edge, Node, topological_order
from tideflow.graph.op_def import get_op_def
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.fields import Buffer
from tideflow.wire.graph_contents import GraphContents, kept

Connections = Sequence[tuple[str, str]]


@dataclass(slots=True)
class PartitionedGraph:
    """What a signature needs, as one GraphDef for each task.

    Attributes:
      parts: GraphDefs by task.
      contents: to which their constants refer.
      by_value: whether the client device's part takes the feeds as arguments, and returns the
        fetches; else they pass by the keys.
      feed_keys: rendezvous keys of the feeds, None for one that nothing needs.
      feed_types: their element types, by number.
      fetch_keys: rendezvous keys of the fetches.
      partial: state of a partial run that begins, if asked for.
      collective_key: what the ids of its steps are counted by; 0 without collectives.
    """

    signature: Signature
    parts: dict[str, pb.GraphDef]
    contents: GraphContents
    by_value: bool
    feed_keys: list[str | None]
    feed_types: list[int]
    fetch_keys: list[str]
    partial: PartialRun | None
    collective_key: int


@dataclass(slots=True)
class Extension:
    """Nodes and functions that can be added to a graph."""

    nodes: dict[str, Node]
    library: FunctionLibrary
    versions: pb.VersionDef


class SessionGraph:
    """The graph of a master session.

    Args:
      devices: where nodes may be placed.
      allow_soft_placement: see tideflow.compile.place.
      rewrites: the passes that may change what is computed in between.
      log_placement: whether to write where nodes are placed to standard error.
    One thread at a time may use it.
    """

    def __init__(
        self,
        devices: ClusterDevices,
        allow_soft_placement: bool,
        rewrites: Rewrites = ALL_REWRITES,
        log_placement: bool = False,
    ) -> None:
        self.devices = devices
        self.nodes: dict[str, Node] = {}
        self.library = FunctionLibrary()
        self.version = 0
        self._soft = allow_soft_placement
        self._rewrites = rewrites
        self._log_placement = log_placement
        self._versions = pb.VersionDef()
        self._numbers = itertools.count()

    @collection_paused()
    def read(self, graph_pb: pb.GraphDef, contents: GraphContents, flag: StopFlag) -> Extension:
        """Return nodes and functions that may be added, the nodes placed; nothing changes yet.

        Args:
          contents: to which constants of the graph refer; they are copied.
          flag: looked at between the stages.
        Raises: OpError for what is wrong with them; Stopped.
        """
        library = self.library.extended(graph_pb.library, kept(graph_pb.library.function, contents))
        flag.check()
        made = read_nodes(
            graph_pb,
            existing=self.nodes,
            lookup=library.find_op,
            contents=kept(graph_pb.node, contents),
        )
        flag.check()
        place(list(made.values()), self.devices.names, self._soft, self.nodes)
        flag.check()
        if self._log_placement:
            tell_placement(made.values())
        return Extension(made, library, graph_pb.versions)

    def add(self, extension: Extension) -> None:
        """Add what `read` has returned, if nothing was added since."""
        self.nodes.update(extension.nodes)
        self.library = extension.library
        if extension.versions.producer or not self._versions.producer:
            self._versions.CopyFrom(extension.versions)

    @collection_paused()
    def split(
        self,
        signature: Signature,
        connections: Connections = (),
        is_partial: bool = False,
        by_value: bool = False,
        flag: StopFlag | None = None,
    ) -> PartitionedGraph:
        """Return what a signature needs, by task.

        Args:
          connections: pairs of tensors, of which the first takes the place of the second.
          by_value: see PartitionedGraph; not for partial runs.
          flag: looked at between the passes.
        Raises: as prune, fold and partition do; Stopped.
        """
        flag = flag or StopFlag()
        client_graph = self._prune(signature, connections)
        library = self.library.with_made(prune_loops(client_graph, self.library.find))
        flag.check()
        client_graph.nodes = rewrite(client_graph.nodes, self._rewrites)
        flag.check()
        for node in client_graph.nodes:
            node.device = node.device or self.devices.client_device
        partial = PartialRun.of(client_graph) if is_partial else None
        if not by_value:
            through_rendezvous(
                client_graph, self.devices.client_device, self.devices.client_incarnation
            )
        if self._rewrites.folds and not is_partial:
            client_graph.nodes = spread_constants(client_graph.nodes, _place_of)
        parts = partition(
            client_graph.nodes,
            location=_place_of,
            incarnation=self.devices.incarnations.__getitem__,
            suffix="S",
            numbers=self._numbers,
        )
        flag.check()
        if not is_partial:
            mark_receive_levels(parts)
        contents: dict[bytes, Buffer] = dict(library.contents)
        graphs = {task: self._graph_def(nodes, library, contents) for task, nodes in parts.items()}
        return PartitionedGraph(
            signature,
            graphs,
            contents,
            by_value,
            [
                None if node is None else self._key(name)
                for name, node in zip(signature.feeds, client_graph.args)
            ],
            [self._type_of(name) for name in signature.feeds],
            [self._key(name) for name in signature.fetches],
            partial,
            collective_key(graphs.values()),
        )

    def _prune(self, signature: Signature, connections: Connections) -> ClientGraph:
        if not connections:
            return prune(self.nodes, signature)
        # The replaced tensors are fed, and those that take their places fetched (unless fed);
        # then the two ends are joined.
        feeds, fetches = signature.feeds, signature.fetches
        fetched = tuple(dict.fromkeys(s for s, _ in connections if s not in feeds))
        replaced = tuple(name for _, name in connections)
        widened = Signature((*feeds, *replaced), (*fetches, *fetched), signature.targets)
        found = prune(self.nodes, widened)
        args, extra = found.args[: len(feeds)], found.retvals[len(fetches) :]
        ends = {name: retval.edges[0] for name, retval in zip(fetched, extra)}
        nodes = [node for node in found.nodes if node not in extra]
        for (source, _), arg in zip(connections, found.args[len(feeds) :]):
            if arg is None:
                continue
            if source in feeds:
                at = feeds.index(source)
                stand_in = args[at]
                if stand_in is None:
                    stand_in = args[at] = self._make_arg(source, at)
                    nodes.append(stand_in)
                ends[source] = (stand_in, 0)
            _make_identity(arg, ends[source])
        retvals = found.retvals[: len(fetches)]
        return ClientGraph(signature, topological_order(nodes), args, retvals, found.targets)

    def _make_arg(self, name: str, index: int) -> Node:
        node, port = find_edge(self.nodes, name, "feed")
        attrs = {"T": node.output_types[port].base_dtype, "index": index}
        return Node(f"_arg_{node.name}_{port}", get_op_def("_Arg"), [], [], attrs)

    def _graph_def(
        self,
        nodes: Iterable[Node],
        library: FunctionLibrary,
        contents: MutableMapping[bytes, Buffer],
    ) -> pb.GraphDef:
        graph_pb = nodes_to_graph_def(nodes, strip_defaults=True, contents=contents)
        if self._versions.producer:
            graph_pb.versions.CopyFrom(self._versions)
        library.copy_needed(graph_pb)
        return graph_pb

    def _key(self, name: str) -> str:
        return endpoint_key(self.devices.client_device, self.devices.client_incarnation, name)

    def _type_of(self, name: str) -> int:
        node, port = find_edge(self.nodes, name, "feed")
        return node.output_types[port].base_dtype.number


def _place_of(node: Node) -> str:
    return task_name(node.device)


def _make_identity(arg: Node, edge: Edge) -> None:
    """Turn the stand-in of a replaced tensor into an Identity of what takes its place."""
    dtype: Any = edge[0].output_types[edge[1]].base_dtype
    if dtype is not arg.output_types[0]:
        raise errors.InvalidArgumentError(
            f"a tensor_connection joins {edge[0].name!r} of type {dtype.name} to {arg.name!r} of "
            f"type {arg.output_types[0].name}; both must have one type"
        )
    arg.op_def = get_op_def("Identity")
    arg.attrs = {"T": dtype}
    arg.edges = [edge]
