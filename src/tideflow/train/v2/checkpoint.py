"""tf.train.Checkpoint of the TF2 shape: saves and restores at once, without sessions.

What is made after restore() gets its value when it is attached to an object that restore() reached.

Source: tensorflow/python/checkpoint/checkpoint.py; runtime facts on files.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.client.session import Session
from tideflow.eager.context import context
from tideflow.eager.tracking import AutoTrackable
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2
from tideflow.ops.framework import Trackable, join_restoration, leave_restoration
from tideflow.ops.state import init_scope
from tideflow.train.checkpoints import (
    OBJECT_GRAPH_KEY,
    Checkpoint,
    CheckpointReader,
    Match,
    ObjectFiles,
    RestoreStatus,
    has_value,
    is_tracked,
    object_nodes,
    on_cpu,
    restore_turns,
)

# A tensor for a file: its key, which part of the whole it is, and itself.
_Entry = tuple[str, str, Any]


class _Part:
    """A variable, or a part of one, under its key in a checkpoint.

    Attributes: slice_spec, which part of the whole ("6 2 0,3:0,2"), "" for a whole; nbytes, 0 where
    the shape is not known.
    """

    def __init__(self, key: str, variable: Any, slice_spec: str = "") -> None:
        self.key = key
        self.variable = variable
        self.slice_spec = slice_spec
        self.device = on_cpu(variable.device)
        self.nbytes = (variable.shape.num_elements() or 0) * variable.dtype.size


def _parts(named: Sequence[tuple[str, Any]]) -> list[_Part]:
    found = []
    for key, thing in named:
        if getattr(thing, "is_sharded_variable", False):
            found += [_Part(key, part, spec) for part, spec in _slices(thing)]
        else:
            found.append(_Part(key, thing))
    return found


def _slices(whole: Any) -> list[tuple[Any, str]]:
    dims = whole.shape.as_list()
    rest = "".join(f":0,{size}" for size in dims[1:])
    shape = " ".join(map(str, dims))
    found, begin = [], 0
    for part in whole.variables:
        rows = part.shape.as_list()[0]
        found.append((part, f"{shape} {begin},{rows}{rest}"))
        begin += rows
    return found


def _by_device(parts: Sequence[_Part]) -> dict[str, list[_Part]]:
    found: dict[str, list[_Part]] = {}
    for part in parts:
        found.setdefault(part.device, []).append(part)
    return found


class EagerFiles:
    """Writes and reads variables on the tasks where they are.

    Args:
      sharding: says which tensors of a task go into which of its files
        (tf.train.experimental.ShardingCallback); None for one file.
    """

    def __init__(self, sharding: Any = None) -> None:
        self._sharding = sharding

    def write(self, prefix: str, named: dict[str, Any], graph: bytes) -> str:
        """Write a bundle: one file of data for each task that holds variables.

        The objects' message goes with those of this process.
        """
        os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
        here = on_cpu(get_default_graph().default_device)  # type: ignore[attr-defined]
        groups = _by_device(_parts(sorted(named.items())))
        groups.setdefault(here, [])
        files = [
            (device, file)
            for device, parts in sorted(groups.items())
            for file in self._files(parts, graph if device == here else None)
        ]
        if len(files) == 1:
            self._save(prefix, here, files[0][1])
            return prefix
        temporary = f"{prefix}_temp_{secrets.token_hex(8)}"
        shards = []
        for number, (device, file) in enumerate(files):
            shards.append(f"{temporary}/part-{number:05}-of-{len(files):05}")
            self._save(shards[-1], device, file)
        cluster = context().cluster
        if cluster is not None:
            cluster.operations.wait_for(groups)
        with get_default_graph().device(here):
            apply_op("MergeV2Checkpoints", shards, prefix, delete_old_dirs=True)
        return prefix

    def _files(self, parts: Sequence[_Part], graph: bytes | None) -> list[list[_Entry]]:
        """Return what goes into each of a task's files."""
        found = [(part.key, part.slice_spec, part.variable.read_value()) for part in parts]
        if graph is not None:
            found.append((OBJECT_GRAPH_KEY, "", convert_to_tensor(np.array(graph, object))))
        return [found] if self._sharding is None else self._sharding.share_out(found)

    def _save(self, prefix: str, device: str, entries: Sequence[_Entry]) -> None:
        names, slices, tensors = ([*column] for column in zip(*entries))
        with get_default_graph().device(device):
            apply_op("SaveV2", prefix, names, slices, tensors)

    def read(self, prefix: str, named: Sequence[tuple[str, Any]]) -> None:
        """Give variables the values that are under their keys.

        Raises: ValueError for a value of another shape than the variable's.
        """
        for device, parts in _by_device(_parts(named)).items():
            for turn in restore_turns([part.nbytes for part in parts]):
                _read(prefix, device, parts[turn.items])

    def initialize(self, variables: Sequence[Any]) -> None:
        """Do nothing: they have their values from the start."""

    def increment(self, counter: Any) -> int:
        """Add one to a variable and return its value."""
        counter.assign_add(1)
        return int(counter.numpy())


