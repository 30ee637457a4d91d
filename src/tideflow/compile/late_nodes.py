"""Let nodes wait together with those who use them.

A node that depends on nothing that waits could run at once.  Where all who use it run later, and
together, it is better one of them: compiled code then holds both.  A value that is read early is
held by the step until it is used, so that an update of its variable, which could have taken place
in the variable's memory, must copy it first.

Rule 1: nodes that only read variables go to their users.
Rule 2: what makes an empty list or stack does, too: compiled code holds such an object only where
        it makes it.
Rule 3: what computes without effects does so unless its users wait for another device, which may
        take long; what is computed meanwhile is ready when the answer comes.
Rule 4: no node goes where its variables are changed by somebody who runs at another time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tideflow.compile.region_selection import VariableKey, reads_variable, variable_uses
from tideflow.graph import roles
from tideflow.graph.node import Node

# The types of lists, stacks and arrays of a step.
_OBJECTS = frozenset({"resource", "variant"})
# They do nothing when they run.
_IDLE = frozenset({roles.CONST, roles.ARGUMENT})


def move_to_users(order: Sequence[Node], masks: dict[int, int], received: int) -> None:
    """Give nodes that wait for nothing the masks of their users, where these have one.

    Args:
      order: all nodes, each after those that it needs.
      masks: by id, the bits of the waiting nodes that each node waits for; changed in place.
      received: the bits of those that wait for another device.
    """
    changes = _changes(order, masks)
    users: dict[int, set[int]] = {}
    for node in reversed(order):
        wanted = users.get(id(node), ())
        if len(wanted) == 1:
            (target,) = wanted
            waits = target and not masks[id(node)]
            if waits and _may_move(node, is_near=not target & received):
                uses = [key for key, _ in variable_uses(node)]
                if all(changes.get(key, set()) <= {target} for key in uses):
                    masks[id(node)] = target
        for source in _sources(node):
            users.setdefault(id(source), set()).add(masks[id(node)])


def _changes(order: Sequence[Node], masks: dict[int, int]) -> dict[VariableKey, set[int]]:
    """Return for what those wait who may change a variable."""
    found: dict[VariableKey, set[int]] = {}
    for node in order:
        for key, changes in variable_uses(node):
            if changes:
                found.setdefault(key, set()).add(masks[id(node)])
    return found


def _may_move(node: Node, *, is_near: bool) -> bool:
    """Whether a node may run later than it could.

    is_near: whether what it would wait for is on this device.
    """
    if reads_variable(node) or _makes_object(node):
        return True
    computes = node.op_def.is_pure or node.op_def.draws is not None
    return is_near and computes and node.op_def.role not in _IDLE


def _makes_object(node: Node) -> bool:
    return (
        node.op_def.traced is not None
        and any(one.name in _OBJECTS for one in node.output_types)
        and all(one.op_def.role is roles.CONST for one in _sources(node))
    )


def _sources(node: Node) -> Iterable[Node]:
    for source, _ in node.edges:
        yield source
    yield from node.controls
