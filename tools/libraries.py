"""Run the tests of libraries that use TensorFlow on tideflow and on TensorFlow, and compare.

Nothing is fetched: each library is a checkout of its repository, with its tests.  Each test file
runs in a process of its own, on tideflow under TensorFlow's name (docs/as_tensorflow.md) and on the
installed TensorFlow.  What was found is kept in a file of results, so that a run that was cut off
goes on where it was; from that file the figures are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import fnmatch
import json
import os
import re
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parents[1]
_EXAMPLES = """\
examples:
  git clone --branch v3.15.1 https://github.com/keras-team/keras /tmp/keras
  python -m tools.libraries keras=/tmp/keras --results /tmp/keras.json
      runs all; call it again to go on after an interruption
  python -m tools.libraries keras=/tmp/keras --results /tmp/keras.json --only 'keras/src/ops/*'
      runs one folder
  python -m tools.libraries keras=/tmp/keras --results /tmp/keras.json --tensorflow failing
      asks TensorFlow only about tests that do not pass on tideflow: half the time
  python -m tools.libraries keras=/tmp/keras --results /tmp/keras.json --again
      after a change of tideflow: runs what differs once more
  make libraries KERAS=/tmp/keras RESULTS=/tmp/keras.json
      the first one, in the environment of the tests
