"""Where each microsecond of a hot step goes, on tideflow, over all processes that take part.

The beginnings and ends of spans in all processes (see benchmarks.profiled) are put in the order of
one clock.  A line of the table is the time from one of them to the next, so that the lines add up
to the step.  Below it is how often threads wait in a step, and so have to be woken.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from rich.console import Console

from benchmarks import wakeups
from benchmarks.__main__ import chosen
from benchmarks.figures import Figure
from benchmarks.processes import Cluster, Process
from benchmarks.report import PAGE, machine, markdown_table, write_part
from benchmarks.wakeups import Switches, between, switches_of

_MODULE = "benchmarks.profiled"
_DEFAULT = ["remote-add", "floats", "ps-small-mlp"]
# Stamps that only some steps have are no part of the usual way.
_USUAL = 0.8
Found = dict[str, dict[str, Any]]
Waits = dict[str, list[Switches]]


def observe(figure: Figure, what: str, in_worker: bool = False) -> tuple[Found, Waits]:
    """Return what each process recorded, `what` being "record" or "functions", and its waits.

    in_worker: the worker is in the client's process.
    """
    load = figure.load
    absent = ("worker",) if in_worker else ()
    with closing(Cluster("tideflow", load.jobs, module=_MODULE, absent=absent)) as cluster:
        told = {
            "program": load.program,
            "arguments": load.arguments,
            "steps": load.steps,
            "target": cluster.target(0),
            "cluster": cluster.addresses if in_worker else None,
        }
        with closing(Process("measure", json.dumps(told), module=_MODULE)) as client:
            client.answer("warm")
            processes = {"client": client} | {
                f"{job} {task}": server for (job, task), server in cluster.servers.items()
            }
            for process in processes.values():
                process.tell(what)
                process.answer("obeyed")
            before = {name: switches_of(one.pid) for name, one in processes.items()}
            client.tell("run")
            client.answer("ran")
            waits = {
                name: between(before[name], switches_of(one.pid)) for name, one in processes.items()
            }
            found = {}
            for name, process in processes.items():
                process.tell("stop")
                found[name] = json.loads(process.answer("{"))
            return found, waits


Stamp = tuple[str, str, str, int]


def _stamps_by_step(found: Found) -> tuple[list[dict[Stamp, int]], list[int]]:
    """Return each step's stamps, in nanoseconds after its start, and how long each step took."""
    runs = sorted(
        (begin, end) for name, begin, end in found["client"]["spans"] if name == "Session.run"
    )
    starts = [begin for begin, _ in runs]
    steps: list[dict[Stamp, int]] = [{} for _ in runs]
    for process, recorded in found.items():
        seen: list[Counter[str]] = [Counter() for _ in runs]
        for name, begin, end in sorted(recorded["spans"], key=lambda span: span[1]):
            index = bisect.bisect_right(starts, begin) - 1
            if index < 0 or begin > runs[index][1]:
                continue
            seen[index][name] += 1
            for edge, moment in (("begins", begin), ("ends", end)):
                if moment <= runs[index][1]:
                    steps[index][process, name, edge, seen[index][name]] = moment - starts[index]
    return steps, [end - begin for begin, end in runs]


def timeline(found: Found) -> tuple[float, list[tuple[float, float, str, str]]]:
    """Return a step's median in us, and its parts: at, for how long (us), after what, until what.

    Times are medians over all steps.
    """
    steps, lengths = _stamps_by_step(found)
    offsets: dict[Stamp, list[int]] = defaultdict(list)
    for step in steps:
        for stamp, offset in step.items():
            offsets[stamp].append(offset)
    usual = {s: o for s, o in offsets.items() if len(o) >= _USUAL * len(steps)}
    order = sorted((statistics.median(found_ns), stamp) for stamp, found_ns in usual.items())
    parts = [
        (before / 1000, (after - before) / 1000, _words(first), _words(then))
        for (before, first), (after, then) in itertools.pairwise(order)
    ]
    return statistics.median(lengths) / 1000, parts


def _words(stamp: Stamp) -> str:
    process, name, edge, number = stamp
    return f"{process}: {name}{f' ({number})' if number > 1 else ''} {edge}"


def as_markdown(figure: Figure, found: Found, waits: Waits, title: str) -> str:
    """Return the tables of one figure."""
    total, parts = timeline(found)
    rows = [
        [f"{first} → {then}", f"{at:.0f}", f"{lasts:.1f}", f"{100 * lasts / total:.0f} %"]
        for at, lasts, first, then in parts
    ]
    steps = figure.load.steps
    return (
        f"### {title}: {total:.0f} us (median of {steps} steps, spans recorded)\n\n"
        + markdown_table(["from → to", "at, us", "lasts, us", "share"], rows)
        + "\n\n"
        + wakeups.as_markdown(waits, steps)
    )


def functions_as_markdown(figure: Figure, found: Found, count: int) -> str:
    """Return the functions of each process's event loop that take longest by themselves."""
    parts = [
        f"### {figure.title}: functions on the event loops\n\ncProfile slows every call, small"
        " functions the most: read it as an order, not as times."
    ]
    steps = figure.load.steps
    for process, recorded in found.items():
        longest = sorted(recorded["functions"], key=lambda one: -one[2])[:count]
        rows = [
            [f"`{name}`", f"{calls / steps:.1f}", f"{seconds / steps * 1e6:.1f}"]
            for name, calls, seconds in longest
        ]
        heads = [process, "calls per step", "own us per step"]
        parts.append(markdown_table(heads, rows))
    return "\n\n".join(parts)


def main(arguments: Sequence[str]) -> None:
    """Print, and on request write, the profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_step", description=__doc__)
    parser.add_argument("--figure", action="append", default=[], help="which (may be given again)")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="the N longest, too")
    parser.add_argument("--write", action="store_true", help=f"write it into {PAGE.name}")
    options = parser.parse_args(arguments)
    console = Console()
    tables = [machine(), f"- command: `python -m benchmarks.profile_step {' '.join(arguments)}`"]
    parts = ["\n".join(tables)]
    for figure in chosen(options.figure or _DEFAULT):
        if not figure.load.jobs or figure.client is not None or figure.load.clients > 1:
            continue
        # The worker may as well be in the client's process where other tasks are there, too.
        for in_worker in (False, True) if len(figure.load.jobs) > 1 else (False,):
            title = figure.title + (", client in the worker's process" if in_worker else "")
            with console.status(title):
                made = [as_markdown(figure, *observe(figure, "record", in_worker), title)]
                if options.functions:
                    found, _ = observe(figure, "functions", in_worker)
                    made.append(functions_as_markdown(figure, found, options.functions))
            print("\n\n".join(made) + "\n", flush=True)
            parts.extend(made)
    if options.write:
        write_part(PAGE, "profile", "\n\n".join(parts))


if __name__ == "__main__":
    main(sys.argv[1:])
