"""Give damaged bytes to all that reads bytes of others; keep what somebody chokes on.

    make fuzz COUNT=100000
    PYTHONPATH=src:tests python -m fuzz.run --target frames --first 7 --count 1

What is found is written to tests/fuzz/corpus/TARGET, whose files the tests give again.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutations import mutated
from fuzz.targets import TARGETS, Target, made
from real_time import duration_s
from tideflow.wire import errors

CORPUS = Path(__file__).with_name("corpus")
# What takes longer is a finding.
_LONG_S = 10.0


@dataclass(frozen=True)
class Finding:
    """Bytes that somebody choked on, and how."""

    target: str
    data: bytes
    what: str


def tried(name: str, target: Target, data: bytes) -> Finding | None:
    """Give bytes to a target; return what is wrong with how it takes them."""
    try:
        took_s = duration_s(lambda: target.give(data))
    except errors.OpError as error:
        if "failed unexpectedly" in error.message:
            return Finding(name, data, error.message)
        return None
    except Exception:
        return Finding(name, data, traceback.format_exc(limit=-4))
    return Finding(name, data, f"it took {took_s:.1f} s") if took_s > _LONG_S else None


def drawn(name: str, target: Target, seed: int) -> bytes:
    """Return the bytes of a seed."""
    return mutated(random.Random(f"{name} {seed}"), target.samples)


def main() -> int:
    """Run what the command line says; return 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=list(TARGETS), default=[])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    seen: set[str] = set()
    for name, target in made(options.target):
        count = 0
        for seed in range(options.first, options.first + options.count):
            found = tried(name, target, drawn(name, target, seed))
            if found is None:
                continue
            count += 1
            kind = name + found.what.strip().splitlines()[-1][:60]
            if kind in seen:
                continue
            seen.add(kind)
            file = CORPUS / name / hashlib.sha256(found.data).hexdigest()[:16]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(found.data)
            print(f"{name} {seed}: {found.what}\n  kept as {file}", flush=True)
        print(f"{name}: {options.count}, {count} findings", flush=True)
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
