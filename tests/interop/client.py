"""Run programs in this process with one client: `python client.py tensorflow|tideflow [CLUSTER]`.

With a cluster, as JSON, the process serves all its tasks, too, and programs run on those.  Each
line of standard input is a JSON list [program, targets]; the answer is a line of base64 that
unpickles to what the program returned, or to the text of the error that it did not expect.  Or it
is a JSON object: variables of the environment, set from then on.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from programs import PROGRAMS, Cluster
from serve import V1_MODULES


def serve_all(tf: Any, cluster: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    """Serve every task of a cluster in this process; return them as ("worker:0", server)."""
    for job, addresses in cluster.items():
        for task in range(len(addresses)):
            spec = tf.train.ClusterSpec(cluster)
            yield f"{job}:{task}", tf.train.Server(spec, job_name=job, task_index=task)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind = sys.argv[1]
    tf = importlib.import_module(V1_MODULES[kind])
    if kind == "tensorflow":
        tf.disable_v2_behavior()
    own = [] if len(sys.argv) < 3 else list(serve_all(tf, json.loads(sys.argv[2])))
    for number, line in enumerate(sys.stdin):
        question = json.loads(line)
        if isinstance(question, dict):
            os.environ.update(question)
            print("set", file=answers, flush=True)
            continue
        name, targets = question
        targets = {task: server.target for task, server in own} or targets
        program = PROGRAMS[name]
        # State outlives programs, so each run calls its own by other names.
        unique_name = f"{name}_{kind}_{number}"
        try:
            with tf.Graph().as_default():
                answer = True, program.run(tf, Cluster(tf, unique_name, targets))
        except Exception:
            answer = False, traceback.format_exc()
        print(base64.b64encode(pickle.dumps(answer)).decode(), file=answers, flush=True)


if __name__ == "__main__":
    main()