def _read(prefix: str, device: str, parts: Sequence[_Part]) -> None:
    with get_default_graph().device(device):
        found = apply_op(
            "RestoreV2",
            prefix,
            [part.key for part in parts],
            [part.slice_spec for part in parts],
            dtypes=[part.variable.dtype.base_dtype for part in parts],
        )
    for part, value in zip(parts, found):
        _assign(part, value)


def _assign(part: _Part, value: Any) -> None:
    if not part.variable.shape.is_compatible_with(value.shape):
        raise ValueError(
            f"the checkpoint holds shape {value.shape} under {part.key!r}, but the variable "
            f"{part.variable.name!r} has shape {part.variable.shape}"
        )
    part.variable.assign(value)


@export_v2("train.CheckpointOptions")
class CheckpointOptions:
    """Hold options of how to save.

    Args:
      experimental_sharding_callback: says which tensors go into which files
        (tf.train.experimental.ShardingCallback).
      experimental_io_device, experimental_enable_async_checkpoint, experimental_write_callbacks,
        enable_async, experimental_skip_slot_variables: accepted for programs that give them; they
        change nothing.
    Example:
      >>> tf.train.CheckpointOptions(enable_async=True).enable_async
      True
    """

    def __init__(
        self,
        experimental_io_device: str | None = None,
        experimental_enable_async_checkpoint: bool = False,
        experimental_write_callbacks: Any = None,
        enable_async: bool = False,
        experimental_skip_slot_variables: bool = False,
        experimental_sharding_callback: Any = None,
    ) -> None:
        self.experimental_io_device = experimental_io_device
        self.experimental_enable_async_checkpoint = experimental_enable_async_checkpoint
        self.experimental_write_callbacks = experimental_write_callbacks
        self.enable_async = enable_async
        self.experimental_skip_slot_variables = experimental_skip_slot_variables
        self.experimental_sharding_callback = experimental_sharding_callback


@export_v2("train.Checkpoint")
class CheckpointV2(AutoTrackable, Checkpoint):
    """Saves and restores objects: variables, modules, optimizers, and lists and dicts of them.

    Args:
      root: an object whose attributes are taken as if they were this one's.
      kwargs: the objects; they become attributes, and more can be set.
    Raises: ValueError for what cannot be saved.
    Example:
      >>> import os, tempfile
      >>> weight = tf.Variable(1.0)
      >>> checkpoint = tf.train.Checkpoint(weight=weight)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = checkpoint.save(os.path.join(folder, "ckpt"))
      ...     _ = weight.assign(5.0)
      ...     _ = checkpoint.restore(path).assert_consumed()
      >>> float(weight)
      1.0
    """

    _untracked = frozenset({"_savers", "_save_counter", "_root", "_sharding"})

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            if not is_tracked(value):
                raise ValueError(
                    f"`Checkpoint` was expecting {name} to be a trackable object (a variable, "
                    f"module, optimizer, or a structure of these); found {type(value).__name__}"
                )
        self._root = root
        self._sharding: Any = None
        super().__init__(**kwargs)

    def _checkpoint_children(self) -> dict[str, Any]:
        children: dict[str, Any] = {}
        if self._root is not None:
            children.update(_children(self._root))
        children.update(self._trackable_children())
        if self._save_counter is not None:
            children["save_counter"] = self._save_counter
        return children

    def _files(self, session: Any) -> ObjectFiles:
        return EagerFiles(self._sharding)

    def _make_counter(self) -> bool:
        with init_scope():
            return super()._make_counter()

    def write(self, file_prefix: Any, options: Any = None) -> str:
        """Write the objects under a name of just that prefix; returns it."""
        with self._shared_out(options):
            return super().write(file_prefix)

    def save(self, file_prefix: Any, options: Any = None) -> str:
        """Write the objects as `<file_prefix>-<number>`, and name that in the state file."""
        with self._shared_out(options):
            return super().save(file_prefix)

    @contextlib.contextmanager
    def _shared_out(self, options: Any) -> Iterator[None]:
        """Let the callback of options, if there is one, say what goes into which file."""
        before = self._sharding
        self._sharding = getattr(options, "experimental_sharding_callback", None) or before
        try:
            yield
        finally:
            self._sharding = before

    def read(self, save_path: str, options: Any = None) -> EagerRestoreStatus:
        """Restore what write() wrote."""
        return EagerRestoreStatus(self, os.fspath(save_path))

    def restore(self, save_path: str, options: Any = None) -> EagerRestoreStatus:
        """Restore what save() or write() wrote; what is attached later is restored then.

        save_path: None restores nothing.
        Raises: NotFoundError where there is no such checkpoint; DataLossError for a damaged one.
        """
        self._make_counter()
        return EagerRestoreStatus(self, None if save_path is None else os.fspath(save_path))


