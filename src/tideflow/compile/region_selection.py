"""Choose which nodes a compiler may take over, and cut straight code into regions of them.

A region is run as one executable.  It holds pure nodes, reads of variables, and updates of them by
an elementwise rule.  Every node gets a number: even for nodes that are called one by one, odd for
those of a region.  All nodes of one number run before those of the next, so a region depends on
nothing that depends on it, and regions are as large as the edges allow.

Only ops that cannot fail on the values of their tensors are taken, or whose values can be checked,
before (`label_guard`) or by the compiled code itself, which cannot raise.  Two uses of one variable
keep their order when one of them may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tideflow.compile.forwarding import FORWARDING, forwards
from tideflow.graph import roles
from tideflow.graph.node import Node
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import handle_data_of
from tideflow.wire.dtypes import DType

VariableKey: TypeAlias = "tuple[str, ...] | tuple[int, int]"

# Nothing happens when they run, so they belong to no region and to every one.
_IDLE = frozenset({roles.CONST, roles.NO_OP, roles.CONTROL_TRIGGER, roles.ARGUMENT})

_KINDS = {
    "float": frozenset({"bfloat16", "float16", "float32", "float64"}),
    "complex": frozenset({"complex64", "complex128"}),
    "exact": frozenset(
        {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    ),
}
_TYPES = frozenset().union(*_KINDS.values())
_INDEX_TYPES = frozenset({"int32", "int64"})


def variable_key(node: Node, port: int) -> VariableKey:
    """Return what tells apart the variables that handles and references name.

    Different keys may yet name the same variable; a runtime must compare what it finds.
    """
    while forwards(node) or (changes_variables(node) and node.output_types[port].is_ref_dtype):
        node, port = node.edges[0]
    role, attrs = node.op_def.role, node.attrs
    if role is roles.VARIABLE_HANDLE and attrs["shared_name"]:
        return ("resource", attrs["container"], attrs["shared_name"])
    if role is roles.VARIABLE:
        return ("ref", attrs["container"], attrs["shared_name"] or node.name)
    return (id(node), port)


def is_variable_read(node: Node) -> bool:
    """Whether a node gives the value of a resource variable."""
    return node.op_def.role is roles.READ_VARIABLE


def reads_variable(node: Node) -> bool:
    """Whether a node gives the value of a variable of either kind."""
    return is_variable_read(node) or (node.op_def.role in FORWARDING and not forwards(node))


def is_gather(node: Node) -> bool:
    """Whether a node gives rows of a resource variable."""
    return node.op_def.gather is not None


def shape_of_variable(node: Node) -> DType | None:
    """Return the element type of the variable whose shape a node gives; None for other nodes."""
    if node.op_def.role is not roles.VARIABLE_SHAPE:
        return None
    found = handle_data_of(*node.edges[0])
    return None if found is None else found[0]


def assigns(node: Node) -> bool:
    """Whether a node stores a value as it is."""
    return node.op_def.role is roles.ASSIGN


def changes_variables(node: Node) -> bool:
    """Whether a node stores new values, by whatever rule."""
    return assigns(node) or node.op_def.update is not None


def is_update(node: Node) -> bool:
    """Whether a node stores new values, by a rule that compiles."""
    if assigns(node):
        return True
    update = node.op_def.update
    return update is not None and update.kind == "elementwise"


def is_one_pass(node: Node) -> bool:
    """Whether straight code reads or updates a variable in one pass over its values.

    Compiled code does no less, and needs its arguments where it can take them: copies of all.
    """
    update = node.op_def.update
    is_short = update is not None and update.variables == 1 and len(node.edges) == 2
    return is_short or is_variable_read(node) or is_gather(node) or assigns(node)


def gathers_rows(node: Node) -> bool:
    """Whether a node gives rows of a resource variable that are named by their first index."""
    return is_gather(node) and node.op_def.rows is Rows.GATHERED


def updates_distinct_rows(node: Node) -> bool:
    """Whether a node changes those rows of variables that Unique names."""
    update = node.op_def.update
    if update is None or update.indices < 0:
        return False
    return _is_distinct(*node.edges[update.variables + update.indices])


def variables_of(node: Node) -> int:
    """Return how many of the first inputs of a read or an update are variables."""
    update = node.op_def.update
    return 1 if update is None else update.variables


def label_guard(node: Node) -> bool:
    """Whether input 1 holds labels, each of which must lie in [0, last size of input 0)."""
    return node.op_def.compiles is Compiles.LABELS


def needs_known_inputs(node: Node) -> bool:
    """Whether a node may be part of a region only where its inputs are known while tracing."""
    compiles = node.op_def.compiles
    if compiles is Compiles.FLOATS:
        return any(t.name in _KINDS["exact"] for t in value_types(node))
    return compiles is Compiles.KNOWN_INPUTS


def divides(node: Node) -> bool:
    """Whether input 0 is divided by input 1."""
    return node.op_def.divides


def may_compile(node: Node) -> bool:
    """Whether a node may be part of a region, as far as its op and types tell."""
    types = value_types(node)
    if not has_types(types) or not knows_references(node):
        return False
    if is_variable_read(node) or is_update(node) or updates_distinct_rows(node):
        return True
    if gathers_rows(node) or shape_of_variable(node) is not None:
        return True
    if node.op_def.rows is Rows.DISTINCT:
        return types[0].name in _INDEX_TYPES
    compiles = node.op_def.compiles
    return compiles not in (Compiles.NEVER, Compiles.ON_ACCELERATORS)


def draws_numbers(node: Node) -> bool:
    """Whether a node draws random numbers in a way that may be compiled, outside of functions."""
    return node.op_def.draws is not None and has_types(value_types(node))


def may_hold_objects(node: Node) -> bool:
    """Whether a node works on lists, arrays of a step or stacks, in a way that may be compiled."""
    if node.op_def.traced is not None:
        return True
    is_pure = node.op_def.is_pure and node.op_def.compiles is Compiles.ALWAYS
    types = value_types(node)
    return (
        is_pure
        and any(t.name == "variant" for t in types)
        and not any(t.name in ("string", "resource") or t.is_ref_dtype for t in types)
    )


def value_types(node: Node) -> list[DType]:
    """Return the types of the inputs and outputs that are values."""
    takes_variables = is_variable_read(node) or is_gather(node) or changes_variables(node)
    takes_variables = takes_variables or shape_of_variable(node) is not None
    first = variables_of(node) if takes_variables else 0
    types = [source.output_types[port].base_dtype for source, port in node.edges[first:]]
    return types + [t for t in node.output_types if not t.is_ref_dtype]


def has_types(types: Iterable[DType]) -> bool:
    """Whether a compiler knows all of the element types."""
    return all(t.name in _TYPES for t in types)


def knows_references(node: Node) -> bool:
    """Whether a node's references are known variables; a handle is looked up when it runs."""
    return all(
        variable_key(source, port)[0] == "ref"
        for source, port in node.edges
        if source.output_types[port].is_ref_dtype
    )


