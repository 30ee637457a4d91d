"""Device names: full ones, partial ones (specs), and how they combine.

    /job:worker/replica:0/task:3/device:GPU:1

Any part may be missing or `*`, which leaves it open.  The older `/cpu:0` and `/GPU:1` mean
`/device:CPU:0` and `/device:GPU:1`; behind `/device:` the type keeps its spelling.
Source: §6 of the recorded behaviour; device_name_utils.cc of TensorFlow 2.21.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from tideflow.wire.errors import InvalidArgumentError

_PART = re.compile(
    r"/(?:job:(?P<job>\*|[A-Za-z][A-Za-z0-9_]*)"
    r"|replica:(?P<replica>\*|[0-9]+)"
    r"|task:(?P<task>\*|[0-9]+)"
    r"|device:(?P<device_type>\*|[A-Za-z][A-Za-z0-9_]*)(?::(?P<device_index>\*|[0-9]+))?"
    r"|(?P<old_type>cpu|CPU|gpu|GPU):(?P<old_index>\*|[0-9]+))",
    re.ASCII,
)
_MOST_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device name in parts, each None where it is left open.

    Use as `tf.DeviceSpec(job="worker", task=1, device_type="CPU")`; specs never change.
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    def __post_init__(self) -> None:
        if self.device_type in ("cpu", "gpu"):
            object.__setattr__(self, "device_type", self.device_type.upper())

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Return the spec that a (partial) name spells; `cpu` and `gpu` become upper case.

        Raises: ValueError for a malformed name.
        """
        try:
            return replace(parse_device_name(spec))
        except InvalidArgumentError as error:
            raise ValueError(error.message) from None

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Return the spec that a name spells; nothing of this one remains in it."""
        return self.from_string(spec)

    def to_string(self) -> str:
        """Return the name with the parts that are set, in the canonical order."""
        text = f"/job:{self.job}" if self.job is not None else ""
        if self.replica is not None:
            text += f"/replica:{self.replica}"
        if self.task is not None:
            text += f"/task:{self.task}"
        if self.device_type is not None or self.device_index is not None:
            index = "*" if self.device_index is None else self.device_index
            text += f"/device:{self.device_type or '*'}:{index}"
        return text

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return this spec with every part that `dev` sets taken from `dev`."""
        return self.replace(**{name: value for name, value in dev.parts() if value is not None})

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """Return this spec with the named parts replaced; None leaves a part open."""
        return replace(self, **kwargs)

    def parts(self) -> list[tuple[str, Any]]:
        """Return the parts with their names, open ones as None."""
        return [(name, getattr(self, name)) for name in _NAMES]

    @property
    def is_full(self) -> bool:
        """Whether no part is open, so that the spec names one device."""
        return all(value is not None for _, value in self.parts())

    def __str__(self) -> str:
        return self.to_string()


_NAMES = tuple(field.name for field in fields(DeviceSpec))


@functools.lru_cache(maxsize=8192)
def parse_device_name(name: str) -> DeviceSpec:
    """Return the parts of a (partial) device name, exactly as it spells them.

    Raises: InvalidArgumentError for a malformed name.
    """
    found: dict[str, str] = {}
    position = 0
    while position < len(name) and name != "/":
        part = _PART.match(name, position)
        if part is None:
            raise InvalidArgumentError(
                f"device name {name!r} is malformed at {name[position:]!r}; it must look like "
                "/job:worker/replica:0/task:0/device:CPU:0, where any part may be missing"
            )
        found.update({key: value for key, value in part.groupdict().items() if value is not None})
        if "old_type" in found:
            found["device_type"] = found.pop("old_type").upper()
            found["device_index"] = found.pop("old_index")
        position = part.end()
    spec = DeviceSpec(
        job=_text(found.get("job")),
        replica=_number(found.get("replica"), name),
        task=_number(found.get("task"), name),
        device_index=_number(found.get("device_index"), name),
    )
    # Past the constructor, which is friendlier to `cpu` than peers are.
    object.__setattr__(spec, "device_type", _text(found.get("device_type")))
    return spec


