"""What passes and executors may do with an op, as it is declared beside its kernel.

No pass knows ops by name.  A pass that treats some ops in a way of its own asks their OpDef for one
of these, so that a new op is declared in one place.  What is not declared follows from the kernel
(see tideflow.graph.op_def).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from tideflow.graph.draws import Draws
from tideflow.graph.roles import Role
from tideflow.graph.update_rule import Update
from tideflow.wire.dtypes import DType


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


class Runs(enum.Enum):
    """Which functions of its attrs an op runs, and how often."""

    FUNCTION = "f, once"
    BRANCH = "then_branch where input 0 holds, else else_branch"
    CASE = "that of branches which input 0 is the number of; the last where there is none"
    WHILE = "body on its own results while cond of them holds"
    RANGE = "body on its own results, for each number of a range that inputs 0 to 2 are"


@dataclass(frozen=True, slots=True)
class OnValue:
    """An op that does with a value what another one does with the variable of a handle.

    Attributes:
      op: its name; its inputs are those of the other one, with the value in place of the handle.
      attrs: its attrs, and from which of the other one each is taken.
      axis_from: the attr of the other one that becomes one more input, the axis; "": none does.
    """

    op: str
    attrs: Mapping[str, str]
    axis_from: str = ""


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
    runs: which functions it runs, if that is all that it does.
    update: how it changes variables; its kernel then is the pure rule from their old values to
      their new ones.
    traced: rule(trace, inputs, attrs) for compiled code, of an op that may fail there, or is on
      lists or arrays of a step; gives the outputs, or NotImplemented where the kernel serves
      (tideflow.graph.tracing).
    draws: how it draws numbers from a sequence of its own, in compiled code, too.
    gather: for an op that gives rows of a variable, the pure rule (xp, value, indices, attrs).
    static_value: rule(node, port) for a value that follows from the shapes of the inputs alone.
    partial_value: rule(node, values) for a vector of sizes of which some are known
      (tideflow.graph.static_value).
    holds_parameters: a device setter of a training puts it on the parameter servers.
    blocks: what may keep the kernel for any time, whatever its inputs: "files" (or a stream) or
      "functions" of users, which an attr token names; it never runs on the event loop.  "" for no
      such thing.
    held_shapes: for an op that makes a handle, the rule (attrs) for the shapes of one element of
      what is behind it.
    is_stated: the graph states its value where it does so for its inputs (tf.get_static_value).
    changes_elements: an element of a dataset may depend on its state, if it has one.
    on_value: what stands for it where a variable has become a constant.
    host_types: by type attr, the types with which tf.graph_util.must_run_on_cpu holds.
    only_checks: it fails or gives its input, and graphs that only infer go without it.
    checked_outputs: at how many of its first outputs tf.debugging.enable_check_numerics looks;
      None: at all.
    """

    role: Role
    compiles: Compiles
    divides: bool
    rows: Rows | None
    any_device: bool
    host_inputs: int | None
    only_reads: bool
    effects: Effects
    runs: Runs | None
    update: Update | None
    traced: Callable[..., Any] | None
    draws: Draws | None
    gather: Callable[..., Any] | None
    static_value: Callable[..., Any] | None
    partial_value: Callable[..., Any] | None
    holds_parameters: bool
    blocks: str
    held_shapes: Callable[..., Any] | None
    is_stated: bool
    changes_elements: bool
    on_value: OnValue | None
    host_types: Mapping[str, tuple[DType, ...]]
    only_checks: bool
    checked_outputs: int | None
