"""How each pass is run on a case of its manual, and how its result is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tideflow.v1  # noqa: F401  defines the ops
from compile.graph_text import parse, short_device, to_text
from compile.manuals import FOLDER, Case, cases_of, with_results
from tideflow.compile.device_types import compile_together, runs_on_accelerator
from tideflow.compile.feeds import PartialRun, through_rendezvous
from tideflow.compile.fold import fold_constants
from tideflow.compile.inline import inline_calls
from tideflow.compile.loop_frames import move_control_flow
from tideflow.compile.merge import merge_equal
from tideflow.compile.partition import partition
from tideflow.compile.place import place
from tideflow.compile.placed_graph import PlacedGraph
from tideflow.compile.plan import make_plan
from tideflow.compile.prune_loops import prune_loops
from tideflow.compile.read_after_update import read_after_updates
from tideflow.compile.receive_levels import mark_receive_levels
from tideflow.compile.region_selection import number_nodes
from tideflow.compile.rewrite import rewrite
from tideflow.compile.spread import spread_constants
from tideflow.compile.structured_flow import structure_control_flow
from tideflow.graph.node import Node
from tideflow.wire import errors
from tideflow.wire.device_name import task_name


def _task_of(node: Node) -> str:
    return task_name(node.device)


def _split(case: Case) -> dict[str, list[Node]]:
    return partition(case.nodes(), _task_of, lambda device: 7)


def _of_tasks(parts: Mapping[str, Sequence[Node]]) -> str:
    return "".join(
        f"-- {short_device(f'{task}/device:CPU:0')}\n{to_text(nodes)}"
        for task, nodes in parts.items()
    )


def _or_error(run: Callable[[], str]) -> str:
    try:
        return run()
    except errors.OpError as error:
        return f"{type(error).__name__}: {error.message}"


# ---- the passes


def _prune(case: Case) -> str:
    return _or_error(lambda: to_text(case.pruned().nodes))


def _prune_loops(case: Case) -> str:
    found = case.pruned()
    prune_loops(found, _bodies(case).get)
    return _with_functions(found.nodes)


def _feeds(case: Case) -> str:
    found = case.pruned()
    through_rendezvous(found, case.devices[0], 7)
    return to_text(found.nodes)


def _partial_run(case: Case) -> str:
    needs = PartialRun.of(case.pruned()).needs
    return "".join(f"{fetch} needs {', '.join(sorted(fed))}\n" for fetch, fed in needs.items())


def _fold(case: Case) -> str:
    return to_text(fold_constants(case.nodes()))


def _merge(case: Case) -> str:
    return to_text(merge_equal(case.nodes()))


def _rewrite(case: Case) -> str:
    return to_text(rewrite(case.nodes()))


class _Body:
    """A function's body."""

    def __init__(self, text: str) -> None:
        self._text = text

    def instantiate(self, attrs: Mapping[str, Any]) -> list[Node]:
        return list(parse(self._text).values())


def _bodies(case: Case) -> dict[str, _Body]:
    return {name: _Body(text) for name, text in case.bodies.items()}


def _inline(case: Case) -> str:
    return to_text(inline_calls(case.nodes(), _bodies(case).get))


def _read_after_update(case: Case) -> str:
    return to_text(read_after_updates(case.nodes()))


def _spread(case: Case) -> str:
    return to_text(spread_constants(case.nodes(), _task_of))


def _place(case: Case) -> str:
    nodes = case.nodes()

    def run() -> str:
        place(nodes, case.devices, "soft" in case.asked)
        return to_text(nodes)

    return _or_error(run)


def _placed_graph(case: Case) -> str:
    placed = PlacedGraph(case.devices, "soft" in case.asked)
    nodes = case.whole()

    def extend(count: int) -> str:
        so_far = parse("".join(case.parts[:count]))
        return to_text(placed.extend({name: nodes[name] for name in so_far}).values())

    return "then\n".join(extend(count + 1) for count in range(len(case.parts)))


def _move_control_flow(case: Case) -> str:
    nodes = case.nodes()
    move_control_flow(nodes)
    return to_text(nodes)


def _partition(case: Case) -> str:
    return _or_error(lambda: _of_tasks(_split(case)))


def _receive_levels(case: Case) -> str:
    parts = _split(case)
    mark_receive_levels(parts)
    return _of_tasks(parts)


def _plan(case: Case) -> str:
    plan = make_plan(case.nodes())
    after: dict[int, list[str]] = {number: [] for number in range(len(plan.groups))}
    for number, group in enumerate(plan.groups):
        for other in group.then:
            after[other].append(f"group {number}")
    for node in plan.order:
        for number in plan.waiters.get(id(node), ()):
            after[number].append(node.name)
    return "".join(
        f"group {number}{' after ' + ', '.join(after[number]) if after[number] else ''}: "
        f"{', '.join(node.name for node in group.nodes)}\n"
        for number, group in enumerate(plan.groups)
    )


def _regions(case: Case) -> str:
    nodes = case.nodes()
    numbers = number_nodes(nodes)
    return "".join(
        f"{('straight', 'region')[number % 2]} {number}: "
        f"{', '.join(node.name for node in nodes if numbers[id(node)] == number)}\n"
        for number in sorted(set(numbers.values()))
    )


def _device_types(case: Case) -> str:
    nodes = case.nodes()
    compiled = compile_together(nodes)
    return "".join(
        f"{node.name}: {'any device' if runs_on_accelerator(node) else 'CPUs alone'}"
        f"{', compiled' if id(node) in compiled else ''}\n"
        for node in nodes
    )


def _structured_flow(case: Case) -> str:
    return _with_functions(structure_control_flow(case.nodes()))


def _with_functions(nodes: Sequence[Node]) -> str:
    text = to_text(nodes)
    for node in nodes:
        for attr in ("cond", "body", "then_branch", "else_branch"):
            if attr in node.attrs and node.attrs[attr].definition is not None:
                body = _with_functions(node.attrs[attr].definition.instantiate({}))
                text += f"{attr} of {node.name}\n{body}end\n"
    # Names of functions tell only that they are different ones.
    return re.sub(r" (cond|body|then_branch|else_branch)=\S+", "", text)


# By the name of the manual.
PASSES: dict[str, Callable[[Case], str]] = {
    "prune": _prune,
    "prune_loops": _prune_loops,
    "feeds": _feeds,
    "partial_run": _partial_run,
    "fold": _fold,
    "merge": _merge,
    "rewrite": _rewrite,
    "inline": _inline,
    "read_after_update": _read_after_update,
    "spread": _spread,
    "place": _place,
    "placed_graph": _placed_graph,
    "move_control_flow": _move_control_flow,
    "partition": _partition,
    "receive_levels": _receive_levels,
    "plan": _plan,
    "region_selection": _regions,
    "device_types": _device_types,
    "structured_flow": _structured_flow,
}


def main() -> None:
    """Write the results of all manuals anew."""
    for name, run in PASSES.items():
        path = FOLDER / f"{name}.txt"
        path.write_text(with_results(path, [run(case) for case in cases_of(path)]))


if __name__ == "__main__":
    main()