@functools.lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """Return the one spelling of a (partial) device name: `/cpu:0` gives `/device:CPU:0`.

    Raises: InvalidArgumentError for a malformed name.
    """
    return parse_device_name(name).to_string()


def local_name(name: str) -> str:
    """Return the part of a device name that its own task needs: `/device:CPU:0`."""
    spec = parse_device_name(name)
    return _from_parts(device_type=spec.device_type, device_index=spec.device_index).to_string()


@functools.lru_cache(maxsize=4096)
def task_name(name: str) -> str:
    """Return the part of a device name that names its task: `/job:worker/replica:0/task:1`."""
    spec = parse_device_name(name)
    return DeviceSpec(spec.job, spec.replica, spec.task).to_string()


def worker_name(job: str, task: int) -> str:
    """Return a task's name as the protocol spells it: `/job:worker/replica:0/task:1`."""
    return DeviceSpec(job, 0, task).to_string()


def full_name(job: str, task: int, device_type: str = "CPU", index: int = 0) -> str:
    """Return the full name of a device; there is only ever replica 0."""
    return f"/job:{job}/replica:0/task:{task}/device:{device_type}:{index}"


def as_spec(device: str | DeviceSpec) -> DeviceSpec:
    """Return a name's spec; a spec is returned as it is."""
    return device if isinstance(device, DeviceSpec) else parse_device_name(device)


def matches(spec: str | DeviceSpec, device: str | DeviceSpec) -> bool:
    """Tell whether the device has every part that the spec sets."""
    return all(
        wanted is None or wanted == found
        for (_, wanted), (_, found) in zip(as_spec(spec).parts(), as_spec(device).parts())
    )


def compatible(first: str | DeviceSpec, second: str | DeviceSpec) -> bool:
    """Tell whether one device could satisfy both: no part is set to different values."""
    return all(
        a is None or b is None or a == b
        for (_, a), (_, b) in zip(as_spec(first).parts(), as_spec(second).parts())
    )


def merge(
    first: str | DeviceSpec, second: str | DeviceSpec, *, soft: bool = False, override: bool = False
) -> DeviceSpec:
    """Return the spec that asks for what both ask for.

    Args:
      soft: let a conflict of types drop type and index, and one of indices the index.
      override: let the second spec win every conflict.

    Raises: InvalidArgumentError for a conflict that neither option settles.
    """
    a, b = as_spec(first), as_spec(second)
    merged = {name: theirs if ours is None else ours for (name, ours), (_, theirs) in _pairs(a, b)}
    for (name, ours), (_, theirs) in _pairs(a, b):
        if ours is None or theirs is None or ours == theirs:
            continue
        if override:
            merged[name] = theirs
        elif soft and name == "device_type":
            merged["device_type"] = merged["device_index"] = None
            break
        elif soft and name == "device_index":
            merged["device_index"] = None
        else:
            raise InvalidArgumentError(
                f"devices {a.to_string()!r} and {b.to_string()!r} cannot both be used: "
                f"they name different values of {name}"
            )
    return _from_parts(**merged)


def _pairs(a: DeviceSpec, b: DeviceSpec) -> list[tuple[tuple[str, Any], tuple[str, Any]]]:
    return list(zip(a.parts(), b.parts()))


def _from_parts(**parts: Any) -> DeviceSpec:
    """Return a spec of just these parts, with the type spelled as it is."""
    spec = DeviceSpec(**parts)
    object.__setattr__(spec, "device_type", parts.get("device_type"))
    return spec


def _text(part: str | None) -> str | None:
    return None if part == "*" else part


def _number(part: str | None, name: str) -> int | None:
    if part is None or part == "*":
        return None
    number = int(part)
    if number > _MOST_NUMBER:
        raise InvalidArgumentError(f"device name {name!r} has the number {part}, past int32")
    return number
