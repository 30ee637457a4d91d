"""Run programs in this process with one client: `python executor.py v1|v2 tensorflow|tideflow`.

Each line of standard input is a JSON list [name, source, targets, cluster]; the answer is a line of
base64 that unpickles to what the program noted.  A line of `null` is answered when the library is
there.  An eager client joins the cluster first, unless it
is the one that it is in.  With a third argument TensorFlow rewrites no graphs.
"""

from __future__ import annotations

import base64
import gc
import importlib
import json
import linecache
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from stacks import tell_when_ended

from whole_programs.at import MODULES, At, failure, prepare, run


def load(source: str, name: str) -> Callable[[Any, At], None]:
    """Return the function `program` of a source, whose lines AutoGraph can read."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np, "__name__": name}
    exec(compile(source, file, "exec"), space)
    made: Callable[[Any, At], None] = space["program"]
    return made


def main() -> None:
    tell_when_ended()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    shape, library, *more = sys.argv[1:]
    optimises = not more
    tf = importlib.import_module(MODULES[shape, library])
    prepare(tf, shape, optimises)
    # A library is hundreds of thousands of objects, which the collector need not look at again.
    gc.collect()
    gc.freeze()
    joined = None
    with tempfile.TemporaryDirectory() as scratch:
        for number, line in enumerate(sys.stdin):
            question = json.loads(line)
            if question is None:
                print("ready", file=answers, flush=True)
                continue
            name, source, targets, cluster = question
            # Names of containers have letters, digits and dots.
            unique = f"{name}.{library}.{number}"
            directory = os.path.join(scratch, unique)
            os.mkdir(directory)
            try:
                if cluster is not None and cluster != joined:
                    # TensorFlow's client has functions removed from the servers that it is with by
                    # then, which fail, later, for those that only earlier ones were given.
                    gc.collect()
                    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster))
                    joined = cluster
                at = At(tf, unique, directory, targets, optimises)
                found = run(tf, shape, load(source, unique), at)
            except Exception as error:
                found = [{"failed": failure(error)}]
            linecache.cache.pop(f"<{unique}>", None)
            print(base64.b64encode(pickle.dumps(found)).decode(), file=answers, flush=True)
            if number % 20 == 19:
                gc.collect()


if __name__ == "__main__":
    main()
