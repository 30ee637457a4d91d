"""The part of a graph that saves and restores: the nodes that a Saver adds.

    save/Const  the prefix, fed                save/SaveV2  writes
    save/control_dependency  the prefix, once it is written
    save/RestoreV2, save/Assign...             save/restore_all  runs them all

Where there is much to restore, several RestoreV2 take turns: what they have read beside the
variables' old values stays a small part of them all.

A sharded saver writes a bundle for each device into `<prefix>_temp` and merges them.  The names
are protocol: a SaverDef refers to them, and programs rely on them.

Source: tensorflow/python/training/saver.py; recorded graphs.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.ops.control_flow import group
from tideflow.ops.framework import constant, identity
from tideflow.ops.state import PartitionedVariable
from tideflow.train.checkpoints.restore_batches import restore_turns
from tideflow.train.checkpoints.saveables import (
    SaveableObject,
    SaveSpec,
    by_name,
    on_cpu,
    saveables_by_name,
)
from tideflow.wire import messages as pb
from tideflow.wire.device_name import canonical

_TEMPORARY_SUFFIX = "_temp/part"


class BaseSaverBuilder:
    """Makes the nodes of a saver.  Subclasses may make others (override save_op, restore_op)."""

    def __init__(self, write_version: int = pb.SaverDef.V2) -> None:
        if write_version not in (pb.SaverDef.V1, pb.SaverDef.V2):
            raise RuntimeError(f"write_version is {write_version}; it must be V1 or V2")
        self._write_version = write_version

    # ---- saving

    def save_op(self, filename_tensor: Tensor, saveables: Sequence[SaveableObject]) -> Operation:
        """Return an operation that saves."""
        specs = [spec for saveable in saveables for spec in saveable.specs]
        tensors = [spec.tensor for spec in specs]
        if self._write_version == pb.SaverDef.V1:
            names = _names_and_slices(specs)
            first: Operation = apply_op("SaveSlices", filename_tensor, *names, tensors, name="save")
            return first
        with get_default_graph().name_scope("SaveV2") as scope:
            names = _names_and_slices(specs)
            made: Operation = apply_op("SaveV2", filename_tensor, *names, tensors, name=scope)
        return made

    def _add_save(self, prefix: Tensor, saveables: Sequence[SaveableObject]) -> Tensor:
        graph = get_default_graph()
        saved = self.save_op(prefix, saveables)
        with graph.name_scope("control_dependency") as scope:
            with graph.control_dependencies([saved]), graph.colocate_with(prefix.op):
                return identity(prefix, name=scope)

    def _add_sharded_save(
        self, prefix: Tensor, per_device: Sequence[tuple[str, list[SaveableObject]]]
    ) -> Tensor:
        if self._write_version == pb.SaverDef.V1:
            return self._add_sharded_save_of_v1(prefix, per_device)
        graph = get_default_graph()
        with graph.device("/device:CPU:*"):
            # In an object store nothing can be renamed; the parts are then named beside.
            in_store = apply_op("StaticRegexFullMatch", prefix, pattern="^s3://.*")
            suffix = apply_op("Select", in_store, constant(".part"), constant(_TEMPORARY_SUFFIX))
            temporary = apply_op("StringJoin", [prefix, suffix])
        count = constant(len(per_device), name="num_shards")
        parts, saved = [], []
        for shard, (device, saveables) in enumerate(per_device):
            with graph.device(on_cpu(device)):
                parts.append(_sharded_filename(temporary, shard, count))
                saved.append(self._add_save(parts[-1], saveables))
        with graph.control_dependencies([tensor.op for tensor in saved]):
            with graph.device(on_cpu(per_device[-1][0])):
                merged = _merge(parts, prefix)
                with graph.control_dependencies([merged]):
                    return identity(prefix)

    def _add_sharded_save_of_v1(
        self, prefix: Tensor, per_device: Sequence[tuple[str, list[SaveableObject]]]
    ) -> Tensor:
        """Save in a file for each device; the tensor is the pattern that they match."""
        graph = get_default_graph()
        count = constant(len(per_device), name="num_shards")
        saved = []
        for shard, (device, saveables) in enumerate(per_device):
            with graph.device(on_cpu(device)):
                name = _sharded_filename(prefix, shard, count)
                saved.append(self._add_save(name, saveables))
        with graph.control_dependencies([tensor.op for tensor in saved]):
            pattern: Tensor = apply_op("ShardedFilespec", prefix, count)
            return pattern

    # ---- restoring

    def restore_op(
        self, filename_tensor: Tensor, saveable: SaveableObject, preferred_shard: int
    ) -> list[Tensor]:
        """Return the tensors of one saveable, read from a checkpoint."""
        return [_restore(filename_tensor, [spec])[0] for spec in saveable.specs]

    def bulk_restore(
        self,
        filename_tensor: Tensor,
        saveables: Sequence[SaveableObject],
        preferred_shard: int,
        restore_sequentially: bool,
    ) -> list[Tensor]:
        """Return the tensors of some saveables, each read on its own device's host."""
        graph = get_default_graph()
        found: list[Tensor] = []
        for saveable in saveables:
            with graph.device(on_cpu(saveable.device) if saveable.device else None):
                found += self.restore_op(filename_tensor, saveable, preferred_shard)
        return found

    def _add_restore(
        self,
        prefix: Tensor,
        saveables: Sequence[SaveableObject],
        restore_sequentially: bool,
        reshape: bool,
        preferred_shard: int = -1,
        name: str = "restore_all",
    ) -> Operation:
        done: list[list[Any]] = []
        for turn in restore_turns([saveable.nbytes for saveable in saveables]):
            waits = [] if turn.after is None else done[turn.after]
            with get_default_graph().control_dependencies(waits):
                tensors = iter(
                    self.bulk_restore(
                        prefix, saveables[turn.items], preferred_shard, restore_sequentially
                    )
                )
            done.append([])
            for saveable in saveables[turn.items]:
                shapes = [_shape_of(spec.tensor) for spec in saveable.specs] if reshape else None
                values = [next(tensors) for _ in saveable.specs]
                done[-1].append(saveable.restore(values, shapes))
        return group(*itertools.chain(*done), name=name)

    def _add_sharded_restore(
        self,
        prefix: Tensor,
        per_device: Sequence[tuple[str, list[SaveableObject]]],
        restore_sequentially: bool,
        reshape: bool,
    ) -> Operation:
        graph = get_default_graph()
        restored = []
        for shard, (device, saveables) in enumerate(per_device):
            with graph.device(device):
                restored.append(
                    self._add_restore(
                        prefix, saveables, restore_sequentially, reshape, shard, "restore_shard"
                    )
                )
        return group(*restored, name="restore_all")

    # ---- both

    def build(
        self,
        names_to_saveables: Any,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: str | None = "model",
    ) -> pb.SaverDef:
        """Add the nodes of a saver to the default graph and return the message that names them.

        Args: as Saver's.
        Raises: TypeError and ValueError for what cannot be saved.
        """
        named = names_to_saveables
        if not isinstance(named, Mapping):
            named = by_name(named)
        saveables = saveables_by_name(named)
        graph = get_default_graph()
        with graph.name_scope(name or "save"):
            # The inner name is that of the classic constant, which programs feed.
            prefix = _fed(constant(filename or "model", name="filename/input"), "filename")
            prefix = _fed(prefix, "Const")
            if sharded:
                groups = _by_device(saveables)
                saved = self._add_sharded_save(prefix, groups)
                restored = self._add_sharded_restore(prefix, groups, restore_sequentially, reshape)
            else:
                saved = self._add_save(prefix, saveables)
                restored = self._add_restore(prefix, saveables, restore_sequentially, reshape)
        _name_partitioned_variables()
        return pb.SaverDef(
            filename_tensor_name=prefix.name,
            save_tensor_name=saved.name,
            restore_op_name=restored.name,
            max_to_keep=max_to_keep or 0,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )


