"""Requests that hold graphs are written beside the event loop."""

from __future__ import annotations

import threading

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from tideflow.cluster.services import EagerService, MasterService, WorkerService
from tideflow.transport.encoding import serialize, written
from tideflow.transport.service import methods_of
from tideflow.wire import messages as pb


def holds_a_graph(found: Descriptor, seen: frozenset[str] = frozenset()) -> bool:
    if found.full_name in seen:
        return False
    if found in (pb.GraphDef.DESCRIPTOR, pb.FunctionDef.DESCRIPTOR):
        return True
    seen |= {found.full_name}
    inner = (field.message_type for field in found.fields)
    return any(holds_a_graph(one, seen) for one in inner if one is not None)


@pytest.mark.parametrize("service", [MasterService, WorkerService, EagerService])
def test_each_method_that_is_given_a_graph_says_so(service):
    for method in methods_of(service).values():
        request = method.request_type
        # Streams read and write what is large in a thread by its size alone.
        if issubclass(request, Message) and not method.streaming:
            assert bool(method.sends_graphs) == holds_a_graph(request.DESCRIPTOR), method.path


@pytest.mark.parametrize("sends_graphs", [False, True])
async def test_a_thread_writes_what_may_hold_a_graph(sends_graphs):
    threads = []

    def write(message, path):
        threads.append(threading.current_thread())
        return serialize(message, path)

    graph_pb = pb.GraphDef(node=[pb.NodeDef(name="a", op="NoOp")])
    assert await written(graph_pb, "/Send", write, sends_graphs) == graph_pb.SerializeToString()
    assert (threads[0] is not threading.current_thread()) == sends_graphs
