"""A folder of certificates for tests, as `tideflow certs` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tideflow.cli.authority import Authority, issue, now_utc, open_authority
from tideflow.platform import clock

LOOPBACK = ("localhost", "127.0.0.1")


def now() -> datetime:
    return now_utc(clock.wall_s())


class Folder:
    """A folder as `tideflow certs` makes it."""

    def __init__(self, path: Path, hosts: Sequence[str] = LOOPBACK) -> None:
        self.path = path
        self.hosts = hosts
        self.authority: Authority = open_authority(path, now(), renew=False)
        for name in ("ps-0", "worker-0", "worker-1"):
            self.issue(name, f"tideflow://{name.replace('-', '/')}")
        for name in ("client", "reader"):
            self.issue(name, f"tideflow://{name}")

    def issue(self, name: str, uri: str, *, days: float = 1, since: datetime | None = None) -> str:
        """Write a certificate, and return what names it in settings."""
        issue(self.authority, self.path / name, uri, self.hosts, since or now(), days)
        return str(self.path / name)

    def of(self, name: str) -> str:
        return str(self.path / name)
