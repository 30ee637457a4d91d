"""The name of the gradients() call that is being built.

Gradients of TensorArrays meet in one array for each call; the name tells the calls apart.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator

from tideflow.graph.graph import Graph

_current: weakref.WeakKeyDictionary[Graph, str] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def gradient_scope(graph: Graph, name: str) -> Iterator[str]:
    """Build gradients under a name; inside another such scope of the graph, under that one's."""
    outer = _current.get(graph)
    if outer is not None:
        yield outer
        return
    _current[graph] = name
    try:
        yield name
    finally:
        del _current[graph]


def gradient_source(graph: Graph) -> str:
    """Return the name of the gradients() call in progress; "gradients" outside of any."""
    return _current.get(graph, "gradients")