"""

TIDEFLOW, TENSORFLOW = "tideflow", "tensorflow"
_COMMANDS = {
    TIDEFLOW: ["-m", "tideflow.as_tensorflow", "-m", "pytest"],
    TENSORFLOW: ["-m", "pytest"],
}
# What pytest ends with where it ran the tests that it was given: all well, some failed, none there.
_RAN = {0, 1, 5}


@dataclass(frozen=True)
class Suite:
    """Where a library has its tests.

    Attributes:
      files: patterns of the test files, below the checkout.
      without: patterns of those that have nothing to do with TensorFlow.
      env: what the tests find in their environment.
    """

    files: tuple[str, ...] = ("**/*_test.py", "**/test_*.py")
    without: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    def in_checkout(self, checkout: Path, only: Iterable[str]) -> list[str]:
        """Return the test files to run, as paths below the checkout."""
        found = {
            path.relative_to(checkout).as_posix()
            for pattern in self.files
            for path in checkout.glob(pattern)
        }
        wanted = list(only) or ["*"]
        return sorted(
            path for path in found if not _matches(path, self.without) and _matches(path, wanted)
        )


_SUITES = {
    "keras": Suite(
        ("keras/**/*_test.py",),
        tuple(f"keras/src/backend/{other}/*" for other in ("jax", "numpy", "openvino", "torch")),
        {"KERAS_BACKEND": "tensorflow"},
    ),
    "sonnet": Suite(("sonnet/**/*_test.py",), ("sonnet/src/conformance/*",)),
}


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


# ---- what was found


class Outcome(NamedTuple):
    """How a test ended.

    Attributes:
      how: "passed", "failed", "skipped", or "running" where the process ended before it.
      error: the first line of its error.
      where: the file and line that raised it.
    """

    how: str
    error: str = ""
    where: str = ""


@dataclass
class Ran:
    """What one engine made of a test file.

    Attributes:
      ended: how the process ended; "done" where it ran all tests.
      tests: the outcomes, by the ids of the tests.
      whole: whether it was given the whole file, and not some of its tests.
    """

    ended: str = "done"
    tests: dict[str, Outcome] = field(default_factory=dict)
    whole: bool = True

    def passed(self) -> set[str]:
        """Return the tests that passed."""
        return {test for test, outcome in self.tests.items() if outcome.how == "passed"}

    def unsuccessful(self) -> set[str]:
        """Return the tests that neither passed nor were skipped."""
        return {test for test, one in self.tests.items() if one.how in ("failed", "running")}

    def complete(self) -> bool:
        """Whether each test of the file has an outcome: it was imported, and ran to its end."""
        return self.ended == "done" and all("::" in test for test in self.unsuccessful())

    def of_file(self, path: str) -> Ran:
        """Return the part of this that is about one test file."""
        tests = {test: one for test, one in self.tests.items() if test.partition("::")[0] == path}
        return Ran(self.ended, tests)

    def updated(self, newer: Ran) -> Ran:
        """Return this with what some of the tests gave later."""
        return Ran(self.ended, {**self.tests, **newer.tests}, self.whole)


class Results:
    """The results of one library, by test file and engine, kept in a JSON file."""

    def __init__(self, file: Path, library: str) -> None:
        self._file = file
        self._library = library
        self.ran: dict[str, dict[str, Ran]] = defaultdict(dict)
        for path, engines in self._read().get(library, {}).items():
            for engine, known in engines.items():
                tests = {test: Outcome(*outcome) for test, outcome in known["tests"].items()}
                self.ran[path][engine] = Ran(known["ended"], tests, known["whole"])

    def put(self, path: str, engine: str, ran: Ran) -> None:
        """Keep what an engine made of a test file."""
        self.ran[path][engine] = ran
        everything = self._read()
        everything[self._library] = {
            path: {engine: dataclasses.asdict(one) for engine, one in engines.items()}
            for path, engines in sorted(self.ran.items())
        }
        partial = self._file.with_name(f"{self._file.name}.partial")
        partial.write_text(json.dumps(everything, indent=1))
        partial.replace(self._file)

    def _read(self) -> dict[str, Any]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}


# ---- running


@dataclass(frozen=True)
class Limits:
    """How long a test and a process may take, in seconds."""

    test_s: float
    process_s: float


@dataclass(frozen=True)
class Runner:
    """Runs test files of one library.

    Attributes:
      checkout: the library's.
      suite: where its tests are.
      limits: how long they may take.
    """

    checkout: Path
    suite: Suite
    limits: Limits

    async def run(self, engine: str, chosen: Iterable[str]) -> Ran:
        """Run test files, or some tests of them, in a process of their own."""
        with tempfile.TemporaryDirectory(prefix="libraries-") as folder:
            outcomes, log, names = (Path(folder, name) for name in ("outcomes", "log", "names"))
            names.write_text("".join(f"{name}\n" for name in chosen))
            command = [
                sys.executable, *_COMMANDS[engine], "-q", "--rootdir", str(self.checkout),
                "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors",
                "-p", "pytest_outcomes", "--outcomes", str(outcomes),
                "-o", "timeout_method=signal", "--timeout", str(self.limits.test_s), f"@{names}",
            ]  # fmt: skip
            with log.open("w") as out:
                process = await asyncio.create_subprocess_exec(
                    *command, cwd=self.checkout, env=self._env(engine, folder),
                    stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out,
                    start_new_session=True,
                )  # fmt: skip
                ended = await self._wait(process)
            lines = log.read_text(errors="replace").strip().splitlines()
            if ended.startswith("exit code") and lines:
                ended = f"{ended}: {lines[-1]}"
            return Ran(ended, _outcomes(outcomes))

    async def _wait(self, process: asyncio.subprocess.Process) -> str:
        try:
            code = await asyncio.wait_for(process.wait(), self.limits.process_s)
        except TimeoutError:
            return f"out of time after {self.limits.process_s:g} s"
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return "done" if code in _RAN else f"exit code {code}"

    def _env(self, engine: str, folder: str) -> dict[str, str]:
        paths = [str(_ROOT / "tools" / "plugins"), os.environ.get("PYTHONPATH", "")]
        if engine == TIDEFLOW:
            paths.insert(0, str(_ROOT / "src"))
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
            # Settings of who runs this are not those of the tests.
            "KERAS_HOME": folder,
            **self.suite.env,
        }


def _outcomes(file: Path) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        test, how, error, where = json.loads(line)
        # Parts of a test report under its id: one that failed counts.
        if how == "running" or test not in found or found[test].how != "failed":
            found[test] = Outcome(how, error, where)
    return found


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
      tensorflow: on which tests to run TensorFlow: "all", those "failing" on tideflow, "none".
      again: whether to run what differs on tideflow once more.
    """

    tensorflow: str
    again: bool

    def due(self, engine: str, known: dict[str, Ran]) -> set[str] | None:
        """Return which tests of a file to run; none for the whole file, None for nothing."""
        if engine == TIDEFLOW:
            return self._due_here(known)
        mine, theirs = known[TIDEFLOW], known.get(TENSORFLOW)
        if self.tensorflow == "all" or (self.tensorflow == "failing" and not mine.complete()):
            return None if theirs is not None and theirs.whole else set()
        asked = set() if theirs is None else theirs.tests.keys()
        unknown = mine.unsuccessful() - asked if self.tensorflow == "failing" else set()
        return unknown or None

    def _due_here(self, known: dict[str, Ran]) -> set[str] | None:
        if TIDEFLOW not in known or (self.again and not known[TIDEFLOW].complete()):
            return set()
        return (_differing(known) or None) if self.again else None


