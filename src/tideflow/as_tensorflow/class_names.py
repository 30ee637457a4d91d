"""Gives classes the names that they have in TensorFlow.

Libraries that do not import TensorFlow tell its values by the names of their classes and of the
modules that define these, and pickles refer to classes by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from tideflow.as_tensorflow.modules import Absent
from tideflow.as_tensorflow.names import V2, Own, Public, Target, of_libraries, recorded
from tideflow.as_tensorflow.sources import find_target
from tideflow.platform.shown_names import show_as

_OWN = __name__.partition(".")[0] + "."


def name_classes() -> None:
    """Name all classes that stand for TensorFlow's, in place of the names they have here."""
    for module, name, target in sorted(_entries(), key=_rank):
        try:
            found = find_target(target)
        except Absent:
            continue
        if _is_own_class(found):
            show_as(found, module, name)


def _entries() -> Iterator[tuple[str, str, Target]]:
    for table, kind in ((recorded(), Public), (of_libraries(), Own)):
        for module, known in table.items():
            for name, targets in known.names.items():
                # A public name belongs to the module that defines it, and not to all that show it.
                yield from ((module, name, target) for target in targets if type(target) is kind)


def _rank(entry: tuple[str, str, Target]) -> int:
    """Order the names of a class that has several: the last one stays."""
    target = entry[2]
    if isinstance(target, Own):
        return 2
    return 1 if target.shape == V2 else 0


def _is_own_class(thing: Any) -> bool:
    if not isinstance(thing, type) or issubclass(thing, Message):
        return False
    return thing.__module__.startswith((_OWN, "tensorflow."))
