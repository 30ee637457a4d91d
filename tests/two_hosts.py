"""Two hosts with a cable between them, as network namespaces of this machine.

Needs Linux, `unshare`, `nsenter` and `ip`, and to be root or where anybody may make namespaces.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

ADDRESSES = ("10.77.0.1", "10.77.0.2")
_SETTING_UP_S = 30


class NotPossible(Exception):
    """This machine does not let us make hosts; the text says why."""


@dataclass(frozen=True)
class Host:
    """A host: where other hosts find it, and what a command is put behind to run there."""

    address: str
    prefix: tuple[str, ...]

    def run(self, *command: str) -> str:
        """Run a command, and return what it printed.  Raises: NotPossible."""
        return _run(*self.prefix, *command)

    def plug(self, state: str) -> None:
        """Plug its cable in ("up") or out ("down")."""
        self.run("ip", "link", "set", "cable", state)


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts, which are gone with all that runs there at the end.

    Raises: NotPossible.
    """
    with contextlib.ExitStack() as keepers:
        first = keepers.enter_context(_keeper("unshare", "--user", "--map-root-user", "--net"))
        second = keepers.enter_context(_keeper(*_within(first), "unshare", "--net"))
        hosts = [Host(at, _within(pid)) for at, pid in zip(ADDRESSES, (first, second))]
        end = ("type", "veth", "peer", "name", "cable", "netns", str(second))
        hosts[0].run("ip", "link", "add", "cable", *end)
        for host in hosts:
            host.run("ip", "link", "set", "lo", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", "cable")
            host.plug("up")
        yield hosts[0], hosts[1]


def _within(pid: int) -> tuple[str, ...]:
    return ("nsenter", "--preserve-credentials", "--user", "--net", "--target", str(pid))


@contextlib.contextmanager
def _keeper(*command: str) -> Iterator[int]:
    """Keep new namespaces; yield the process whose they are."""
    try:
        keeper = subprocess.Popen(
            [*command, "sh", "-c", "echo made; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise NotPossible(f"{command[0]}: {error}") from None
    with keeper:
        try:
            assert keeper.stdout is not None
            assert keeper.stderr is not None
            if keeper.stdout.readline() != b"made\n":
                raise NotPossible(keeper.stderr.read().decode().strip())
            yield keeper.pid
        finally:
            keeper.kill()


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SETTING_UP_S)
    except OSError as error:
        raise NotPossible(f"{command[0]}: {error}") from None
    if done.returncode:
        raise NotPossible(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
