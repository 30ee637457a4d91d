"""Saver: checkpoints of a graph's variables, and which of them are kept.

The tensors travel between the devices and the files without passing through this process: saving
and restoring are operations (`saver_ops`), this class runs them, and then keeps the directory in
order.  The order is what makes a crash harmless: the tensors of the new checkpoint
are complete before the state file names it, and old ones go only after that.

Source: tensorflow/python/training/saver.py for names, arguments and files.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph import Graph, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_value
from tideflow.ops.state import global_step as step_of
from tideflow.platform import clock
from tideflow.train.checkpoints import state as checkpoint_state
from tideflow.train.checkpoints.object_names import keys_of_names
from tideflow.train.checkpoints.restore_check import find_differences, restored_by
from tideflow.train.checkpoints.saveables import all_saveable_objects, by_name, saveables_by_name
from tideflow.train.checkpoints.saver_at_once import restore_now, save_now
from tideflow.train.checkpoints.saver_ops import BaseSaverBuilder, BulkSaverBuilder, remove_parts
from tideflow.train.graphs import (
    as_meta_graph_def,
    export_scoped_meta_graph,
    import_scoped_meta_graph,
    register_proto_function,
    with_scope,
    without_scope,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb


@export("train.Saver")
class Saver:
    """Saves and restores variables.

    Example:
      saver = tf.train.Saver()
      saver.save(session, "/tmp/train/model.ckpt", global_step=step)
      saver.restore(session, tf.train.latest_checkpoint("/tmp/train"))

    Args:
      var_list: what to save: variables, a dict of them by their names in the checkpoint; by
        default all global variables and saveable objects.
      reshape: restore tensors whose shape differs, but not the number of elements.
      sharded: write the variables of each device on that device's host.
      max_to_keep: how many checkpoints stay; None or 0 keeps all.
      keep_checkpoint_every_n_hours: keep one of each so many hours besides.
      name: scope of the nodes.
      restore_sequentially: accepted; what is large is restored in turns in any case.
      saver_def: of a saver whose nodes the graph has.
      builder: makes the nodes.
      defer_build: leave that to a call of build().
      allow_empty: a graph without variables is no error; nothing is saved then.
      pad_step_number: write steps with 8 digits.
      save_relative_paths: in the state file, so that the directory can be moved.
      filename: the prefix where none is fed.
    Raises: TypeError and ValueError for what cannot be saved, or no variables.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = pb.SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if defer_build and var_list:
            raise ValueError("with var_list the nodes are made at once; leave out defer_build")
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self.saver_def = _as_saver_def(saver_def)
        self._builder = builder
        self._is_built = False
        self._allow_empty = allow_empty
        self._is_empty = False
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._filename = filename
        self._save_relative_paths = save_relative_paths
        # Checkpoints that are kept, oldest first, with when they were written.
        self._last_checkpoints: list[tuple[str, float]] = []
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        self._next_checkpoint_time = clock.wall_s()
        # Restores object-based checkpoints, once one was met.
        self._object_saver: Saver | None = None
        # Without a graph, what is saved is read and written at once.
        self._is_eager = get_default_graph().is_eager
        if self._is_eager:
            self._prepare_at_once()
        elif not defer_build:
            self.build()

    # ---- its nodes

    def _prepare_at_once(self) -> None:
        if self._var_list is None:
            raise RuntimeError(
                "When eager execution is enabled, `var_list` must specify a list or dict of "
                "variables to save"
            )
        self._is_built, self._is_empty = True, not self._var_list
        if self.saver_def is None:
            self.saver_def = pb.SaverDef(
                max_to_keep=self._max_to_keep or 0,
                sharded=self._sharded,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                version=self._write_version,
            )
        self._wait_to_keep()

    def _writer(self) -> BaseSaverBuilder:
        builder: BaseSaverBuilder = self._builder or BulkSaverBuilder(self._write_version)
        return builder

    def build(self) -> None:
        """Add the nodes to the default graph, unless that is done.

        Raises: RuntimeError where there is no graph.
        """
        if self._is_eager:
            raise RuntimeError("Use save/restore instead of build in eager mode.")
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            if self._var_list is None:
                self._var_list = all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self.saver_def = self._writer().build(
                self._var_list,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                name=self._name,
                restore_sequentially=self._restore_sequentially,
                filename=self._filename,
            )
        elif self._name:
            # The scope that the saver's nodes were imported into.
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(
                    self.saver_def, field, with_scope(getattr(self.saver_def, field), self._name)
                )
        for field in ("save_tensor_name", "restore_op_name"):
            if not getattr(self.saver_def, field):
                raise ValueError(f"the saver_def lacks its {field}: {self.saver_def}")
        self._write_version = self.saver_def.version
        self._wait_to_keep()

    def _wait_to_keep(self) -> None:
        kept_s = self.saver_def.keep_checkpoint_every_n_hours * 3600
        self._next_checkpoint_time = clock.wall_s() + kept_s

    def as_saver_def(self) -> Any:
        """Return the message that names the saver's nodes."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the message that names the saver's nodes, None for nodes outside of the scope."""
        if export_scope is None or self.saver_def is None:
            return self.saver_def
        made = pb.SaverDef()
        made.CopyFrom(self.saver_def)
        for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            name = getattr(made, field)
            if not name.startswith(export_scope):
                return None
            setattr(made, field, without_scope(name, export_scope))
        return made

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """Return the saver that a message describes."""
        return Saver(saver_def=saver_def, name=import_scope)

    # ---- which checkpoints are kept

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are kept, oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Say which checkpoints there are, oldest first; they are never deleted."""
        self.set_last_checkpoints_with_time([(path, np.inf) for path in last_checkpoints])

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: list[tuple[str, float]]
    ) -> None:
        """Say which checkpoints there are, oldest first, and when they were written.

        Raises: AssertionError for anything but a list, as TensorFlow has it.
        """
        if not isinstance(last_checkpoints_with_time, list):
            raise AssertionError(f"a list is wanted, not {last_checkpoints_with_time!r}")
        self._last_checkpoints = last_checkpoints_with_time

    def recover_last_checkpoints(self, checkpoint_paths: Any) -> None:
        """Take over checkpoints of an earlier process; those that are gone are left out."""
        found = []
        for path in checkpoint_paths:
            try:
                times = checkpoint_state.get_checkpoint_mtimes([path])
            except errors.NotFoundError:
                continue  # somebody deletes it just now
            found += [(path, at) for at in times]
        self.set_last_checkpoints_with_time(found)

    def _record(self, path: str) -> None:
        if not self.saver_def.max_to_keep:
            return
        self._last_checkpoints = [item for item in self._last_checkpoints if item[0] != path]
        self._last_checkpoints.append((path, clock.wall_s()))
        if len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _delete_old(self, meta_graph_suffix: str) -> None:
        if not self._checkpoints_to_be_deleted:
            return
        path, written = self._checkpoints_to_be_deleted.pop(0)
        if written > self._next_checkpoint_time:
            self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
            return
        try:
            checkpoint_state.remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)
        except errors.OpError as error:
            logging.warning("the old checkpoint %s stays: %s", path, error)

    # ---- saving

    def save(
        self,
        sess: Session,
        save_path: str,
        global_step: TensorLike | None = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Save the variables.

        Args:
          sess: the session whose variables are saved; without a graph it means nothing.
          save_path: prefix of the files.
          global_step: a number, tensor or tensor's name; the files are then called
            `<save_path>-<step>`.
          latest_filename: of the state file, "checkpoint" by default.
          write_meta_graph: also write the graph, to `<prefix>.<meta_graph_suffix>`.
          write_state: name the checkpoint in the state file, and delete old ones.
        Returns: the prefix, to be given to restore; None for an empty saver.
        Raises: TypeError for what is no session; ValueError for names that collide or a directory
        that is not there; RuntimeError before build(); errors of the files, after which the
        checkpoints and the state file are as before.
        """
        if not self._is_built:
            raise RuntimeError("this saver has no nodes yet: call build() before save()")
        state_name = latest_filename or checkpoint_state.DEFAULT_FILENAME
        if os.path.split(state_name)[0]:
            raise ValueError(f"latest_filename {state_name!r} must be a name, not a path")
        prefix = os.fspath(save_path)
        if global_step is None:
            if os.path.basename(prefix) == state_name and not self._sharded:
                raise ValueError(
                    f"save_path {prefix!r} has the name of the state file; choose another one for "
                    "save_path or latest_filename"
                )
        else:
            step = global_step
            if not isinstance(step, (int, np.integer)):
                step = step_of(sess, step)
            prefix = f"{prefix}-{step:08d}" if self._pad_step_number else f"{prefix}-{step}"
        if not self._is_eager and not isinstance(sess, Session):
            raise TypeError(f"sess must be a Session, not {sess!r}")
        written = None if self._is_empty else self._write(sess, prefix)
        if written is not None and write_state:
            self._record(written)
            checkpoint_state.write_checkpoint_state(
                os.path.dirname(prefix),
                written,
                self.last_checkpoints,
                latest_filename,
                self._save_relative_paths,
            )
            self._delete_old(meta_graph_suffix)
        if write_meta_graph and not self._is_eager:
            path = checkpoint_state.meta_graph_filename(prefix, meta_graph_suffix)
            with sess.graph.as_default():
                self.export_meta_graph(path, strip_default_attrs=strip_default_attrs)
        return written

    def _write(self, sess: Session, prefix: str) -> str:
        try:
            if self._is_eager:
                return save_now(self._writer(), self._var_list, prefix)
            found = sess.run(
                self.saver_def.save_tensor_name, {self.saver_def.filename_tensor_name: prefix}
            )
        except (errors.FailedPreconditionError, errors.NotFoundError) as error:
            directory = os.path.dirname(prefix)
            if directory and not os.path.isdir(directory):
                raise ValueError(
                    f"Parent directory of {prefix} doesn't exist, can't save."
                ) from error
            raise
        except errors.OpError:
            if self.saver_def.sharded:
                remove_parts(prefix)
            raise
        return os.fsdecode(found)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Any = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> pb.MetaGraphDef:
        """Return the default graph with this saver as a meta graph, and write it to a file.

        Args: as tf.train.export_meta_graph's.
        """
        return export_meta_graph(
            filename=filename,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
        )

    # ---- restoring

    def restore(self, sess: Session, save_path: str) -> None:
        """Give the variables the values that they have in a checkpoint.

        They need not be initialized.  A checkpoint of objects (tf.train.Checkpoint) is restored by
        the names that its variables had.
        Raises: ValueError where there is no such checkpoint; NotFoundError for variables that it
        lacks, InvalidArgumentError for other shapes or types, both with all the differences;
        DataLossError for damaged files, and large ones may then be restored in part.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fspath(save_path)
        if not checkpoint_state.checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        logging.info("Restoring parameters from %s", prefix)
        if self._is_eager:
            restore_now(self._writer(), self._var_list, prefix, self._reshape)
            return
        differences = find_differences(restored_by(sess.graph, self.saver_def), prefix)
        if differences.missing:
            names = keys_of_names(prefix)
            if names is not None:
                self._restore_objects(sess, prefix, names)
                return
        problem = differences.error()
        if problem is not None:
            raise problem
        sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: prefix})

    def _restore_objects(self, sess: Session, prefix: str, names: dict[str, str]) -> None:
        logging.warning(
            "%s is a checkpoint of objects; it is restored by the names of variables, which is "
            "less certain than tf.train.Checkpoint",
            prefix,
        )
        if self._object_saver is None:
            with sess.graph.as_default():
                self._object_saver = saver_from_object_based_checkpoint(
                    prefix, self._var_list, self._builder, names
                )
        self._object_saver.restore(sess, prefix)


def _as_saver_def(given: Any) -> Any:
    """Return a saver_def of this library; another's is converted, a copy is made of ours."""
    if given is None:
        return None
    serialize = getattr(given, "SerializeToString", None)
    if serialize is None or type(given).__name__ != "SaverDef":
        raise ValueError(f"saver_def must be a SaverDef, not {given!r}")
    return pb.SaverDef.FromString(serialize())


