"""Serialised records of sequences for the tests of parsing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tideflow.wire import messages as pb

_Values = Sequence[int] | Sequence[float] | Sequence[bytes] | None
_KINDS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def _feature(values: _Values) -> Any:
    made = pb.Feature()
    if values is not None:
        kind = getattr(made, _KINDS[type(values[0])] if values else "int64_list")
        kind.SetInParent()
        kind.value.extend(values)
    return made


def sequence(context: Mapping[str, _Values], **lists: Sequence[_Values]) -> bytes:
    """Return a record: features of the whole, and lists of features, one for each step."""
    made = pb.SequenceExample()
    for name, values in context.items():
        made.context.feature[name].CopyFrom(_feature(values))
    for name, steps in lists.items():
        one = made.feature_lists.feature_list[name]
        one.SetInParent()
        one.feature.extend(map(_feature, steps))
    return bytes(made.SerializeToString(deterministic=True))


FIRST = sequence({"i": [1, 2], "s": [b"a"]}, f=[[1.0, 2.0], [3.0, 4.0]], v=[[1], [], [2, 3]])
SECOND = sequence({"i": [3, 4]}, f=[[5.0, 6.0]], v=[])
NO_LISTS = sequence({"i": [5, 6]})
NOTHING = sequence({"i": None}, v=[[1], None, [2]], f=[[1.0, 2.0], None])
