"""Be one member of collectives: `python ring_member.py tensorflow|tideflow CLUSTER TASK DEVICES`.

Serves the task, then runs what each line of standard input asks for, in a session of its own: a
JSON list of [op, count, type, facts], one for each collective.  The answer is a line: for each
device and collective [shape, sum, first elements], or the class and text of the error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import numpy as np

MODULES = {"tensorflow": "tensorflow.compat.v1", "tideflow": "tideflow.v1"}
LEADER = "/job:worker/replica:0/task:0"


def make_input(rank: int, count: int, dtype: str) -> Any:
    """Return the input of a rank; whatever is added stays exact."""
    return ((np.arange(count) % 61) + rank).astype(dtype)


class Member:
    """One task of job worker, its server and its program."""

    def __init__(self, kind: str, cluster: dict[str, list[str]], task: int, devices: int) -> None:
        self.tf = importlib.import_module(MODULES[kind])
        self.kind, self.task, self.devices = kind, task, devices
        self.size = devices * len(cluster["worker"])
        config = self.tf.ConfigProto(device_count={"CPU": devices})
        config.experimental.collective_group_leader = LEADER
        self.server = self.tf.train.Server(
            self.tf.train.ClusterSpec(cluster), "worker", task, config=config
        )
        self.options = self.tf.RunOptions()
        self.options.experimental.collective_graph_key = 1
        self.options.timeout_in_ms = 8_000
        self.sessions: dict[str, Any] = {}

    def apply(self, op: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
        if self.kind == "tensorflow":
            return getattr(importlib.import_module("tensorflow").raw_ops, op)(**inputs, **attrs)
        building = importlib.import_module("tideflow.graph.building")
        return building.apply_op(op, *inputs.values(), **attrs)

    def collective(self, op: str, rank: int, value: Any, facts: dict[str, Any]) -> Any:
        keys = {
            "group_size": np.int32(self.size),
            "group_key": np.int32(1),
            "instance_key": np.int32(facts.pop("instance_key")),
        }
        source = facts.pop("source", None)
        dtype = value.dtype
        if op == "broadcast" and rank != source:
            shape = np.array(value.shape.as_list(), np.int32)
            return self.apply("CollectiveBcastRecvV2", {**keys, "shape": shape}, {"T": dtype})
        if op == "broadcast":
            return self.apply("CollectiveBcastSendV2", {"input": value, **keys}, facts)
        return self.apply(op, {"input": value, **keys, "ordering_token": []}, facts)

    def build(self, asked: list[Any]) -> list[Any]:
        made = []
        for index in range(self.devices):
            rank = self.task * self.devices + index
            with self.tf.device(f"/job:worker/task:{self.task}/device:CPU:{index}"):
                for op, count, dtype, facts in asked:
                    value = self.tf.constant(make_input(rank, count, dtype))
                    made.append(self.collective(op, rank, value, dict(facts)))
        return made

    def run(self, line: str) -> Any:
        if line not in self.sessions:
            graph = self.tf.Graph()
            with graph.as_default():
                fetches = self.build(json.loads(line))
            self.sessions[line] = self.tf.Session(self.server.target, graph), fetches
        session, fetches = self.sessions[line]
        try:
            found = session.run(fetches, options=self.options)
        except self.tf.errors.OpError as error:
            return [type(error).__name__, error.message]
        return [
            [list(one.shape), float(one.sum(dtype="float64")), one.reshape(-1)[:4].tolist()]
            for one in found
        ]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    member = Member(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(member.run(line)), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