class BulkSaverBuilder(BaseSaverBuilder):
    """Makes a saver that reads many tensors of a device in one go (the default)."""

    def bulk_restore(
        self,
        filename_tensor: Tensor,
        saveables: Sequence[SaveableObject],
        preferred_shard: int,
        restore_sequentially: bool,
    ) -> list[Tensor]:
        """Return the tensors of some saveables, read by one operation."""
        specs = [spec for saveable in saveables for spec in saveable.specs]
        with get_default_graph().device("/device:CPU:0"):
            return _restore(filename_tensor, specs)


def _names_and_slices(specs: Sequence[SaveSpec]) -> tuple[Tensor, Tensor]:
    """Return the inputs that say which tensors are meant, named as TensorFlow names them."""
    names = np.array([spec.name.encode() for spec in specs], object)
    slices = np.array([spec.slice_spec.encode() for spec in specs], object)
    return constant(names, name="tensor_names"), constant(slices, name="shape_and_slices")


def _sharded_filename(prefix: Tensor, shard: int, count: Tensor) -> Tensor:
    with get_default_graph().name_scope("ShardedFilename") as scope:
        number = constant(shard, name="shard")
        made: Tensor = apply_op("ShardedFilename", prefix, number, count, name=scope)
    return made


def _merge(parts: list[Tensor], prefix: Tensor) -> Operation:
    with get_default_graph().name_scope("MergeV2Checkpoints") as scope:
        packed = apply_op("Pack", parts, name="checkpoint_prefixes")
        made: Operation = apply_op(
            "MergeV2Checkpoints", packed, prefix, delete_old_dirs=True, name=scope
        )
    return made


