"""Errors, one class for each status code of the protocol.

    OpError
    ├── CancelledError             1   the caller, a closing session or a failed step gave up
    ├── UnknownError               2
    ├── InvalidArgumentError       3   the request can never work as it is
    ├── DeadlineExceededError      4
    ├── NotFoundError              5
    ├── AlreadyExistsError         6
    ├── PermissionDeniedError      7
    ├── ResourceExhaustedError     8
    ├── FailedPreconditionError    9   not now: an uninitialised variable, say
    ├── AbortedError              10   start again from a new session
    ├── OutOfRangeError           11   the input has ended
    ├── UnimplementedError        12
    ├── InternalError             13
    ├── UnavailableError          14   the peer is not there; try again
    ├── DataLossError             15
    └── UnauthenticatedError      16

The code is contract: clients decide by it whether to try again, so it must be the one that
TensorFlow gives in the same case.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """A failed operation or call.

    Made as OpError(message, node=...), or in TensorFlow's order, OpError(node_def, op, message).

    Attributes:
      message: what was wrong, where, and what would be right.
      error_code: the protocol's status code.
      node: name of the node that failed, or None.
      op: the front end's Operation for that node, or None.
      payloads: extra facts by type URL, as they travel in the trailing metadata.
    """

    code: ClassVar[int] = UNKNOWN

    def __init__(
        self,
        message: Any,
        *rest: Any,
        node: str | None = None,
        op: object = None,
        code: int | None = None,
        payloads: dict[str, bytes] | None = None,
    ) -> None:
        node_def: object = None
        if rest:
            node, node_def = getattr(message, "name", None), message
            op, message, code = (*rest, code)[:3]
        super().__init__(message)
        self.message: str = message
        self.node = node
        self.op = op
        self._node_def = node_def
        self.error_code = type(self).code if code is None else code
        self.payloads: dict[str, bytes] = dict(payloads or {})

    def __str__(self) -> str:
        return self.message

    @property
    def node_def(self) -> Any:
        """The failed operation as a message, or None where it is not known."""
        if self._node_def is None:
            return getattr(self.op, "node_def", None)
        return self._node_def

    @property
    def code_name(self) -> str:
        """The status code as the protocol spells it, such as INVALID_ARGUMENT."""
        return CODE_NAMES.get(self.error_code, f"CODE_{self.error_code}")

    def with_message(self, message: str, *, node: str | None = None) -> OpError:
        """Return the same error with more said; the layer that knows more calls this once."""
        error = error_for_code(self.error_code)(message, node=node or self.node, op=self.op)
        error.error_code = self.error_code
        error.payloads = dict(self.payloads)
        error.__cause__ = self.__cause__
        error.__traceback__ = self.__traceback__
        return error


class CancelledError(OpError):
    """The operation was cancelled: by its caller, a closing session or a failed step."""

    code = CANCELLED


class UnknownError(OpError):
    """An error that carries no better code."""

    code = UNKNOWN


class InvalidArgumentError(OpError):
    """The request is wrong whatever the state of the system."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    """The time that the caller gave ran out."""

    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """A named thing (node, op, resource, file) is not there."""

    code = NOT_FOUND


class AlreadyExistsError(OpError):
    """A thing to be made is there already."""

    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Out of memory, or over a limit such as the message size."""

    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that this needs; an uninitialised variable, say."""

    code = FAILED_PRECONDITION


class AbortedError(OpError):
    """Begin again from a new session: the peer's state that this relied on is gone."""

    code = ABORTED


class OutOfRangeError(OpError):
    """The input has ended, or an index lies outside what there is."""

    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The peer does not offer this."""

    code = UNIMPLEMENTED


class InternalError(OpError):
    """An invariant of the runtime is broken."""

    code = INTERNAL


class UnavailableError(OpError):
    """The peer cannot be reached now; a new try may work."""

    code = UNAVAILABLE


class DataLossError(OpError):
    """Stored data is corrupt or cut short."""

    code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller did not say who it is, or not credibly."""

    code = UNAUTHENTICATED


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor of a graph was used as a Python value, as in `if x:`, before it has one."""


_CLASSES: dict[int, type[OpError]] = {cls.code: cls for cls in OpError.__subclasses__()}

CODE_NAMES: dict[int, str] = {
    OK: "OK",
    CANCELLED: "CANCELLED",
    UNKNOWN: "UNKNOWN",
    INVALID_ARGUMENT: "INVALID_ARGUMENT",
    DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
    NOT_FOUND: "NOT_FOUND",
    ALREADY_EXISTS: "ALREADY_EXISTS",
    PERMISSION_DENIED: "PERMISSION_DENIED",
    RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
    FAILED_PRECONDITION: "FAILED_PRECONDITION",
    ABORTED: "ABORTED",
    OUT_OF_RANGE: "OUT_OF_RANGE",
    UNIMPLEMENTED: "UNIMPLEMENTED",
    INTERNAL: "INTERNAL",
    UNAVAILABLE: "UNAVAILABLE",
    DATA_LOSS: "DATA_LOSS",
    UNAUTHENTICATED: "UNAUTHENTICATED",
}


def error_for_code(code: int) -> type[OpError]:
    """Return the class for a status code; UnknownError for one that the protocol lacks."""
    return _CLASSES.get(code, UnknownError)


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Return the class of errors with a code.  Raises: KeyError for a code that none has."""
    return _CLASSES[error_code]


def error_code_from_exception_type(cls: type[BaseException]) -> int:
    """Return the code of a class of errors; UNKNOWN, with a warning, for another class."""
    for code, known in _CLASSES.items():
        if known is cls:
            return code
    warnings.warn("Unknown class exception", stacklevel=2)
    return UNKNOWN