def saver_from_object_based_checkpoint(
    checkpoint_path: str,
    var_list: Any = None,
    builder: Any = None,
    names_to_keys: dict[str, str] | None = None,
) -> Saver:
    """Return a saver that finds variables by name in a checkpoint of objects.

    Raises: ValueError for another kind of checkpoint; NotFoundError for variables that it lacks.
    """
    keys = keys_of_names(checkpoint_path) if names_to_keys is None else names_to_keys
    if keys is None:
        raise ValueError(f"Checkpoint in {checkpoint_path} not an object-based checkpoint.")
    wanted = all_saveable_objects() if var_list is None else var_list
    saveables = saveables_by_name(wanted if isinstance(wanted, dict) else by_name(wanted))
    names = {spec.name for saveable in saveables for spec in saveable.specs}
    missing = sorted(names - set(keys))
    if missing:
        raise errors.NotFoundError(
            f"the checkpoint of objects {checkpoint_path} lacks variables of the graph: "
            f"{', '.join(missing)}. It has others, which the graph lacks: "
            f"{', '.join(sorted(set(keys) - names)) or 'none'} ({len(names & set(keys))} names "
            "match)"
        )
    for saveable in saveables:
        for spec in saveable.specs:
            spec.name = keys[spec.name]
    return Saver(saveables, builder=builder, name="object_restore")