async def _compare(
    batch: Sequence[str], runner: Runner, results: Results, plan: Plan
) -> AsyncIterator[str]:
    """Run what is due of the test files of a process, and give what to say of each run."""
    for engine in (TIDEFLOW, TENSORFLOW):
        due = {
            path: tests
            for path in batch
            if (tests := plan.due(engine, results.ran[path])) is not None
        }
        if not due:
            continue
        chosen = [name for path, tests in due.items() for name in sorted(tests) or [path]]
        ran = await runner.run(engine, chosen)
        for path, tests in due.items():
            part = ran.of_file(path)
            before = results.ran[path].get(engine, Ran(whole=False))
            results.put(path, engine, before.updated(part) if tests else part)
        yield (
            f"{batch[0]}{f' and {len(batch) - 1} more' * (len(batch) > 1)} on {engine}: "
            f"{len(ran.passed())} passed, {len(ran.unsuccessful())} did not"
            + ("" if ran.ended == "done" else f"; {ran.ended}")
        )


async def _run_all(
    library: str, runner: Runner, results: Results, batches: list[list[str]], plan: Plan, jobs: int
) -> None:
    free = asyncio.Semaphore(jobs)
    done = 0

    async def one(batch: Sequence[str]) -> None:
        nonlocal done
        async with free:
            async for line in _compare(batch, runner, results, plan):
                print(f"{library} {done}/{len(batches)} {line}", file=sys.stderr, flush=True)
        done += 1

    await asyncio.gather(*map(one, batches))


def _batches(paths: list[str], together: bool) -> list[list[str]]:
    """Return which test files share a process: those of a folder, or none."""
    if not together:
        return [[path] for path in paths]
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folders[_folder(path)].append(path)
    return list(folders.values())


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


# ---- what to say of it


def _wanted(engines: dict[str, Ran]) -> set[str]:
    """Return the tests that pass on TensorFlow; where it was not asked, those that pass here."""
    theirs, mine = engines.get(TENSORFLOW, Ran()), engines.get(TIDEFLOW, Ran())
    return theirs.passed() | (mine.passed() - theirs.tests.keys())


def _differing(engines: dict[str, Ran]) -> set[str]:
    """Return the tests that pass on TensorFlow and do not here; unknown ones that do not here."""
    theirs, mine = engines.get(TENSORFLOW, Ran()), engines.get(TIDEFLOW, Ran())
    return (_wanted(engines) - mine.passed()) | (mine.unsuccessful() - theirs.tests.keys())


