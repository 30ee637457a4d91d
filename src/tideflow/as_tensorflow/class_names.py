"""Gives classes the names that they have in TensorFlow.

Libraries that do not import TensorFlow tell its values by the names of their classes and of the
modules that define these, and pickles refer to classes by them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias

from google.protobuf.message import Message

from tideflow.as_tensorflow.modules import Absent
from tideflow.as_tensorflow.names import V2, Own, Public, Target, of_libraries, recorded
from tideflow.as_tensorflow.sources import find_target, module_needed
from tideflow.ops.later import on_import
from tideflow.platform.shown_names import show_as

_OWN = __name__.partition(".")[0] + "."


_Entry: TypeAlias = "tuple[str, str, Target]"


def name_classes() -> None:
    """Name all classes that stand for TensorFlow's, in place of the names they have here.

    Those of modules that are not imported yet are named when they are.
    """
    waiting: dict[str, list[_Entry]] = defaultdict(list)
    for entry in sorted(_entries(), key=_rank):
        waiting[module_needed(entry[2]) or ""].append(entry)

    def name_imported(_: str = "") -> None:
        for needed in [one for one in waiting if not one or one in sys.modules]:
            for entry in waiting.pop(needed):
                _name(*entry)

    name_imported()
    on_import(name_imported)


def _name(module: str, name: str, target: Target) -> None:
    try:
        found = find_target(target)
    except Absent:
        return
    if _is_own_class(found):
        show_as(found, module, name)


def _entries() -> Iterator[_Entry]:
    for table, kind in ((recorded(), Public), (of_libraries(), Own)):
        for module, known in table.items():
            for name, targets in known.names.items():
                # A public name belongs to the module that defines it, and not to all that show it.
                yield from ((module, name, target) for target in targets if type(target) is kind)


def _rank(entry: _Entry) -> int:
    """Order the names of a class that has several: the last one stays."""
    target = entry[2]
    if isinstance(target, Own):
        return 3
    if target.shape != V2:
        return 0
    return 1 if target.path.startswith(("experimental.", "distribute.experimental.")) else 2


def _is_own_class(thing: Any) -> bool:
    if not isinstance(thing, type) or issubclass(thing, Message):
        return False
    return thing.__module__.startswith((_OWN, "tensorflow."))
