"""Who makes a call, as far as that is proven."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """How a caller is known.

    LOCAL_USER: the user who runs the server, or root, on the same host, as the kernel says.
    TASK, CLIENT, READER: by a certificate, or the cluster's token.
    UNPROVEN: not at all; a server was told to do without.
    STRANGER: not at all; only a token in a call can change that.
    """

    LOCAL_USER = "local user"
    TASK = "task"
    CLIENT = "client"
    READER = "reader"
    UNPROVEN = "unproven"
    STRANGER = "stranger"


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller.

    Attributes:
      kind: how it is known.
      name: of what kind it is one: `worker:1` for a task; for others what the log calls it.
      host: the address of its host; "" for this host.
    """

    kind: Kind
    name: str = ""
    host: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.TASK and ":" in self.name:
            return f"the task {self.name}"
        return self.name or f"a {self.kind.value}"

    @property
    def is_this_user(self) -> bool:
        """Whether it is whoever runs this process, who could do anything without us."""
        return self.kind is Kind.LOCAL_USER