def _fed(default: Tensor, name: str) -> Tensor:
    made: Tensor = apply_op("PlaceholderWithDefault", default, shape=(), name=name)
    return made


def _restore(prefix: Tensor, specs: Sequence[SaveSpec]) -> list[Tensor]:
    with get_default_graph().name_scope("RestoreV2") as scope:
        made = apply_op(
            "RestoreV2",
            prefix,
            *_names_and_slices(specs),
            dtypes=[spec.dtype for spec in specs],
            name=scope,
        )
    return list(made)


def _shape_of(tensor: Tensor) -> Any:
    shape = tensor.get_shape()
    return shape.as_list() if shape.is_fully_defined() else apply_op("Shape", tensor)


def remove_parts(prefix: str) -> None:
    """Delete what a sharded save that failed has written, as far as it is seen from here."""
    for path in glob.glob(f"{glob.escape(prefix + _TEMPORARY_SUFFIX)}-*"):
        with contextlib.suppress(OSError):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(prefix + _TEMPORARY_SUFFIX))


def _by_device(saveables: Sequence[SaveableObject]) -> list[tuple[str, list[SaveableObject]]]:
    """Return the saveables of each device, in the order of the devices' names.

    Raises: ValueError for a saveable whose tensors are on several.
    """
    found: dict[str, list[SaveableObject]] = {}
    for saveable in saveables:
        devices = {canonical(spec.device) for spec in saveable.specs}
        if len(devices) != 1:
            raise ValueError(
                f"the tensors of {saveable.name!r} must be on one device; they are on "
                f"{sorted(devices)}"
            )
        found.setdefault(devices.pop(), []).append(saveable)
    return sorted(found.items())


def _name_partitioned_variables() -> None:
    """Give each partitioned variable of a collection the node that a meta graph names it by."""
    graph = get_default_graph()
    for key in graph.get_all_collection_keys():
        for item in graph.get_collection(key):
            if isinstance(item, PartitionedVariable) and item.name not in graph.operations_by_name:
                item.as_tensor()


# Where programs look for them.
BaseSaverBuilder.SaveSpec = SaveSpec  # type: ignore[attr-defined]
BaseSaverBuilder.SaveableObject = SaveableObject  # type: ignore[attr-defined]