def number_nodes(
    nodes: Sequence[Node],
    excluded: Iterable[int] = (),
    takes: Callable[[Node], bool] = may_compile,
) -> dict[int, int]:
    """Return for each node, by id, when it runs: an odd number names a region (see above).

    Args:
      nodes: straight code, in order.
      excluded: ids of nodes that no region may hold.
      takes: whether a node may be part of a region otherwise.
    """
    left_out = set(excluded)
    taken = {id(n) for n in nodes if id(n) not in left_out and takes(n)}
    _drop_needless_reads(nodes, taken)
    numbers: dict[int, int] = {}
    changed: dict[VariableKey, int] = {}
    used: dict[VariableKey, int] = {}
    for node in nodes:
        base = max((numbers.get(id(s), 0) for s in _sources(node)), default=0)
        uses = [*variable_uses(node)]
        for key, changes in uses:
            base = max(base, used.get(key, 0) if changes else changed.get(key, 0))
        if node.op_def.role in _IDLE or forwards(node):
            number = base
        else:
            number = base + ((base & 1) != (id(node) in taken))
        numbers[id(node)] = number
        for key, changes in uses:
            used[key] = max(number, used.get(key, 0))
            if changes:
                changed[key] = max(number, changed.get(key, 0))
    return numbers


def sized_by_values(nodes: Sequence[Node], excluded: Iterable[int] = ()) -> set[int]:
    """Return the ids of nodes that take or make a row for each of the indices that Unique gives.

    How many rows these are is another number in each step.  A region that held one of the nodes
    would be compiled anew for each number, unless it holds the Unique, too, and gives as many rows
    as there could be (tideflow.runtime.device_rows); so it does where these rows are updated.  What
    other ops make of such rows is taken to have a size of its own, as sums over segments of a batch
    have.

    excluded: ids of nodes that no region may hold.
    """
    outside = set(excluded)
    updated = {
        id(node.edges[node.op_def.update.variables + node.op_def.update.indices][0])
        for node in nodes
        if node.op_def.update is not None and updates_distinct_rows(node)
    } - outside
    found = {id(n) for n in nodes if n.op_def.rows is Rows.DISTINCT and id(n) not in updated}
    outside |= found
    # Nodes whose outputs have as many rows, or tell how many these are.
    sized: set[int] = set()
    for node in nodes:
        rows = node.op_def.rows
        takes = any(
            id(source) in sized or (id(source) in outside and _is_distinct(source, port))
            for source, port in node.edges
        )
        makes = rows is Rows.SEGMENTS and any(
            id(source) in outside and _is_number(source, port) for source, port in node.edges
        )
        if takes or makes:
            found.add(id(node))
            if rows is not None or node.op_def.role is roles.IDENTITY:
                sized.add(id(node))
    return found


def _is_distinct(node: Node, port: int) -> bool:
    return node.op_def.rows is Rows.DISTINCT and port == 0


def _is_number(node: Node, port: int) -> bool:
    return node.op_def.rows is Rows.DISTINCT and port == 1


def _drop_needless_reads(nodes: Sequence[Node], taken: set[int]) -> None:
    """Leave variables that no region computes with to those who read them."""
    wanted: set[int] = set()
    for node in reversed(nodes):
        if id(node) in (wanted if forwards(node) else taken):
            wanted.update(id(source) for source, _ in node.edges)
    taken.difference_update(id(n) for n in nodes if reads_variable(n) and id(n) not in wanted)


def _sources(node: Node) -> Iterable[Node]:
    for source, _ in node.edges:
        yield source
    yield from node.controls


def variable_uses(node: Node) -> Iterable[tuple[VariableKey, bool]]:
    """Return the variables that a node touches, and whether it may change them."""
    if forwards(node):
        return
    for source, port in node.edges:
        dtype = source.output_types[port]
        if dtype.is_ref_dtype or dtype.name == "resource":
            yield variable_key(source, port), not (node.op_def.is_pure or node.op_def.only_reads)
