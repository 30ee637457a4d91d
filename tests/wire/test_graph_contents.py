"""Large constants of graphs beside their messages: the same bytes to protobuf, and no copy."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError

import tideflow.v1 as tf
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.graph_def import nodes_to_graph_def, read_nodes
from tideflow.wire import messages as pb
from tideflow.wire.graph_contents import kept, whole
from tideflow.wire.parted import (
    Parted,
    graph_contents,
    joined,
    parse,
    take_apart,
    with_graphs,
    with_tensors,
    work_to_read,
)
from tideflow.wire.tensor_codec import LARGE_BYTES
from tideflow.wire.work import PROTOBUF_BYTES

LARGE = np.arange(50_000, dtype=np.float32)
WORDS = np.array([b"a" * 70_000, b"b"], object)
FEW_BYTES = 4096


def graph_with_constants():
    with tf.Graph().as_default() as graph:
        large = tf.constant(LARGE, name="large")
        tf.constant(LARGE, name="same")
        tf.constant(WORDS, name="words")
        tf.constant([1.0, 2.0], name="small")
        table = tf.constant(LARGE.astype(np.int32), name="table")
        tf.data.make_one_shot_iterator(tf.data.Dataset.range(3).map(lambda i: tf.gather(table, i)))
        tf.negative(large, name="end")
    return graph


def apart(graph):
    """Return a graph's message without large contents, and these."""
    contents = {}
    functions = graph.functions.values()
    made = nodes_to_graph_def(graph.get_operations(), functions, contents=contents)
    return made, contents


REQUESTS = {
    pb.CreateSessionRequest: lambda graph_pb: {"graph_def": graph_pb, "target": "grpc://here"},
    pb.ExtendSessionRequest: lambda graph_pb: {"session_handle": "7", "graph_def": graph_pb},
    pb.RegisterGraphRequest: lambda graph_pb: {
        "session_handle": "7",
        "graph_def": graph_pb,
        "collective_graph_key": 3,
    },
}


@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda t: t.__name__)
def test_what_is_written_and_read_is_what_protobuf_writes_and_reads(request_type):
    graph = graph_with_constants()
    plain = request_type(**REQUESTS[request_type](graph.as_graph_def()))
    graph_pb, contents = apart(graph)
    made = with_graphs(request_type(**REQUESTS[request_type](graph_pb)), contents)
    assert isinstance(made, Parted)
    assert made.message.ByteSize() < FEW_BYTES
    data = made.SerializeToString()
    assert request_type.FromString(data) == plain

    for sent in (data, plain.SerializeToString()):
        found = parse(request_type, sent)
        assert take_apart(found)[0] == made.message
        of_graphs = graph_contents(found)
        assert of_graphs == contents
        received = np.frombuffer(sent, np.uint8)
        assert all(np.shares_memory(received, content) for content in of_graphs.values())
        assert whole(take_apart(found)[0], of_graphs) == plain


def test_a_constant_is_sent_from_where_it_lies():
    graph = graph_with_constants()
    graph_pb, contents = apart(graph)
    lies = graph.get_operation_by_name("large").attrs["value"]
    parts = with_graphs(pb.CreateSessionRequest(graph_def=graph_pb), contents).SerializeToParts()
    found = [np.frombuffer(part, np.uint8) for part in parts if len(part) == lies.nbytes]
    assert any(np.shares_memory(part, lies) for part in found)


def test_nodes_and_functions_have_the_values_of_their_constants():
    graph_pb, contents = apart(graph_with_constants())
    found = read_nodes(graph_pb, contents=contents, lookup=lambda name: None)
    np.testing.assert_array_equal(found["large"].attrs["value"], LARGE)
    np.testing.assert_array_equal(found["words"].attrs["value"], WORDS)
    [function_pb] = [
        one
        for one in graph_pb.library.function
        if any(node.op == "GatherV2" for node in one.node_def)
    ]
    definition = FunctionDefinition(function_pb, contents=contents)
    [table] = [
        node
        for node in definition.instantiate({})
        if node.op == "Const" and np.size(node.attrs["value"]) > 1
    ]
    np.testing.assert_array_equal(table.attrs["value"], LARGE.astype(np.int32))
    told = definition.to_proto()
    assert FunctionDefinition(told).instantiate({})
    assert told.ByteSize() > LARGE_BYTES


def test_equal_functions_are_equal_wherever_their_constants_lie():
    first_pb, first = apart(graph_with_constants())
    second_pb, second = apart(graph_with_constants())
    assert first.keys() == second.keys()
    assert [node.attr["value"] for node in first_pb.node if node.op == "Const"] == [
        node.attr["value"] for node in second_pb.node if node.op == "Const"
    ]


def test_what_is_kept_is_what_messages_refer_to_in_other_memory():
    graph_pb, contents = apart(graph_with_constants())
    [large] = [node for node in graph_pb.node if node.name == "large"]
    found = kept([large], contents)
    [(reference, content)] = found.items()
    assert content == contents[reference]
    assert not np.shares_memory(
        np.frombuffer(content, np.uint8), np.frombuffer(contents[reference], np.uint8)
    )
    assert kept(graph_pb.node, {}) == {}


def test_functions_and_tensors_in_one_message_of_an_eager_client():
    graph_pb, contents = apart(graph_with_constants())
    function_pb = graph_pb.library.function[0]
    item = pb.EagerQueueItem()
    item.register_function.function_def.CopyFrom(function_pb)
    sent = with_tensors(pb.RunGraphRequest(), [("x", LARGE)])
    tensor = pb.EagerQueueItem()
    tensor.send_tensor.tensors.add().CopyFrom(take_apart(sent)[0].send[0].tensor)
    both = joined(
        pb.EnqueueRequest(context_id=1), "queue", [Parted(tensor, take_apart(sent)[1]), item]
    )
    made = Parted(take_apart(both)[0], take_apart(both)[1], contents)
    found = parse(pb.EnqueueRequest, made.SerializeToString())
    message, by_position = take_apart(found)
    assert message == take_apart(both)[0]
    assert list(by_position) == [0]
    assert graph_contents(found)


def test_the_loop_does_not_go_through_the_nodes_of_a_graph():
    data = pb.CreateSessionRequest(graph_def=graph_with_constants().as_graph_def())
    size = data.ByteSize()
    assert work_to_read(pb.CreateSessionRequest, data.SerializeToString()) == PROTOBUF_BYTES * size


def test_graphs_of_very_many_nodes_are_left_to_protobuf():
    graph_pb = pb.GraphDef(node=[pb.NodeDef(name="n")] * (1 << 17))
    graph_pb.node.add(name="c").attr["value"].tensor.tensor_content = b"x" * LARGE_BYTES
    request = pb.CreateSessionRequest(graph_def=graph_pb)
    found = parse(pb.CreateSessionRequest, request.SerializeToString())
    assert found == request


def test_bytes_that_are_no_graph_are_refused_by_protobuf():
    data = pb.CreateSessionRequest(graph_def=graph_with_constants().as_graph_def())
    whole_bytes = data.SerializeToString()
    for end in range(1, len(whole_bytes), len(whole_bytes) // 50):
        try:
            expected = pb.CreateSessionRequest.FromString(whole_bytes[:end])
        except DecodeError:
            with pytest.raises(DecodeError):
                parse(pb.CreateSessionRequest, whole_bytes[:end])
        else:
            found = parse(pb.CreateSessionRequest, whole_bytes[:end])
            assert whole(take_apart(found)[0], graph_contents(found)) == expected
