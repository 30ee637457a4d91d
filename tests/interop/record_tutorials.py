"""Write what TensorFlow gives for each tutorial to `v1_tutorials/expected.txt`."""

from __future__ import annotations

import pprint

from scenarios import Process
from test_v1_tutorials import EXPECTED, play
from v1_tutorials import TUTORIALS


def main() -> None:
    process = Process("play_tutorials.py", "tensorflow")
    try:
        found = {name: play(process, name) for name in TUTORIALS}
    finally:
        process.close()
    EXPECTED.write_text(pprint.pformat(found, width=100, sort_dicts=False) + "\n")


if __name__ == "__main__":
    main()