def _identity(thing: Any) -> Hashable:
    """Return what tells values apart: objects, and the parts of those that have several."""
    return id(getattr(thing, "owner", thing)), getattr(thing, "attribute", "")


def _children(root: Any) -> dict[str, Any]:
    nodes = object_nodes(root)
    return {name: nodes[number].thing for name, number in nodes[0].children}


class EagerRestoreStatus(RestoreStatus):
    """A restoration: what it could give has been given, the rest waits for objects to come."""

    def __init__(self, checkpoint: CheckpointV2, prefix: str | None) -> None:
        super().__init__(checkpoint, prefix)
        # By identity; held so that no other object gets the number.
        self._restored: dict[Hashable, Any] = {}
        self._joined: list[Any] = []
        self._is_reading = False
        if prefix is not None:
            self.proceed()

    def proceed(self) -> None:
        """Restore what has been added since, and wait for more if the checkpoint has more."""
        if self._is_reading or self._prefix is None:
            return
        self._is_reading = True
        try:
            with init_scope():
                self._restore_new()
        finally:
            self._is_reading = False

    def _restore_new(self) -> None:
        assert self._prefix is not None
        found = self._match()
        if found.slots:
            self._make_slots(found)
            found = self._match()
        fresh = [
            (key, thing) for key, thing in found.keys if _identity(thing) not in self._restored
        ]
        if fresh:
            self._checkpoint._files(None).read(self._prefix, fresh)
            self._restored.update((_identity(thing), thing) for _, thing in fresh)
        if not found.unused:
            for thing in self._joined:
                leave_restoration(thing, self)
            self._joined = []
            return
        roots = [self._checkpoint, *filter(None, [getattr(self._checkpoint, "_root", None)])]
        for thing in [*roots, *(node.thing for node in object_nodes(self._checkpoint))]:
            if isinstance(thing, Trackable) and not has_value(thing):
                join_restoration(thing, self)
                self._joined.append(thing)

    def _make_slots(self, found: Match) -> None:
        """Make the slots of optimizers that the checkpoint has, so that they are restored now."""
        assert self._prefix is not None
        shapes = CheckpointReader(self._prefix).get_variable_to_shape_map()
        for optimizer, variable, name, key in found.slots:
            if variable.shape.as_list() == shapes[key]:
                optimizer.make_slot_to_restore(variable, name)

    def assert_consumed(self) -> EagerRestoreStatus:
        """Raise AssertionError unless every object and every value has its counterpart."""
        self.proceed()
        super().assert_consumed()
        return self

    def assert_existing_objects_matched(self) -> EagerRestoreStatus:
        """Raise AssertionError unless the checkpoint has a value for every variable."""
        self.proceed()
        super().assert_existing_objects_matched()
        return self

    def assert_nontrivial_match(self) -> EagerRestoreStatus:
        """Raise AssertionError if nothing but the root fits."""
        self.proceed()
        super().assert_nontrivial_match()
        return self

    def expect_partial(self) -> EagerRestoreStatus:
        """Accept that some values are not used."""
        return self

    def run_restore_ops(self, session: Session | None = None) -> None:
        """Do nothing: it has been restored.  Raises: AssertionError without a checkpoint."""
        if self._prefix is None:
            raise AssertionError("no checkpoint was given; use initialize_or_restore")

    def initialize_or_restore(self, session: Session | None = None) -> None:
        """Restore what has been added since; the others have their initial values."""
        self.proceed()
