"""What an op is to the passes and executors that do not simply run its kernel.

    if node.op_def.role is roles.MERGE: ...

An op has one role, declared with it: `role=roles.MERGE`.
"""

from __future__ import annotations

from dataclasses import dataclass


# No enum: executors compare roles for each node that runs, and on Python 3.11 looking up a member
# of an enum takes longer than the rest of the comparison.
@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """A role.  Each is equal to itself alone."""

    name: str
    meaning: str


COMPUTE = Role("compute", "its kernel is all there is to it")
CONST = Role("const", "gives the value of its attr")
PLACEHOLDER = Role("placeholder", "stands for a value that may be fed")
NO_OP = Role("no_op", "only orders others")
CONTROL_TRIGGER = Role("control_trigger", "only orders others, and lives even where they are dead")

# Where values enter and leave a graph.
ARGUMENT = Role("argument", "an argument of a function or a feed, by its attr index")
RESULT = Role("result", "a result of a function or a fetch, by its attr index")
SEND = Role("send", "puts its input into the rendezvous")
RECEIVE = Role("receive", "waits for a tensor in the rendezvous")

# v1 control flow: it decides what runs at all, so only the frames executor carries it out.
SWITCH = Role("switch", "hands input 0 to one of two outputs, as input 1 says")
SWITCH_N = Role("switch_n", "hands input 0 to one of many outputs, as input 1 says")
MERGE = Role("merge", "gives the one input that lives")
ENTER = Role("enter", "brings its input into a loop")
EXIT = Role("exit", "brings its input out of a loop")
NEXT_ITERATION = Role("next_iteration", "brings its input into the next iteration")
LOOP_COND = Role("loop_cond", "says whether a loop goes on")

# Their outputs are their inputs.
IDENTITY = Role(
    "identity", "gives its input, a handle too, and the value of a reference as it then is"
)
IDENTITY_N = Role("identity_n", "gives its inputs, each at its place")
FORWARD = Role(
    "forward", "gives its input, and means something to gradients or to those who rewrite graphs"
)

RESHAPE = Role("reshape", "gives its input with other sizes")

# Functions.
CALL = Role("call", "calls the function of its attr f, and nothing else")
HIGHER_ORDER = Role("higher_order", "runs functions of its attrs when it runs")

# Variables; those that update them by a rule declare that (Update).
VARIABLE = Role("variable", "gives a reference to a variable")
TEMPORARY_VARIABLE = Role(
    "temporary_variable", "gives a reference to a variable of the step, which has no name"
)
VARIABLE_HANDLE = Role("variable_handle", "gives the handle of a variable")
READ_VARIABLE = Role("read_variable", "gives the value of the variable of a handle")
VARIABLE_SHAPE = Role("variable_shape", "gives the shape of the variable of a handle")
ASSIGN = Role("assign", "stores a value in a variable as it is")

# Those that a pass over whole graphs looks for.
SAVE = Role("save", "writes a checkpoint")
RESTORE = Role("restore", "reads a checkpoint")
COLLECTIVE = Role("collective", "meets the members of a group in a step of theirs")

CONTROL_FLOW = frozenset(
    {
        SWITCH,
        SWITCH_N,
        MERGE,
        ENTER,
        EXIT,
        NEXT_ITERATION,
        LOOP_COND,
    }
)
# They have no computation of their own, so they run wherever their tensors are.
WITHOUT_COMPUTATION = CONTROL_FLOW | {
    CONST,
    PLACEHOLDER,
    NO_OP,
    CONTROL_TRIGGER,
    ARGUMENT,
    RESULT,
    SEND,
    RECEIVE,
    IDENTITY,
    CALL,
    HIGHER_ORDER,
    VARIABLE,
    VARIABLE_HANDLE,
    VARIABLE_SHAPE,
    ASSIGN,
}
