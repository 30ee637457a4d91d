"""Order, branches and loops: v1 primitives, functional ops, calls of functions and of Python.

`primitives` declares Switch, Merge and the ops of v1 loops; `functional_ops` declares If, While and
the calls; the other modules build graphs of them."""

from __future__ import annotations

from tideflow.ops.control_flow.cond_v1 import cond, cond_v2, switch_case
from tideflow.ops.control_flow.contexts import (
    CondContext,
    Context,
    LoopVariable,
    WhileContext,
    building_in,
    context_of,
    is_invariant,
    loop_of,
)
from tideflow.ops.control_flow.functional import (
    Body,
    call_op,
    define_body,
    finish,
    is_stateful,
    make_branch_op,
    share_captures,
    trace,
    tracing,
    while_op,
)
from tideflow.ops.control_flow.functional_ops import truth
from tideflow.ops.control_flow.functional_v2 import narrows
from tideflow.ops.control_flow.loops import LoopBuilder, close_variable
from tideflow.ops.control_flow.mapping import map_fn
from tideflow.ops.control_flow.ordering import (
    control_dependencies,
    group,
    group_here,
    tuple_,
    with_dependencies,
)
from tideflow.ops.control_flow.primitives import (
    control_trigger,
    merge,
    next_iteration,
    switch,
)
from tideflow.ops.control_flow.python_functions import (
    PythonFunction,
    call_in_program,
    errors_of_ops,
    python_functions_of,
    registered_functions,
)
from tideflow.ops.control_flow.while_v1 import while_loop

__all__ = [
    "Body",
    "CondContext",
    "Context",
    "LoopBuilder",
    "LoopVariable",
    "PythonFunction",
    "WhileContext",
    "building_in",
    "call_in_program",
    "call_op",
    "close_variable",
    "cond",
    "cond_v2",
    "context_of",
    "control_dependencies",
    "control_trigger",
    "define_body",
    "errors_of_ops",
    "finish",
    "group",
    "group_here",
    "is_invariant",
    "is_stateful",
    "loop_of",
    "make_branch_op",
    "map_fn",
    "merge",
    "narrows",
    "next_iteration",
    "python_functions_of",
    "registered_functions",
    "share_captures",
    "switch",
    "switch_case",
    "trace",
    "tracing",
    "truth",
    "tuple_",
    "while_loop",
    "while_op",
    "with_dependencies",
]
