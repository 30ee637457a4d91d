"""Fingerprints of datasets: equal where the graphs that make them do the same.

Names of nodes and functions do not count, nor what a node does not need, such as its device, nor
the values that variables have at present.
Source: runtime behaviour of TensorFlow 2.21.  The numbers themselves are not TensorFlow's.
"""

from __future__ import annotations

import graphlib
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op, role_of
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data.to_graph import graph_of
from tideflow.ops.data.values import Dataset, as_dataset
from tideflow.wire import messages as pb

_BYTES = 8
# Labels, which change nothing that the dataset gives.
_LABELS = ("metadata",)


async def fingerprint_of(dataset: Dataset) -> int:
    """Return the fingerprint of a dataset, below 2**64.

    Raises: UnimplementedError for a dataset that cannot be written as a graph.
    """
    graph_pb = await graph_of(dataset)
    of_inputs = _Digests(graph_pb).of_nodes(graph_pb.node)
    [digest] = of_inputs(node.name for node in graph_pb.node if role_of(node.op) is roles.RESULT)
    return int.from_bytes(digest[:_BYTES], "little")


def combined(fingerprint: int, *parts: Any) -> int:
    """Return the fingerprint of a dataset together with other things that have a repr."""
    return int.from_bytes(_hash(fingerprint, *parts)[:_BYTES], "little")


def _node_of(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _is_variable(node: Any, by_name: Mapping[str, Any]) -> bool:
    """Whether a node gives the handle of a variable, whose value at present does not count."""
    if role_of(node.op) is not roles.IDENTITY:
        return False
    source = by_name.get(_node_of(node.input[0]))
    return source is not None and role_of(source.op) is roles.VARIABLE_HANDLE


def _goes_round(node: Any) -> bool:
    return role_of(node.op) is roles.NEXT_ITERATION


def _hash(*parts: Any) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


class _Digests:
    """Hashes of nodes and functions of a graph; what they call is hashed with them."""

    def __init__(self, graph_pb: pb.GraphDef) -> None:
        self._functions = {one.signature.name: one for one in graph_pb.library.function}
        self._known: dict[str, bytes] = {}

    def of_nodes(
        self, nodes: Iterable[Any], arguments: Sequence[str] = ()
    ) -> Callable[[Iterable[str]], list[bytes]]:
        """Return what gives the hashes of inputs by their text.

        arguments: the names of those that the nodes are given.
        """
        by_name = {node.name: node for node in nodes}
        known = {name: _hash("argument", place) for place, name in enumerate(arguments)}

        def of_inputs(texts: Iterable[str]) -> list[bytes]:
            return [
                _hash(known.get(_node_of(text), b"loop"), text.partition(":")[2], text[0] == "^")
                for text in texts
            ]

        # What goes round in a loop is left out, or there would be no first node.
        needs = {
            name: [
                one for one in map(_node_of, node.input)
                if one in by_name and not _goes_round(by_name[one])
            ]
            for name, node in by_name.items()
        }  # fmt: skip
        for name in graphlib.TopologicalSorter(needs).static_order():
            node = by_name[name]
            inputs = of_inputs(one for one in node.input if one[0] != "^")
            waited = [] if _is_variable(node, by_name) else node.input
            waits = sorted(of_inputs(one for one in waited if one[0] == "^"))
            known[name] = _hash(node.op, self._attrs(node), inputs, waits)
        return of_inputs

    def _attrs(self, node: Any) -> list[tuple[str, bytes]]:
        return [
            (name, self._attr(node.attr[name]))
            for name in sorted(node.attr)
            if name not in _LABELS and not name.startswith("_")
        ]

    def _attr(self, attr: Any) -> bytes:
        called = [attr.func] if attr.HasField("func") else attr.list.func
        if called:
            return _hash([self._call(one) for one in called])
        tensor = attr.tensor
        if tensor.resource_handle_val:
            # Each task has a resource of its own.
            return _hash([one.maybe_type_name for one in tensor.resource_handle_val])
        return attr.SerializeToString(deterministic=True)  # type: ignore[no-any-return]

    def _call(self, called: Any) -> bytes:
        attrs = [(name, self._attr(called.attr[name])) for name in sorted(called.attr)]
        return _hash(self._function(called.name), attrs)

    def _function(self, name: str) -> bytes:
        if name not in self._known:
            # What a function that calls itself finds.
            self._known[name] = _hash("itself")
            function = self._functions[name]
            arguments = [one.name for one in function.signature.input_arg]
            of_inputs = self.of_nodes(function.node_def, arguments)
            results = of_inputs(function.ret[one.name] for one in function.signature.output_arg)
            effects = [*function.control_ret.values()]
            effects += [one.name for one in function.node_def if _goes_round(one)]
            waits = sorted(of_inputs(f"^{one}" for one in effects))
            types = [one.type for one in function.signature.input_arg]
            self._known[name] = _hash(types, results, waits)
        return self._known[name]


@op("DatasetFingerprint(input_dataset: variant) -> fingerprint: uint64", shape=scalar_shape)
async def dataset_fingerprint(ctx: KernelContext, input_dataset: object) -> np.uint64:
    """Return the fingerprint of a dataset."""
    return np.uint64(await fingerprint_of(as_dataset(input_dataset)))
