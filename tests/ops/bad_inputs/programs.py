"""Graphs whose small inputs are fed: with what they should be, and then with one of them mutated.

For ops that a call of one op cannot show, since they go by handles: variables, arrays and lists of
tensors, queues, datasets.  The graph is built here; both run it from its GraphDef, each mutated
feed in a session of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tideflow.v1 as ours
from ops.bad_inputs.mutations import changes
from ops.outcomes import as_array, plain_config
from tideflow.wire import dtypes

# How many feeds are put to one op, spread evenly over all of them.
MOST = 24

# A run of a session: what it fetches, by name.
Fetches = Sequence[str]


@dataclass
class Program:
    """A graph, what to run of it in order, and what to feed.

    op: the op that it is about.
    runs: the first that fails is the last.
    directory: what is fed the name of a directory that is there for one session alone, if any is.
    """

    op: str
    graph: bytes
    runs: Sequence[Fetches]
    feeds: dict[str, Any]
    directory: str = ""

    def end(self, tf: Any) -> list[Any]:
        """Return all that was fetched, and the name of the error's class if a run failed."""
        if not self.directory:
            return self._end(tf, self.feeds)
        with tempfile.TemporaryDirectory() as directory:
            found = self._end(tf, {**self.feeds, self.directory: directory})
        return [_without(directory.encode(), one) for one in found]

    def _end(self, tf: Any, feeds: dict[str, Any]) -> list[Any]:
        v1 = tf if tf is ours else tf.compat.v1
        found: list[Any] = []
        with v1.Graph().as_default() as graph:
            v1.import_graph_def(v1.GraphDef.FromString(self.graph), name="")
            with v1.Session(config=plain_config(tf)) as session:
                for names in self.runs:
                    fetches = [graph.as_graph_element(name) for name in names]
                    try:
                        values = session.run(fetches, feeds)
                    except v1.errors.OpError as error:
                        return [*found, type(error).__name__]
                    found += [_array(value) for value in values if value is not None]
        return found


def _array(value: Any) -> Any:
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def _without(directory: bytes, found: Any) -> Any:
    """Return what was fetched, with texts that name a directory as if it had no name."""
    if isinstance(found, str) or found.dtype != object:
        return found
    texts = np.empty(found.size, object)
    texts[:] = [text.replace(directory, b"") for text in found.reshape(-1)]
    return texts.reshape(found.shape)


class Feeds:
    """Makes placeholders of which nothing is known when the graph is built."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._most: dict[str, int] = {}
        self.directory: Any = None
        # Which version of graphs this is: TensorFlow took some ops out of later ones.
        self.producer: int | None = None

    def __call__(self, value: Any, most: int | None = None) -> Any:
        """Return a placeholder that is fed a value.

        most: numbers above it are not tried: the op would wait for what never comes.
        """
        array = as_array(value)
        made = ours.placeholder(dtypes.dtype_of(array).name, None)
        self.values[made.name] = array
        if most is not None:
            self._most[made.name] = most
        return made

    def path(self, name: Any) -> Any:
        """Return the path of a file, whose name is fed, in a directory of the session's own."""
        return self.beside(self(name))

    def beside(self, name: Any) -> Any:
        """Return the path of a file of the same directory; its name may be a tensor."""
        if self.directory is None:
            self.directory = ours.placeholder("string", [])
        return ours.strings.join([self.directory, name], separator="/")

    def mutations(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give the feeds as they should be, and with one changed."""
        yield "as it should be", self.values
        for number, (name, value) in enumerate(self.values.items()):
            for what, changed in changes(value):
                most = self._most.get(name)
                if most is None or not changed.size or changed.max() <= most:
                    yield f"{number} {what}", {**self.values, name: changed}


Build = Callable[[Feeds], Sequence[Sequence[Any]]]


def programs(op: str, build: Build) -> list[tuple[str, Program]]:
    """Return the programs that a graph makes with its feeds mutated, by the name of the mutation.

    build: makes the graph and returns what each run fetches; feeds come from what it is given.
    """
    feed = Feeds()
    graph = ours.Graph()
    with graph.as_default():
        runs = [[x.name for x in fetches] for fetches in build(feed)]
    assert any(node.type == op for node in graph.get_operations()), f"the graph has no {op}"
    given = graph.as_graph_def()
    if feed.producer is not None:
        given.versions.producer = feed.producer
    message = given.SerializeToString()
    directory = "" if feed.directory is None else feed.directory.name
    made = [
        (what, Program(op, message, runs, feeds, directory)) for what, feeds in feed.mutations()
    ]
    return made if len(made) <= MOST else [made[i * len(made) // MOST] for i in range(MOST)]
