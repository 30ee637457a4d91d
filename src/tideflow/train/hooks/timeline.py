"""Traces of steps in the format of Chrome's trace viewer (chrome://tracing, ui.perfetto.dev).

Source: the Trace Event Format; tensorflow/python/client/timeline.py for names of rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tideflow.graph.graph import Graph

# `name = Op(input, input)`
_LABEL = re.compile(r"^(?P<name>\S+) = (?P<op>[^(]+)\((?P<inputs>.*)\)$")


class Timeline:
    """Draws a StepStats: a row for each device, a lane for each of its ops that run at once."""

    def __init__(self, step_stats: Any, graph: Graph | None = None) -> None:
        self._step_stats = step_stats

    def generate_chrome_trace_format(
        self,
        show_dataflow: bool = True,
        show_memory: bool = False,
        op_time: str = "schedule",
    ) -> str:
        """Return the trace as JSON text.

        Args:
          show_dataflow: with arrows from what makes a tensor to what takes it.
          show_memory: with a curve of the bytes that tensors take on each device.
          op_time: accepted; ops are drawn from when they start to when they end.
        """
        events: list[dict[str, Any]] = []
        drawn: dict[str, dict[str, Any]] = {}
        for pid, device in enumerate(self._step_stats.dev_stats):
            events.append(
                _event("M", "process_name", pid, args={"name": f"{device.device} Compute"})
            )
            for lane, stats in _lanes(device.node_stats):
                event = _op_event(pid, lane, stats)
                events.append(event)
                drawn.setdefault(event["args"]["name"], event)
            if show_memory:
                events.extend(_memory(pid, device.node_stats))
        if show_dataflow:
            events.extend(_arrows(drawn))
        return json.dumps({"traceEvents": events}, indent=2)


def _event(phase: str, name: str, pid: int, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "pid": pid, **more}


def _end_us(stats: Any) -> int:
    return int(stats.all_start_micros + stats.all_end_rel_micros)


def _lanes(all_stats: Iterable[Any]) -> list[tuple[int, Any]]:
    """Return each op with the first lane that is free when it starts."""
    free_at: list[int] = []
    found = []
    for stats in sorted(all_stats, key=lambda s: s.all_start_micros):
        start = stats.all_start_micros
        lane = next((i for i, end in enumerate(free_at) if end <= start), len(free_at))
        free_at[lane : lane + 1] = [_end_us(stats)]
        found.append((lane, stats))
    return found


def _op_event(pid: int, lane: int, stats: Any) -> dict[str, Any]:
    args = {"name": stats.node_name, "op": stats.node_name}
    match = _LABEL.match(stats.timeline_label)
    if match is not None:
        args["op"] = match["op"]
        inputs = [item.strip().lstrip("^") for item in match["inputs"].split(",")]
        args.update({f"input{i}": item for i, item in enumerate(inputs) if item})
    return _event(
        "X",
        args["op"],
        pid,
        cat="Op",
        tid=lane,
        ts=stats.all_start_micros,
        dur=max(1, stats.all_end_rel_micros),
        args=args,
    )


def _arrows(drawn: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    arrows: list[dict[str, Any]] = []
    for target in drawn.values():
        for key, value in target["args"].items():
            source = drawn.get(value.partition(":")[0]) if key.startswith("input") else None
            if source is None:
                continue
            flow = {"cat": "DataFlow", "id": len(arrows)}
            start = source["ts"] + source["dur"]
            arrows.append(_event("s", value, source["pid"], tid=source["tid"], ts=start, **flow))
            arrows.append(
                _event("t", value, target["pid"], tid=target["tid"], ts=target["ts"], **flow)
            )
    return arrows


def _memory(pid: int, all_stats: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the bytes of the outputs that were made so far, at the end of each op."""
    total = 0
    found = []
    for stats in sorted(all_stats, key=_end_us):
        made = sum(
            output.tensor_description.allocation_description.requested_bytes
            for output in stats.output
        )
        if made:
            total += made
            found.append(_event("C", "tensor bytes", pid, ts=_end_us(stats), args={"bytes": total}))
    return found
