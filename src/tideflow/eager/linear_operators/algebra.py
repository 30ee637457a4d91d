"""Which operator results of others: the rules that `rules` states, and how one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]


class Rules:
    """What results of operators by their classes; the first rule that fits holds."""

    def __init__(self) -> None:
        self._rules: list[tuple[tuple[type, ...], Callable[..., Any]]] = []

    def state(self, kinds: tuple[type, ...], rule: Callable[..., Any]) -> None:
        """Add a rule for operators of classes, after those that there are."""
        self._rules.append((kinds, rule))

    def result(self, *operators: Any) -> Any:
        """Return what results of operators."""
        for kinds, rule in self._rules:
            if all(isinstance(one, kind) for one, kind in zip(operators, kinds)):
                return rule(*operators)
        raise NotImplementedError(f"no rule for {[type(one).__name__ for one in operators]}")


products = Rules()
quotients = Rules()
sums = Rules()
adjoints = Rules()
inverses = Rules()
choleskies = Rules()
