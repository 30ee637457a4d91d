"""Run eager programs in this process with one client: `python eager_client.py KIND`.

Each line of standard input is a JSON list [program, cluster, pids, again]: the client joins the
cluster, unless it is the one that it is in and it is not to join again, and runs the program.  The
answer is a line of base64 that unpickles to what the program returned, or to the text of the error
that it did not expect.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import pickle
import sys
import traceback

from eager_programs import PROGRAMS, Cluster


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind = sys.argv[1]
    tf = importlib.import_module(kind)
    joined = None
    for number, line in enumerate(sys.stdin):
        name, cluster, pids, again = json.loads(line)
        try:
            if again or cluster != joined:
                tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster))
                joined = cluster
            answer = True, PROGRAMS[name].run(tf, Cluster(tf, f"{name}_{kind}_{number}", pids))
        except Exception:
            answer = False, traceback.format_exc()
        print(base64.b64encode(pickle.dumps(answer)).decode(), file=answers, flush=True)


if __name__ == "__main__":
    main()
