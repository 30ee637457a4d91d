"""Small whole programs of the v1 API as tutorials write them, after `disable_v2_behavior()`.

What TensorFlow gives for each is written in `expected.txt`, which
`python tests/interop/record_tutorials.py` writes anew.  Neither library is imported here.
"""

from __future__ import annotations

from v1_tutorials import flow, graphs, models, names, running, state
from v1_tutorials.registry import TUTORIALS, Place, shown

__all__ = ["TUTORIALS", "Place", "flow", "graphs", "models", "names", "running", "shown", "state"]
