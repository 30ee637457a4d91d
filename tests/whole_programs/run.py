"""Run programs of seeds on TensorFlow and tideflow, and show where they differ.

    make programs SEEDS=20000
    make programs SEEDS=100 FIRST=5000
    PYTHONPATH=src:tests python -m whole_programs.run seeds --first 0 --seeds 200 --pairs tideflow
    PYTHONPATH=src:tests python -m whole_programs.run seeds --rule queue_runners
    PYTHONPATH=src:tests python -m whole_programs.run show 17
    PYTHONPATH=src:tests python -m whole_programs.run replay 17 --client tideflow --cluster tideflow
    PYTHONPATH=src:tests python -m whole_programs.run shrink 17

Seeds that a results file holds are passed over, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from whole_programs.bench import (
    ALL_PAIRS,
    LOCAL,
    PAIRS,
    Bench,
    Pair,
    differ,
    every_pair,
    some_pairs,
)
from whole_programs.generate import generate
from whole_programs.shrink import shrink
from whole_programs.syntax import Program, render, render_script

_CHUNK = 40
_CLUSTERS = [*dict.fromkeys(pair.cluster for pair in ALL_PAIRS if pair.cluster != LOCAL), "none"]
_console = Console(highlight=False, soft_wrap=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Whole programs on TensorFlow and tideflow: run seeds, show one, replay one, shrink one."""


def _chosen_pairs(words: tuple[str, ...], every: bool) -> Callable[[Program], list[Pair]]:
    def pairs_of(program: Program) -> list[Pair]:
        some = every_pair(program) if every or words else some_pairs(program)
        return [pair for pair in some if all(word in str(pair) for word in words)]

    return pairs_of


def _kind(text: str) -> str:
    """Return what kind of difference a text tells of: what stands after the place."""
    shown = text.split("\n")[0]
    for word in ("expected ", "!="):
        if word in shown and "Error" in shown:
            errors = [part for part in shown.replace("'", " ").split() if part.endswith("Error")]
            return "errors: " + " / ".join(dict.fromkeys(errors))
    return "values"


_with_rule = click.option(
    "--rule", default="", help="A rule of the grammars that is drawn more often than the others."
)


@main.command()
@_with_rule
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", default=300, show_default=True, help="How many seeds.")
@click.option("--every", is_flag=True, help="Run each seed on every pair, not on two of them.")
@click.option("--pairs", "words", multiple=True, help="A part of pairs' names (may be repeated).")
@click.option("--lanes", default=3, show_default=True, help="How many clients run at a time.")
@click.option(
    "--results",
    default="programs.jsonl",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where results are kept; seeds that are there are passed over.",
)
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def seeds(
    rule: str,
    first: int,
    seeds: int,
    every: bool,
    words: tuple[str, ...],
    lanes: int,
    results: Path,
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
    bench = Bench()
    since_s = time.monotonic()
    try:
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            with results.open("a") as file:
                for row in run_seeds(bench, chunk, pairs_of, lanes, rule):
                    print(json.dumps(row), file=file)
                    done[row["seed"]] = row
            spent_s = time.monotonic() - since_s
            left_s = spent_s / (start + len(chunk)) * (len(wanted) - start - len(chunk))
            differing = sum(bool(row["differs"]) for row in done.values())
            _console.print(
                f"{start + len(chunk)} of {len(wanted)} seeds, {differing} differ, "
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
    """Return a row for each seed: which pairs differ and how, how TensorFlow differs from itself,
    so that nothing can be said, and the error that ends the program in TensorFlow, too."""
    programs = {seed: generate(seed, rule) for seed in some}
    rows = []
    for outcome in bench.run_all(programs.values(), pairs_of, lanes):
        differing = outcome.differing()
        program = programs[outcome.seed]
        unstable = [
            text
            for reference in {pair.reference for pair in differing}
            for text in differ(outcome.notes[reference], bench.run(program, reference))
        ]
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
                "differs": {str(one): texts[0] for one, texts in differing.items() if not unstable},
                "unstable": "".join(unstable[:1]),
                "failed": "".join(failures[:1]),
            }
        )
    return rows


def _read(
    results: Path, pairs_of: Callable[[Program], list[Pair]], rule: str
) -> dict[int, dict[str, Any]]:
    """Return the rows of earlier runs of the same programs on the same pairs, by seed."""
    if not results.exists():
        return {}
    found = {}
    for row in map(json.loads, results.read_text().splitlines()):
        program = generate(row["seed"], rule)
        if (
            row["pairs"] == [str(pair) for pair in pairs_of(program)]
            and row.get("rule") == rule
            and tuple(row["rules"]) == program.rules
        ):
            found[row["seed"]] = row
    return found


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
    kinds = Counter(_kind(next(iter(row["differs"].values()))) for row in differing)
    for kind, number in kinds.most_common():
        _console.print(f"  {number:5} {kind}")
    used = Counter(rule for row in rows for rule in row["rules"])
    blamed = Counter(rule for row in differing for rule in row["rules"])
    for rule, number in blamed.most_common(8):
        _console.print(f"  {number:5} of {used[rule]} programs that use {rule}")
    per = 1000 * len(differing) / max(1, len(rows))
    early = sum(bool(row["failed"]) for row in rows)
    unstable = sum(bool(row["unstable"]) for row in rows)
    _console.print(
        f"{len(differing)} of {len(rows)} programs differ on some pair: {per:.1f} per 1000. "
        f"{early} end early with an error in TensorFlow, too; of {unstable} nothing can be said, "
        "since TensorFlow differs from itself."
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
            small = smallest(bench, generate(seed, rule), pair, tries)
            if small is None:
                click.echo(f"# seed {seed}: no difference on {pair}")
                continue
            texts = list(differ(bench.run(small, pair.reference), bench.run(small, pair)))
            click.echo(f"# seed {seed} on {pair}\n{render(small)}" + "\n".join(texts) + "\n")
    finally:
        bench.close()


def smallest(bench: Bench, program: Program, pair: Pair, tries: int) -> Program | None:
    """Return the least program that differs in the same way; None where this one does not."""

    def kinds(one: Program) -> set[str]:
        expected = bench.run(one, pair.reference)
        return {_kind(text) for text in list(differ(expected, bench.run(one, pair)))[:1]}

    first = kinds(program)
    if not first:
        return None
    return shrink(program, lambda one: bool(first & kinds(one)), tries)


if __name__ == "__main__":
    main()