def table(ran: dict[str, dict[str, Ran]]) -> list[str]:
    """Return, by folder, how many tests pass on TensorFlow, and how many of these on tideflow."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for path, engines in sorted(ran.items()):
        wanted = _wanted(engines)
        passed = len(wanted & engines.get(TIDEFLOW, Ran()).passed())
        for folder in (_folder(path), "all"):
            count = counts[folder]
            count[:] = count[0] + 1, count[1] + len(wanted), count[2] + passed
    counts["all"] = counts.pop("all", [0, 0, 0])
    width = max(map(len, ["folder", *counts]))
    lines = [f"{'folder':{width}} {'files':>6} {'TensorFlow':>11} {'tideflow':>9} {'per cent':>9}"]
    for folder, (files, wanted_count, passed) in counts.items():
        share = f"{100 * passed / wanted_count:.2f}" if wanted_count else "-"
        lines.append(f"{folder:{width}} {files:6} {wanted_count:11} {passed:9} {share:>9}")
    return lines


def groups(ran: dict[str, dict[str, Ran]]) -> list[str]:
    """Return the tests that differ, those with the same message together, most frequent first."""
    found: dict[str, list[tuple[str, Outcome]]] = defaultdict(list)
    for _, engines in sorted(ran.items()):
        mine = engines.get(TIDEFLOW, Ran())
        for test in sorted(_differing(engines)):
            outcome = mine.tests.get(test, Outcome("missing", f"did not run ({mine.ended})"))
            if outcome.how in ("running", "skipped"):
                outcome = Outcome(outcome.how, f"was {outcome.how} ({mine.ended})")
            found[_alike(outcome.error)].append((test, outcome))
    lines = []
    for tests in sorted(found.values(), key=len, reverse=True):
        lines.append(f"{len(tests)} x {tests[0][1].error}")
        lines += [f"    {test}  {outcome.where}".rstrip() for test, outcome in tests]
    return lines


def _alike(message: str) -> str:
    """Return what messages have in common that differ in numbers and quoted names."""
    return re.sub(r"0x[0-9a-f]+|\d+|'[^']*'", "_", message)[:200]


def _incomplete(ran: dict[str, dict[str, Ran]]) -> list[str]:
    return [
        f"{path} on {engine}: {one.ended}"
        for path, engines in sorted(ran.items())
        for engine, one in engines.items()
        if one.ended != "done"
    ]


def report(library: str, ran: dict[str, dict[str, Ran]]) -> list[str]:
    """Return all that is to be said of a library."""
    lines = [f"{library}: tests that pass on TensorFlow, and how many of these pass on tideflow"]
    lines += ["", *table(ran)]
    if differing := groups(ran):
        lines += ["", "tests that do not pass on tideflow, by their errors", *differing]
    if any(TENSORFLOW not in known or not known[TENSORFLOW].whole for known in ran.values()):
        lines += ["", "TensorFlow was not asked about all: the others count as tideflow has them"]
    if incomplete := _incomplete(ran):
        lines += ["", "test files that did not run to their end", *incomplete]
    return lines


# ---- the command


def _checkout(text: str) -> tuple[str, Path]:
    library, _, folder = text.partition("=")
    if not folder or not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER with a folder that is there")
    return library, Path(folder).resolve()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.libraries", description=__doc__, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "library", type=_checkout, nargs="+", metavar="NAME=CHECKOUT",
        help=f"{', '.join(_SUITES)}, or any other with tests for pytest",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, help="the file of results; without one, a new temporary one"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN",
        help="run only test files that match, below the checkout; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--tensorflow", choices=["all", "failing", "none"], default="all",
        help="on which tests to run TensorFlow; those that it is not asked about count as passed "
        "where they pass on tideflow",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="run once more what differs")
    parser.add_argument(
        "--together", action="store_true",
        help="run the test files of a folder in one process: faster where a library takes long to "
        "import, but what ends the process ends them all",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run at a time")
    parser.add_argument(
        "--test-s", type=float, default=120, help="seconds for a test (%(default)s)"
    )
    parser.add_argument(
        "--process-s", type=float, default=1800, help="seconds for a file (%(default)s)"
    )
    return parser.parse_args()


def main() -> None:
    """Run the tests of the command line and print what differs."""
    chosen = _arguments()
    file = chosen.results or Path(tempfile.mkdtemp(prefix="libraries-"), "results.json")
    print(f"results are kept in {file}", file=sys.stderr)
    for library, checkout in chosen.library:
        suite = _SUITES.get(library, Suite())
        results = Results(file, library)
        paths = suite.in_checkout(checkout, chosen.only)
        runner = Runner(checkout, suite, Limits(chosen.test_s, chosen.process_s))
        plan = Plan(chosen.tensorflow, chosen.again)
        batches = _batches(paths, chosen.together)
        asyncio.run(_run_all(library, runner, results, batches, plan, chosen.jobs))
        print("\n".join(report(library, {path: results.ran[path] for path in paths})))


if __name__ == "__main__":
    main()
