"""Be a worker of TensorFlow's MultiWorkerMirroredStrategy: `mirrored_worker.py CLUSTER TASK`.

Prints the sums of three steps' all-reduces, and the variable that they were added to, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    cluster, task = json.loads(sys.argv[1]), int(sys.argv[2])
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": cluster, "task": {"type": "worker", "index": task}}
    )
    tf: Any = importlib.import_module("tensorflow")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        total = tf.Variable([1.0 + task, 2.0])

    @tf.function
    def step() -> Any:
        def add() -> Any:
            context = tf.distribute.get_replica_context()
            given = tf.constant([1.0 + task, 3.0])
            found = context.all_reduce(tf.distribute.ReduceOp.SUM, given)
            total.assign_add(found)
            return found

        return strategy.run(add)

    sums = [step().numpy().tolist() for _ in range(3)]
    print(json.dumps([sums, total.numpy().tolist()]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