@export("train.export_meta_graph")
def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Any = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> pb.MetaGraphDef:
    """Return a graph with its collections as a meta graph; also write it, given a filename.

    Args: as `export_scoped_meta_graph` of `train.graphs`; save_debug_info is accepted, but lines of
    programs are not written.
    """
    made, _ = export_scoped_meta_graph(
        filename=filename,
        meta_info_def=meta_info_def,
        graph_def=graph_def,
        saver_def=saver_def,
        collection_list=collection_list,
        as_text=as_text,
        graph=graph,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        **kwargs,
    )
    return made


@export("train.import_meta_graph")
def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> Saver | None:
    """Add a meta graph to the default graph and return its saver.

    Without a saver of its own, one for all its variables; None where it has none.
    Args: as tideflow.train.graphs.meta_graph.import_scoped_meta_graph.
    """
    meta_pb = as_meta_graph_def(meta_graph_or_file)
    variables, _ = import_scoped_meta_graph(
        meta_pb, clear_devices=clear_devices, import_scope=import_scope, **kwargs
    )
    if not meta_pb.HasField("saver_def"):
        if all_saveable_objects(import_scope):
            return Saver()
        logging.info("the meta graph has no saver, and no variables to make one for")
        return None
    scope = import_scope or ""
    for key, variable in variables.items():
        # The scope under which the names were free.
        scope = variable.name[: -len(key)].rstrip("/")
        break
    return Saver(saver_def=meta_pb.saver_def, name=scope or None)


def get_saver_or_default() -> Saver:
    """Return the saver of the SAVERS collection, a new one for all variables if there is none.

    Raises: RuntimeError where there are several.
    """
    graph = get_default_graph()
    found = graph.get_collection(GraphKeys.SAVERS)
    if len(found) > 1:
        raise RuntimeError(
            f"there are {len(found)} savers in the collection {GraphKeys.SAVERS!r}; say which one "
            "to use"
        )
    if found:
        saver: Saver = found[0]
        return saver
    made = Saver(sharded=True, allow_empty=True)
    graph.add_to_collection(GraphKeys.SAVERS, made)
    return made


def _saver_to_proto(saver: Saver, export_scope: str | None = None) -> Any:
    return saver.to_proto(export_scope)


register_proto_function(GraphKeys.SAVERS, pb.SaverDef, _saver_to_proto, Saver.from_proto)
export_value("train.SaverDef", pb.SaverDef)
export_value("train.CheckpointState", pb.CheckpointState)
export_value("train.BaseSaverBuilder", BaseSaverBuilder)
