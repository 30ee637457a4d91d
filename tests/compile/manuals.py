"""The manuals of the passes: manuals/<pass>.txt, graphs as text in, graphs as text out.

A manual begins with what the pass is for.  Each case has a title, a graph (see graph_text.py) with
what is asked of it, a line `=>`, and what the pass makes of it:

    # What the title says.
    x = Placeholder() dtype=float32
    y = Exp(x)
    fetch y:0
    =>
    ...

Asked may be: `feed x:0`, `fetch y:0`, `target z`, which prune the graph first; `devices worker ps`,
the first of which is the client's; `soft`, where a device may be replaced; `then`, after which come
nodes that are added later; and `function f`, after which come the nodes of its body, up to `end`.

To write all results anew, and then to read what has changed:

    PYTHONPATH=src:tests python -m compile.passes
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compile.graph_text import long_device, parse
from tideflow.compile.prune import ClientGraph, Signature, prune
from tideflow.graph.node import Node, topological_order

FOLDER = Path(__file__).with_name("manuals")
_ARROW = "\n=>\n"


class Case:
    """One case of a manual.

    Attributes:
      title: what it shows.
      text: the graph, and what is asked of it, as written.
      expected: what the pass is to make of it.
      asked: the words after each word that asks for something.
      bodies: the bodies of functions, as text, by name.
      parts: the graph as text, in the parts in which it grows.
    """

    def __init__(self, title: str, text: str, expected: str) -> None:
        self.title = title
        self.text = text
        self.expected = expected
        self.asked: dict[str, list[str]] = {}
        self.bodies: dict[str, str] = {}
        self.parts = [""]
        body = ""
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word in ("function", "end"):
                body = rest
            elif body:
                self.bodies[body] = self.bodies.get(body, "") + line + "\n"
            elif word == "then":
                self.parts.append("")
            elif rest.startswith("="):
                self.parts[-1] += line + "\n"
            else:
                self.asked.setdefault(word, []).extend(rest.split())

    @property
    def devices(self) -> list[str]:
        """The full names of the devices that there are."""
        return [long_device(one) for one in self.asked["devices"]]

    def whole(self) -> dict[str, Node]:
        """Return all nodes of the graph by name."""
        return parse("".join(self.parts))

    def pruned(self) -> ClientGraph:
        """Return the part of the graph that is asked for."""
        asked = (tuple(self.asked.get(word, ())) for word in ("feed", "fetch", "target"))
        return prune(self.whole(), Signature(*asked))

    def nodes(self) -> list[Node]:
        """Return the nodes that the pass is given: those asked for, or all; in order."""
        if self.asked.keys() & {"feed", "fetch", "target"}:
            return self.pruned().nodes
        return topological_order(self.whole().values())


def cases_of(path: Path) -> Iterator[Case]:
    """Give the cases of a manual."""
    _, *texts = path.read_text().split("\n# ")
    for text in texts:
        title, _, rest = text.partition("\n")
        graph, _, expected = rest.partition(_ARROW)
        yield Case(title, graph, expected.strip())


def with_results(path: Path, results: list[str]) -> str:
    """Return a manual with other results."""
    head = path.read_text().split("\n# ")[0].rstrip("\n") + "\n"
    cases = [
        f"# {case.title}\n{case.text}{_ARROW}{result.strip()}\n"
        for case, result in zip(cases_of(path), results, strict=True)
    ]
    return "\n".join([head, *cases])
