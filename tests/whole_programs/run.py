"""Run programs of seeds on TensorFlow and tideflow, and show where they differ.

    make programs SEEDS=20000
    make programs SEEDS=100 FIRST=5000
    PYTHONPATH=src:tests python -m whole_programs.run seeds --first 0 --seeds 200 --pairs tideflow
    PYTHONPATH=src:tests python -m whole_programs.run seeds --rule queue_runners
    PYTHONPATH=src:tests python -m whole_programs.run show 17
    PYTHONPATH=src:tests python -m whole_programs.run replay 17 --client tideflow --cluster tideflow
    PYTHONPATH=src:tests python -m whole_programs.run shrink 17
    PYTHONPATH=src:tests python -m whole_programs.run triage

Seeds that a results file holds are passed over, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from whole_programs.bench import (
    ALL_PAIRS,
    LOCAL,
    PAIRS,
    PROGRAM_TIMEOUT_S,
    Bench,
    Pair,
    differ,
    every_pair,
    some_pairs,
)
from whole_programs.generate import generate
from whole_programs.syntax import Program, render, render_script
from whole_programs.verdicts import findings, judge, least, signature, triage

_CLUSTERS = [*dict.fromkeys(pair.cluster for pair in ALL_PAIRS if pair.cluster != LOCAL), "none"]
_console = Console(highlight=False, soft_wrap=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Whole programs on TensorFlow and tideflow: run seeds, show, replay or shrink one, sort what
    differs."""


def _chosen_pairs(words: tuple[str, ...], every: bool) -> Callable[[Program], list[Pair]]:
    def pairs_of(program: Program) -> list[Pair]:
        some = every_pair(program) if every or words else some_pairs(program)
        return [pair for pair in some if all(word in str(pair) for word in words)]

    return pairs_of


_with_rule = click.option(
    "--rule", default="", help="A rule of the grammars that is drawn more often than the others."
)
_with_results = click.option(
    "--results",
    default="programs.jsonl",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where results are kept; seeds that are there are passed over.",
)
_with_limit = click.option(
    "--limit",
    "limit_s",
    default=PROGRAM_TIMEOUT_S,
    show_default=True,
    help="How many seconds a program may take.",
)


@main.command()
@_with_rule
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", default=300, show_default=True, help="How many seeds.")
@click.option("--every", is_flag=True, help="Run each seed on every pair, not on two of them.")
@click.option("--pairs", "words", multiple=True, help="A part of pairs' names (may be repeated).")
@click.option("--lanes", default=3, show_default=True, help="How many clients run at a time.")
@click.option(
    "--chunk",
    default=200,
    show_default=True,
    help="After how many seeds results are kept; eager clients join each cluster once for each.",
)
@_with_results
@_with_limit
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def seeds(
    rule: str,
    first: int,
    seeds: int,
    every: bool,
    words: tuple[str, ...],
    lanes: int,
    chunk: int,
    results: Path,
    limit_s: float,
    fresh: bool,
) -> None:
    """Run seeds on pairs of client and cluster, and print a table of what differs.

    Each seed runs without a cluster and, if its program uses one, on one of the other pairs, unless
    told otherwise.

    \b
    Examples: run seeds --first 1000 --seeds 500
              run seeds --pairs "tensorflow client on tideflow" --fresh
              run seeds --rule queue_runners --seeds 50
    Exit status: 0 if nothing differs, 1 if something does.
    """
    if fresh:
        results.unlink(missing_ok=True)
    pairs_of = _chosen_pairs(words, every)
    done = _read(results, pairs_of, rule)
    wanted = [seed for seed in range(first, first + seeds) if seed not in done]
    bench = Bench(limit_s)
    since_s = time.monotonic()
    try:
        for start in range(0, len(wanted), chunk):
            some = wanted[start : start + chunk]
            with results.open("a") as file:
                for row in run_seeds(bench, some, pairs_of, lanes, rule):
                    print(json.dumps(row), file=file)
                    done[row["seed"]] = row
            spent_s = time.monotonic() - since_s
            left_s = spent_s / (start + len(some)) * (len(wanted) - start - len(some))
            differing = sum(bool(row["differs"]) for row in done.values())
            _console.print(
                f"{start + len(some)} of {len(wanted)} seeds, {differing} differ, "
                f"{spent_s:.0f} s, about {left_s:.0f} s more"
            )
    finally:
        bench.close()
    rows = [done[seed] for seed in range(first, first + seeds) if seed in done]
    _print_table(rows)
    raise SystemExit(any(row["differs"] for row in rows))


