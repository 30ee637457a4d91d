"""A process that keeps one core busy, until the process that started it ends."""

from __future__ import annotations

from benchmarks.runtimes import end_with_parent


def main() -> None:
    """Say "busy", and be it."""
    end_with_parent()
    print("busy", flush=True)
    while True:
        pass


if __name__ == "__main__":
    main()
