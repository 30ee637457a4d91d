"""Serve tasks of clusters in this process: `python serve.py tensorflow|tideflow`.

Each line of standard input is a JSON list [cluster, job, task], and the answer the target, as a
line; or variables of the environment as a JSON object, set from then on.  The process ends with its
standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from stacks import tell_when_ended

V1_MODULES = {"tensorflow": "tensorflow.compat.v1", "tideflow": "tideflow.v1"}


def main() -> None:
    tell_when_ended()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tf = importlib.import_module(V1_MODULES[sys.argv[1]])
    servers = []
    for line in sys.stdin:
        question = json.loads(line)
        if isinstance(question, dict):
            os.environ.update(question)
            print("set", file=answers, flush=True)
            continue
        cluster, job, task = question
        server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=task)
        servers.append(server)
        print(server.target, file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
