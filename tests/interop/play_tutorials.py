"""Run tutorials with one client: `python play_tutorials.py tensorflow|tideflow`.

Each line of standard input is a JSON list [name, target]; the answer is a line: the Python literal
of what the tutorial shows, or of the text of the error that it did not expect.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

from serve import V1_MODULES
from v1_tutorials import TUTORIALS, Place, shown


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tf = importlib.import_module(V1_MODULES[sys.argv[1]])
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    for line in sys.stdin:
        name, target = json.loads(line)
        try:
            with tf.Graph().as_default():
                answer = True, shown(TUTORIALS[name](tf, Place(tf, target)))
        except Exception:
            answer = False, traceback.format_exc()
        print(repr(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
