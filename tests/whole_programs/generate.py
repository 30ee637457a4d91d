"""Make the program of a seed."""

from __future__ import annotations

from whole_programs import (
    v1_arrays,
    v1_flow,
    v1_inputs,
    v1_sessions,
    v1_state,
    v1_values,
    v2,
    v2_files,
    v2_functions,
    v2_more,
)
from whole_programs.builder import Builder, Rules
from whole_programs.syntax import Program

_GRAPH = Rules(
    [*v1_values.RULES, *v1_values.RULES, *v1_state.RULES, *v1_flow.RULES, *v1_inputs.RULES]
)
_EAGER = Rules([*v2.RULES, *v2_functions.RULES, *v2_files.RULES])
# Seeds from here on draw from more rules; those before stay the programs that they have been.
MORE_FROM = 200_000
_MORE_GRAPH = Rules([*_GRAPH, *v1_arrays.RULES, *v1_arrays.RULES])
_MORE_EAGER = Rules([*_EAGER, *v2_more.RULES, *v2_more.RULES])
# Of each ten seeds, this many are graphs and sessions; the others are eager operations.
_GRAPHS_OF_TEN = 7


def generate(seed: int, focus: str = "") -> Program:
    """Return the program of a seed, the same on every machine.

    focus is the name of a rule that is drawn more often than the others.
    """
    shape = "v1" if seed % 10 < _GRAPHS_OF_TEN else "v2"
    g = Builder(seed, shape, focus)
    if shape == "v1":
        v1_sessions.preamble(g)
        g.apply(_GRAPH if seed < MORE_FROM else _MORE_GRAPH, 3 + g.random.randrange(12))
        v1_sessions.sessions(g)
    else:
        v2.program(g, _EAGER if seed < MORE_FROM else _MORE_EAGER)
    return g.program()
