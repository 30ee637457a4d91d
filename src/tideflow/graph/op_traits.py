"""What passes and executors may do with an op, as it is declared beside its kernel.

No pass knows ops by name.  A pass that treats some ops in a way of its own asks their OpDef for one
of these, so that a new op is declared in one place.  What is not declared follows from the kernel
(see tideflow.graph.op_def).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypedDict

from tideflow.graph.update_rule import Update


class Role(enum.Enum):
    """What an op is to those who do not simply run its kernel."""

    # Executors look this up for each node; members are equal only to themselves.
    __hash__ = object.__hash__

    COMPUTE = "its kernel is all there is to it"
    CONST = "gives the value of its attr"
    PLACEHOLDER = "stands for a value that may be fed"
    NO_OP = "only orders others"
    CONTROL_TRIGGER = "only orders others, and lives even where they are dead"
    # Where values enter and leave a graph.
    ARGUMENT = "an argument of a function or a feed, by its attr index"
    RESULT = "a result of a function or a fetch, by its attr index"
    SEND = "puts its input into the rendezvous"
    RECEIVE = "waits for a tensor in the rendezvous"
    # v1 control flow: it decides what runs at all, so only the frames executor carries it out.
    SWITCH = "hands input 0 to one of two outputs, as input 1 says"
    SWITCH_N = "hands input 0 to one of many outputs, as input 1 says"
    MERGE = "gives the one input that lives"
    ENTER = "brings its input into a loop"
    EXIT = "brings its input out of a loop"
    NEXT_ITERATION = "brings its input into the next iteration"
    LOOP_COND = "says whether a loop goes on"
    # Their outputs are their inputs.
    IDENTITY = "gives its input, a handle too, and the value of a reference as it then is"
    IDENTITY_N = "gives its inputs, each at its place"
    FORWARD = "gives its input, and means something to gradients or to those who rewrite graphs"
    # Functions.
    CALL = "calls the function of its attr f, and nothing else"
    HIGHER_ORDER = "runs functions of its attrs when it runs"
    # Variables; those that update them by a rule declare that (Update).
    VARIABLE = "gives a reference to a variable"
    TEMPORARY_VARIABLE = "gives a reference to a variable of the step, which has no name"
    VARIABLE_HANDLE = "gives the handle of a variable"
    READ_VARIABLE = "gives the value of the variable of a handle"
    VARIABLE_SHAPE = "gives the shape of the variable of a handle"
    ASSIGN = "stores a value in a variable as it is"
    # Those that a pass over whole graphs looks for.
    SAVE = "writes a checkpoint"
    RESTORE = "reads a checkpoint"
    COLLECTIVE = "meets the members of a group in a step of theirs"


CONTROL_FLOW = frozenset(
    {
        Role.SWITCH,
        Role.SWITCH_N,
        Role.MERGE,
        Role.ENTER,
        Role.EXIT,
        Role.NEXT_ITERATION,
        Role.LOOP_COND,
    }
)
# They have no computation of their own, so they run wherever their tensors are.
WITHOUT_COMPUTATION = CONTROL_FLOW | {
    Role.CONST,
    Role.PLACEHOLDER,
    Role.NO_OP,
    Role.CONTROL_TRIGGER,
    Role.ARGUMENT,
    Role.RESULT,
    Role.SEND,
    Role.RECEIVE,
    Role.IDENTITY,
    Role.CALL,
    Role.HIGHER_ORDER,
    Role.VARIABLE,
    Role.VARIABLE_HANDLE,
    Role.VARIABLE_SHAPE,
    Role.ASSIGN,
}


class Compiles(enum.Enum):
    """Where compiled code may stand for a kernel.

    Compiled code cannot raise, so on a CPU it is for values for which the kernel does not.  An
    accelerator has nothing else, and gives something for all values.
    """

    NEVER = "nowhere: it is no pure op, or tracing it needs data to be known"
    ON_ACCELERATORS = "on accelerators; what a pure op does unless it says more"
    ALWAYS = "anywhere: on numbers it never fails, whatever their values"
    FLOATS = "anywhere for floats; for integers where its inputs are known while tracing"
    KNOWN_INPUTS = "anywhere, where its inputs are known while tracing (shapes)"
    LABELS = "anywhere: input 1 holds labels in [0, last size of input 0), which are checked before"
    CONVERSION = "anywhere but from floats to integers, which differs out of range"


class Rows(enum.Enum):
    """What an op makes of rows, one for each of distinct indices of which tracing knows only how
    many there can be (tideflow.runtime.device_rows)."""

    DISTINCT = "gives the distinct indices, and where each of those given is among them"
    COUNT = "tells how many there are"
    SEGMENTS = "makes a row for each, given where each row belongs and how many there are"
    GATHERED = "gives the row of a variable for each"
    ELEMENTWISE = "makes each row of that row of its inputs alone"


class Effects(enum.Enum):
    """When a stateful op that a function called has to run."""

    ORDERED = "as the function called it, among those that use the same state"
    UNORDERED = "in any order: it waits for others elsewhere, which may be of the same function"
    UNSEEN = "nobody can tell whether, or when, it runs"


class Traits(TypedDict, total=False):
    """The keywords of `op` and `declare` for passes and executors.

    role: what the op is to them.
    compiles: where compiled code may stand for the kernel.
    divides: input 0 is divided by input 1.
    rows: what it makes of rows.
    any_device: a node may be on an accelerator though no compiler has it: its work is small, or it
      only keeps tensors or hands them on.
    host_inputs: how many of its first inputs its kernel looks at; it keeps the others or hands them
      on, wherever they are.  None: it looks at all.
    only_reads: it takes variables without changing them.
    effects: what a trace has to see to, if the op is stateful.
    update: how it changes variables; its kernel then is the pure rule from their old values to
      their new ones.
    gather: for an op that gives rows of a variable, the pure rule (xp, value, indices, attrs).
    static_value: rule(node, port) for a value that follows from the shapes of the inputs alone.
    partial_value: rule(node, values) for a vector of sizes of which some are known
      (tideflow.graph.static_value).
    blocks: what may keep the kernel for any time, whatever its inputs: "files" (or a stream) or
      "functions" of users; it never runs on the event loop.  "" for no such thing.
    """

    role: Role
    compiles: Compiles
    divides: bool
    rows: Rows | None
    any_device: bool
    host_inputs: int | None
    only_reads: bool
    effects: Effects
    update: Update | None
    gather: Callable[..., Any] | None
    static_value: Callable[..., Any] | None
    partial_value: Callable[..., Any] | None
    blocks: str
