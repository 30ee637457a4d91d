"""What a program is: statements over typed names, rendered to Python.

The text of a statement is Python with marks: ⟨x1⟩ is a use of the name x1, and ⟪...⟫ a part that
the statement can do without, such as one of several fetches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_USE = re.compile(r"⟨(\w+)⟩")
_GROUP = re.compile(r"⟪([^⟪⟫]*)⟫")
_INDENT = "    "


@dataclass(frozen=True)
class Type:
    """What a name stands for.

    Attributes:
      kind: "tensor", "variable", "placeholder", "queue", ...
      dtype: the name of the element type; "" for what has none.
      shape: None for a size that is known at run time only.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Statement:
    """A statement, or a block where it has a body.

    Attributes:
      text: the marked source, without the body.
      makes: the names that it defines, with their types.
      body: the statements of the block.
      is_scope: names of the body are unknown after it, as with `def`.
      parameters: names that are known in the body alone.
    """

    text: str
    makes: tuple[tuple[str, Type], ...] = ()
    body: tuple[Statement, ...] = ()
    is_scope: bool = False
    parameters: tuple[tuple[str, Type], ...] = ()

    @property
    def uses(self) -> set[str]:
        """The names that this statement itself needs, without its body."""
        return set(_USE.findall(self.text))

    @property
    def is_block(self) -> bool:
        """Whether a body belongs to it."""
        return self.text.endswith(":")


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
      shape: "v1" for graphs and sessions, "v2" for eager operations.
      rules: the names of the rules that made it.
    """

    seed: int
    shape: str
    statements: tuple[Statement, ...]
    rules: tuple[str, ...] = ()

    def with_statements(self, statements: Iterable[Statement]) -> Program:
        """Return the program with other statements."""
        return replace(self, statements=tuple(statements))


def use(name: str) -> str:
    """Return the mark of a use."""
    return f"⟨{name}⟩"


def optional(text: str) -> str:
    """Mark a part of a statement that it can do without."""
    return f"⟪{text}⟫"


def plain(text: str) -> str:
    """Return marked text as Python."""
    text = _USE.sub(r"\1", text).replace("⟪", "").replace("⟫", "")
    return re.sub(r", ([\]}])", r"\1", text).replace(", )", ",)")


def groups(text: str) -> list[str]:
    """Return the parts, with their marks, that a statement can do without."""
    return [found.group(0) for found in _GROUP.finditer(text)]


def without_names(text: str, names: set[str]) -> str:
    """Drop the optional parts that use any of the names."""
    for group in groups(text):
        if names & set(_USE.findall(group)):
            text = text.replace(group, "", 1)
    return text


def renamed(text: str, old: str, new: str) -> str:
    """Put another name for one that is used."""
    return text.replace(use(old), use(new))


def count(statements: Iterable[Statement]) -> int:
    """Return how many statements there are, those of bodies too."""
    return sum(1 + count(one.body) for one in statements)


def render(program: Program) -> str:
    """Return the function `program(tf, at)` as Python source."""
    lines = ["def program(tf, at):", *_lines(program.statements, 1)]
    if len(lines) == 1:
        lines.append(_INDENT + "pass")
    return "\n".join(lines) + "\n"


def render_script(program: Program, command: str) -> str:
    """Return a script that runs the program by itself."""
    return (
        f'"""{command}"""\n\nimport numpy as np\n\n\n{render(program)}\n\n'
        'if __name__ == "__main__":\n'
        "    from whole_programs.at import run_script\n\n"
        f'    run_script(program, "{program.shape}")\n'
    )


def _lines(statements: Iterable[Statement], depth: int) -> Iterator[str]:
    for one in statements:
        for line in plain(one.text).split("\n"):
            yield _INDENT * depth + line
        if one.is_block:
            yield from _lines(one.body, depth + 1)
            if not one.body:
                yield _INDENT * (depth + 1) + "pass"


def is_well_formed(statements: Iterable[Statement], known: Iterable[str] = ()) -> bool:
    """Whether each name is defined before it is used."""
    return _known_after(statements, set(known)) is not None


def _known_after(statements: Iterable[Statement], known: set[str]) -> set[str] | None:
    for one in statements:
        made = {name for name, _ in one.makes}
        if not one.uses <= known:
            return None
        inside = _known_after(one.body, known | made | {name for name, _ in one.parameters})
        if inside is None:
            return None
        known = known | made if one.is_scope else inside | made
    return known