def run_seeds(
    bench: Bench,
    some: Iterable[int],
    pairs_of: Callable[[Program], list[Pair]],
    lanes: int,
    rule: str = "",
) -> list[dict[str, Any]]:
    """Return a row for each seed: which pairs differ and how, what differences there were that say
    nothing of them, and the error that ends the program in TensorFlow, too."""
    programs = {seed: generate(seed, rule) for seed in some}
    rows = []
    for outcome in bench.run_all(programs.values(), pairs_of, lanes):
        program = programs[outcome.seed]
        failures = [
            note["failed"]["text"]
            for pair, notes in outcome.notes.items()
            for note in notes
            if pair == pair.reference and isinstance(note, dict) and "failed" in note
        ]
        rows.append(
            {
                "seed": outcome.seed,
                "rule": rule,
                "rules": program.rules,
                "pairs": [str(pair) for pair in pairs_of(program)],
                **asdict(judge(bench, program, outcome)),
                "failed": "".join(failures[:1]),
            }
        )
    return rows


def _rows(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def _read(
    results: Path, pairs_of: Callable[[Program], list[Pair]], rule: str
) -> dict[int, dict[str, Any]]:
    """Return the rows of earlier runs of the same programs on the same pairs, by seed."""
    found = {}
    for row in _rows(results):
        program = generate(row["seed"], rule)
        if (
            row["pairs"] == [str(pair) for pair in pairs_of(program)]
            and row.get("rule") == rule
            and tuple(row["rules"]) == program.rules
        ):
            found[row["seed"]] = row
    return found


_SAYING_NOTHING = {
    "failed": "end early with an error in TensorFlow, too.",
    "rewritten": "differ by what TensorFlow's optimisers make of graphs alone.",
    "once": "differed once, and not again.",
    "unstable": "say nothing, since TensorFlow differs from itself.",
}


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Programs that differ from TensorFlow alone")
    for head in ("pair", "programs", "differ", "per 1000", "seeds"):
        table.add_column(head)
    for name in map(str, PAIRS):
        run = [row for row in rows if name in row["pairs"]]
        some = [row["seed"] for row in run if name in row["differs"]]
        shown = ", ".join(map(str, some[:8])) + (" ..." if len(some) > 8 else "")
        per = 1000 * len(some) / max(1, len(run))
        table.add_row(name, str(len(run)), str(len(some)), f"{per:.1f}", shown)
    _console.print(table)
    differing = [row for row in rows if row["differs"]]
    kinds = Counter(signature(next(iter(row["differs"].values()))) for row in differing)
    for kind, number in kinds.most_common():
        _console.print(f"  {number:5} {kind}")
    used = Counter(rule for row in rows for rule in row["rules"])
    blamed = Counter(rule for row in differing for rule in row["rules"])
    for rule, number in blamed.most_common(8):
        _console.print(f"  {number:5} of {used[rule]} programs that use {rule}")
    per = 1000 * len(differing) / max(1, len(rows))
    counts = {word: sum(bool(row.get(word)) for row in rows) for word in _SAYING_NOTHING}
    _console.print(
        f"{len(differing)} of {len(rows)} programs differ on some pair: {per:.1f} per 1000. "
        + " ".join(f"{counts[word]} {told}" for word, told in _SAYING_NOTHING.items())
    )


def _pair(client: str, cluster: str) -> Pair:
    return Pair(client, LOCAL if cluster == "none" else cluster)


@main.command()
@click.argument("seed", type=int)
@_with_rule
def show(seed: int, rule: str) -> None:
    """Print the program of a seed as a script that runs by itself.

    \b
    Example: run show 17 > p.py; PYTHONPATH=src:tests python p.py tideflow
    """
    click.echo(render_script(generate(seed, rule), f"The program of seed {seed}."))


_on_pair = [
    click.option(
        "--client",
        type=click.Choice(["tensorflow", "tideflow"]),
        default="tideflow",
        show_default=True,
    ),
    click.option("--cluster", type=click.Choice(_CLUSTERS), default="none", show_default=True),
]


def _with_pair(command: Any) -> Any:
    for one in _on_pair:
        command = one(command)
    return command


@main.command()
@click.argument("seed", type=int)
@_with_pair
@_with_rule
def replay(seed: int, client: str, cluster: str, rule: str) -> None:
    """Print the program of a seed, and run it on a pair and on what the pair is compared with."""
    program, pair = generate(seed, rule), _pair(client, cluster)
    bench = Bench()
    try:
        click.echo(render(program))
        expected, found = (bench.run(program, one) for one in (pair.reference, pair))
    finally:
        bench.close()
    for i in range(max(len(expected), len(found))):
        click.echo(f"note {i}\n  expected {expected[i : i + 1]}\n  found    {found[i : i + 1]}")
    texts = list(differ(expected, found))
    click.echo("\n".join(texts) if texts else "no difference")
    raise SystemExit(bool(texts))


@main.command(name="shrink")
@click.argument("seeds", nargs=-1, required=True, type=int)
@click.option(
    "--tries", default=400, show_default=True, help="How many programs are tried at most."
)
@_with_pair
@_with_rule
def shrink_seeds(seeds: tuple[int, ...], tries: int, client: str, cluster: str, rule: str) -> None:
    """Print the least program that differs as the program of a seed does."""
    pair = _pair(client, cluster)
    bench = Bench()
    try:
        for seed in seeds:
            small = least(bench, generate(seed, rule), pair, tries)
            if small is None:
                click.echo(f"# seed {seed}: no difference on {pair}")
                continue
            texts = list(differ(bench.run(small, pair.reference), bench.run(small, pair)))
            click.echo(f"# seed {seed} on {pair}\n{render(small)}" + "\n".join(texts) + "\n")
    finally:
        bench.close()


@main.command(name="triage")
@_with_results
@_with_limit
@click.option("--tries", default=150, show_default=True, help="How many programs each may take.")
@click.option("--each", default=2, show_default=True, help="How many of one kind are shrunk.")
def triage_results(results: Path, limit_s: float, tries: int, each: int) -> None:
    """Shrink what differs in a results file, and print what it comes to.

    What has been shrunk is kept beside the results, so that more of them can be sorted later.

    \b
    Example: run triage --results programs.jsonl --each 1
    """
    kept = results.with_suffix(".triaged.jsonl")
    triaged = _rows(kept)
    known = Counter(row["signature"] for row in triaged)
    sorted_seeds = {row["seed"] for row in triaged}
    bench = Bench(limit_s)
    try:
        for row in _rows(results):
            if not row["differs"] or row["seed"] in sorted_seeds:
                continue
            program = generate(row["seed"], row["rule"])
            name, text = next(iter(row["differs"].items()))
            if known[signature(text)] == each:
                continue
            known[signature(text)] += 1
            pair = next(one for one in PAIRS if str(one) == name)
            found = triage(bench, program, pair, tries)
            if found is None:
                _console.print(f"seed {row['seed']}: no difference on {name}")
                continue
            found["signature"] = signature(text)
            triaged.append(found)
            with kept.open("a") as file:
                print(json.dumps(found), file=file)
    finally:
        bench.close()
    for one in findings(triaged):
        _console.print(f"{len(one.seeds)} of kind {one.kind}: seeds {one.seeds}\n{one.least}")
    for told, number in known.most_common():
        _console.print(f"  {number:5} shrunk of {told}")


if __name__ == "__main__":
    main()
