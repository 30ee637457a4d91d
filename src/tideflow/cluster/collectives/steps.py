"""The ids of steps with collectives, which must be the same at the masters of all members.

Source: graph_execution_state.cc (collective_graph_key) and master_session.cc of TensorFlow 2.21;
runtime facts on GetStepSequence.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideflow.cluster.step_sequences import StepSequences
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.graph import roles
from tideflow.graph.op_def import role_of
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.ids import signed64

_NO_INSTANCES = 0x8774AA605C729C72
_MASK = (1 << 64) - 1


def collective_key(parts: Iterable[pb.GraphDef]) -> int:
    """Return the key of a graph: 0 without collectives, else made from their instance keys.

    Members whose graphs have the same collectives get the same key.
    """
    instances: set[int] = set()
    found = False
    for graph_pb in parts:
        bodies = [graph_pb.node, *(function.node_def for function in graph_pb.library.function)]
        for nodes in bodies:
            for node_pb in nodes:
                if role_of(node_pb.op) is not roles.COLLECTIVE:
                    continue
                found = True
                if "instance_key" in node_pb.attr:
                    instances.add(node_pb.attr["instance_key"].i)
    if not found:
        return 0
    key = _NO_INSTANCES
    for instance in sorted(instances):
        instance &= _MASK
        mixed = key + 0x9E3779B97F4A7800 + (instance << 10 & _MASK) + (instance >> 4)
        key = instance ^ mixed & _MASK
    return signed64(key)


class CollectiveSteps:
    """Chooses the step ids of one task's masters.

    Args:
      sequences: what is known of them; the leader's are asked for at other tasks.
      leader: the task that leads, for a group of all workers.
    """

    def __init__(self, sequences: StepSequences, leader: str) -> None:
        self._sequences = sequences
        self._leader = leader

    async def next_id(self, workers: WorkerCache, graph_key: int) -> int:
        """Return the id of the next step of graphs with a key.

        Raises: UnavailableError when the leader cannot be reached; InternalError for an answer
        without the key.
        """
        if workers.is_local(self._leader) or not self._leader:
            return self._sequences.lead(graph_key)
        known = self._sequences.next_id(graph_key)
        if known is not None:
            return known
        request = pb.GetStepSequenceRequest(graph_key=[graph_key])
        response = await workers.get(self._leader).GetStepSequence(request)
        for sequence in response.step_sequence:
            if sequence.graph_key == graph_key:
                self._sequences.follow(graph_key, sequence.next_step_id)
                return sequence.next_step_id
        raise errors.InternalError(
            f"{self._leader} did not say which step of graph {graph_key} is next"
        )

    def retire(self, graph_key: int, step_id: int, is_good: bool) -> None:
        """Note that a step has ended."""
        self._sequences.retire(graph_key, step_id, is_good)
