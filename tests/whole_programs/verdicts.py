"""What a difference comes to: whether it repeats, whose it is, and which others are like it.

Thousands of programs differ for few reasons.  A first run decides nothing: both sides run again,
and TensorFlow without its optimisers says whether these alone make it note something else.  What is
left is shrunk (shrink.py), and least programs that differ in the same way and call the same
functions are one finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from whole_programs.bench import Outcome, Pair, differ
from whole_programs.shrink import shrink
from whole_programs.syntax import Program, render

# Two notes as `differ` tells of them: a place, and what was there on each side.
_SIDES = re.compile(r"^[^:]*: (?:expected (.*), found (.*)|(.*) != (.*))$", re.DOTALL)
_ERROR = re.compile(r"\{'(error|failed)': (?:\{'error': )?'(\w+)'")
_DTYPE = re.compile(r"dtype=(?:'<U\d+'|(\w+))")
_CALL = re.compile(r"\btf(?:\.\w+)+|\.\w+(?=\()|\.\w+, ")
# What is another in each run: numbers, addresses, names, and what errors quote.
_CHANGING = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[\d/]\S*")
_TEXT_CHARACTERS = 60


class Runs(Protocol):
    """What runs a program on a pair, such as a Bench."""

    def run(self, program: Program, pair: Pair) -> list[Any]:
        """Return what a program notes."""
        ...


@dataclass
class Verdicts:
    """What the differences of a program come to, each by pair.

    Attributes:
      differs: that repeat, and are not the optimisers'.
      rewritten: where TensorFlow notes what the pair does once it rewrites no graphs.
      once: that a second run of the pair did not show, such as a step that had no time.
      unstable: where TensorFlow differs from itself, so that nothing can be said.
    """

    differs: dict[str, str] = field(default_factory=dict)
    rewritten: dict[str, str] = field(default_factory=dict)
    once: dict[str, str] = field(default_factory=dict)
    unstable: dict[str, str] = field(default_factory=dict)


def judge(bench: Runs, program: Program, outcome: Outcome) -> Verdicts:
    """Return what the differences of a program come to; runs it again where there are any."""
    verdicts = Verdicts()
    again: dict[Pair, list[Any]] = {}

    def notes_again(pair: Pair) -> list[Any]:
        if pair not in again:
            again[pair] = bench.run(program, pair)
        return again[pair]

    for pair, texts in outcome.differing().items():
        expected = outcome.notes[pair.reference]
        unstable = list(differ(expected, notes_again(pair.reference)))
        if unstable:
            verdicts.unstable[str(pair)] = unstable[0]
        elif not list(differ(expected, notes_again(pair))):
            verdicts.once[str(pair)] = texts[0]
        elif not list(differ(notes_again(pair.plain_reference), notes_again(pair))):
            verdicts.rewritten[str(pair)] = texts[0]
        else:
            verdicts.differs[str(pair)] = texts[0]
    return verdicts


def kind(text: str) -> str:
    """Return what kind of difference a text of `differ` tells of: what is on each side."""
    found = _SIDES.match(text.split("\n      ")[0])
    if not found:
        return "how many notes"
    sides = [side for side in found.groups() if side is not None]
    return " / ".join(map(_kind_of_value, sides))


def signature(text: str) -> str:
    """Return the kind of a difference, and what errors say without what each run has otherwise."""
    told = [line.strip() for line in text.split("\n")[1:3] if "Error: " in line]
    shown = (_CHANGING.sub("#", line.partition("Error: ")[2])[:_TEXT_CHARACTERS] for line in told)
    return "; ".join((kind(text), *shown))


def _kind_of_value(text: str) -> str:
    error = _ERROR.match(text)
    if error:
        return error[2] if error[1] == "error" else f"ends with {error[2]}"
    if text.startswith("array("):
        found = _DTYPE.search(text)
        empty = "empty " if text.startswith("array([]") else ""
        return f"{empty}array of {found[1] if found else 'numbers'}"
    if text.startswith(("'", '"', "b'")):
        return text[1:-1] if text.endswith(("Error'", "Exception'")) else "text"
    if text.startswith(("{", "[", "(")):
        return "structure"
    return text if text in ("None", "True", "False") else "number"


def calls(program: Program) -> tuple[str, ...]:
    """Return what a program calls, without what any program does to run and note it."""
    found = {one.strip(", ") for one in _CALL.findall(render(program))}
    return tuple(sorted(one for one in found if one not in _OF_ALL))


_OF_ALL = (".note", ".run", ".target", ".config", "tf.Session", ".use_control_flow", ".numpy")


@dataclass
class Finding:
    """Programs that differ in the same way.

    Attributes:
      seeds: of the programs.
      least: the smallest of the programs that they were shrunk to.
    """

    kind: str
    calls: tuple[str, ...]
    seeds: list[int]
    least: str


def findings(triaged: Iterable[dict[str, Any]]) -> list[Finding]:
    """Return what rows of triage come to, what was met most often first."""
    found: dict[tuple[str, tuple[str, ...]], Finding] = {}
    for row in triaged:
        key = row["kind"], tuple(row["calls"])
        one = found.setdefault(key, Finding(*key, [], row["least"]))
        one.seeds.append(row["seed"])
        one.least = min(one.least, row["least"], key=len)
    return sorted(found.values(), key=lambda one: -len(one.seeds))


def least(bench: Runs, program: Program, pair: Pair, tries: int) -> Program | None:
    """Return the least program that differs in the same way; None where this one does not."""

    def kinds(one: Program) -> set[str]:
        expected = bench.run(one, pair.reference)
        return {kind(text) for text in list(differ(expected, bench.run(one, pair)))[:1]}

    first = kinds(program)
    if not first:
        return None
    return shrink(program, lambda one: bool(first & kinds(one)), tries)


def triage(bench: Runs, program: Program, pair: Pair, tries: int) -> dict[str, Any] | None:
    """Return a row of how a program differs once it is shrunk; None where it does not."""
    small = least(bench, program, pair, tries)
    if small is None:
        return None
    texts = list(differ(bench.run(small, pair.reference), bench.run(small, pair)))
    return {
        "seed": program.seed,
        "pair": str(pair),
        "kind": kind(texts[0]) if texts else "",
        "calls": calls(small),
        "text": texts[0] if texts else "",
        "least": render(small),
    }
