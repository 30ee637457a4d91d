"""Makes programs: rules draw from what is there, and write statements."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from whole_programs.effects import Effects, all_of, may_race
from whole_programs.syntax import Program, Statement, Type, use

FLOATS = ("float32", "float64")
INTS = ("int32", "int64")
NUMBERS = FLOATS + INTS
SHAPES: tuple[tuple[int, ...], ...] = ((), (2,), (3,), (2, 3), (3, 2))
# How much more often a rule is drawn that is looked at.
_FOCUS = 20
_WORDS = ("", "a", "bc", "x y", "dé")


class SkipError(Exception):
    """A rule has nothing to draw from, or would make a race."""


@dataclass(frozen=True)
class Value:
    """A name with its type and what it does; `str` marks a use of it."""

    name: str
    type: Type
    effects: Effects = field(default_factory=Effects)

    def __str__(self) -> str:
        return use(self.name)

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        return self.type.shape


@dataclass(frozen=True)
class Rule:
    """A way to go on."""

    make: Callable[[Builder], None]
    weight: float

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.make.__name__


class Rules(list[Rule]):
    """The rules of a grammar's part."""

    def add(self, weight: float = 1.0) -> Callable[[Callable[[Builder], None]], Any]:
        """Add a function to the rules."""

        def added(make: Callable[[Builder], None]) -> Callable[[Builder], None]:
            self.append(Rule(make, weight))
            return make

        return added


@dataclass
class Builder:
    """A program that is being made.

    Attributes:
      values: the names that may be used where the builder stands.
      facts: what the rules note of states, such as how many elements a queue has.
      focus: the name of a rule that is drawn more often than the others; "" for none.
    """

    seed: int
    shape: str
    focus: str = ""
    random: random.Random = field(init=False)
    values: list[Value] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Versions of Python and platforms agree on these numbers.
        self.random = random.Random(f"{self.shape} {self.seed}")
        self._blocks: list[list[Statement]] = [[]]
        self._count = 0
        self._rules: dict[str, None] = {}

    # ---- chances

    def chance(self, probability: float) -> bool:
        """Whether something with a probability happens."""
        return self.random.random() < probability

    def choice(self, options: Sequence[Any]) -> Any:
        """Return one of several."""
        return options[self.random.randrange(len(options))]

    def apply(self, rules: Rules, times: int) -> None:
        """Apply rules that are drawn by weight; those that cannot be applied are passed over."""
        weights = [rule.weight * (_FOCUS if rule.name == self.focus else 1) for rule in rules]
        for _ in range(times):
            for _ in range(5):
                rule = self.random.choices(rules, weights)[0]
                try:
                    rule.make(self)
                    self._rules[rule.name] = None
                    break
                except SkipError:
                    continue

    # ---- statements

    def name(self, prefix: str) -> str:
        """Return a name that no other has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def say(self, text: str) -> None:
        """Add a statement that makes no name."""
        self._blocks[-1].append(Statement(text))

    def make(
        self,
        prefix: str,
        text: str,
        type_: Type,
        effects: Effects | None = None,
    ) -> Value:
        """Add `name = text`."""
        value = Value(self.name(prefix), type_, effects or Effects())
        self._blocks[-1].append(Statement(f"{value.name} = {text}", ((value.name, type_),)))
        self.values.append(value)
        return value

    def make_several(self, text: str, made: Sequence[tuple[str, Type, Effects]]) -> list[Value]:
        """Add `name, name = text`; made has a prefix, a type and effects for each."""
        values = [Value(self.name(prefix), type_, effects) for prefix, type_, effects in made]
        names = ", ".join(value.name for value in values)
        makes = tuple((value.name, value.type) for value in values)
        self._blocks[-1].append(Statement(f"{names} = {text}", makes))
        self.values += values
        return values

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        """Put the statements that are added meanwhile into a block, `with tf.device(...):`."""
        self._blocks.append([])
        yield
        body = tuple(self._blocks.pop())
        if body:
            self._blocks[-1].append(Statement(text, body=body))

    @contextmanager
    def function(self, value: Value, text: str, parameters: Sequence[Value]) -> Iterator[None]:
        """Put the statements that are added meanwhile into a function."""
        outside = list(self.values)
        self._blocks.append([])
        self.values += parameters
        yield
        body = tuple(self._blocks.pop())
        known = tuple((one.name, one.type) for one in parameters)
        made = ((value.name, value.type),)
        self._blocks[-1].append(Statement(text, made, body, True, known))
        self.values = [*outside, value]

    def program(self) -> Program:
        """Return what was made."""
        return Program(self.seed, self.shape, tuple(self._blocks[0]), tuple(self._rules))

    # ---- what is drawn from

    def all(self, fits: Callable[[Value], bool]) -> list[Value]:
        """Return all values that fit."""
        return [value for value in self.values if fits(value)]

    def pick(self, fits: Callable[[Value], bool]) -> Value:
        """Return a value that fits, rather a late one.  Raises: SkipError."""
        found = self.all(fits)
        if not found:
            raise SkipError
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]

    def of_kind(self, *kinds: str) -> Value:
        """Return a value of one of the kinds.  Raises: SkipError."""
        return self.pick(lambda value: value.type.kind in kinds)

    def tensor(self, dtypes: Sequence[str] = NUMBERS, shape: Any = ...) -> Value:
        """Return what can be computed with: a tensor, placeholder or variable.

        shape is one that it must have; without it, it may have any that is known.
        """
        return self.pick(
            lambda value: (
                value.type.kind in ("tensor", "placeholder", "variable")
                and value.dtype in dtypes
                and (shape is ... or value.shape == shape)
            )
        )

    def literal(self, dtype: str, shape: Sequence[int | None]) -> str:
        """Return Python text of numbers that arithmetic keeps exact, or words."""
        if shape:
            size = shape[0] if shape[0] is not None else self.random.randrange(1, 4)
            return "[" + ", ".join(self.literal(dtype, shape[1:]) for _ in range(size)) + "]"
        if dtype in FLOATS:
            return repr(self.random.randrange(-8, 9) / 4)
        if dtype == "bool":
            return repr(self.chance(0.5))
        if dtype == "string":
            return repr(self.choice(_WORDS))
        return repr(self.random.randrange(-3, 6))


def together(*values: Value) -> Effects:
    """Return what values do in one step.  Raises: SkipError where they would race."""
    for i, one in enumerate(values):
        for other in values[:i]:
            if may_race((one.name, one.effects), (other.name, other.effects)):
                raise SkipError
    return all_of(value.effects for value in values)
