"""tf.train.Checkpoint: save and restore objects by the way they hold each other.

The files are written and read through `ObjectFiles`, here by operations of a graph; a front end
that has no sessions brings another one by overriding `Checkpoint._files`.

Source: tensorflow/python/checkpoint/checkpoint.py for names and behaviour.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tideflow.client.session import Session
from tideflow.graph.graph import get_default_graph, get_default_session
from tideflow.ops.export import export
from tideflow.ops.framework import Trackable, constant, no_op
from tideflow.ops.state import Variable
from tideflow.train.checkpoints import state as checkpoint_state
from tideflow.train.checkpoints.object_graph import (
    Match,
    full_name,
    match_objects,
    object_graph,
    object_nodes,
)
from tideflow.train.checkpoints.object_names import OBJECT_GRAPH_KEY, read_object_graph
from tideflow.train.checkpoints.reader import CheckpointReader
from tideflow.train.checkpoints.saveables import SaveableObject, SaveSpec, with_whole_objects
from tideflow.train.checkpoints.saver import Saver
from tideflow.wire import dtypes


class ObjectFiles(Protocol):
    """How variables get into files and back."""

    def write(self, prefix: str, named: dict[str, Any], graph: bytes) -> str:
        """Write variables under their keys, and the message of the objects."""

    def read(self, prefix: str, named: Sequence[tuple[str, Any]]) -> None:
        """Give variables the values that are under their keys."""

    def initialize(self, variables: Sequence[Any]) -> None:
        """Give variables their initial values."""

    def increment(self, counter: Any) -> int:
        """Add one to a variable and return its value."""


class _ObjectGraph(SaveableObject):
    """The message that tells of the objects; restoring does not need it."""

    def __init__(self, serialized: bytes) -> None:
        graph = get_default_graph()
        with graph.device("/device:CPU:0"):
            tensor = constant(np.array(serialized, object), dtypes.string)
        spec = SaveSpec(tensor, "", OBJECT_GRAPH_KEY, dtypes.string, "")
        super().__init__(tensor.op, [spec], OBJECT_GRAPH_KEY)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """Do nothing."""
        return no_op()


class GraphFiles:
    """Writes and reads by operations of a graph, which a session runs.

    savers: made so far, by what they save; one for each set of objects.
    """

    def __init__(self, session: Session, savers: dict[Any, Saver]) -> None:
        found = session if session is not None else get_default_session()
        if found is None:
            raise ValueError("there is no default session; give one as session=")
        self._session = found
        self._savers = savers

    def _saver(self, named: Sequence[tuple[str, Any]], graph: bytes | None) -> Saver:
        key = tuple((name, id(variable)) for name, variable in named), graph
        if key not in self._savers:
            with self._session.graph.as_default():
                variables = with_whole_objects(named)
                if graph is not None:
                    variables[OBJECT_GRAPH_KEY] = _ObjectGraph(graph)
                self._savers[key] = Saver(
                    variables, sharded=True, max_to_keep=0, name="save_objects"
                )
        return self._savers[key]

    def write(self, prefix: str, named: dict[str, Any], graph: bytes) -> str:
        saver = self._saver(sorted(named.items()), graph)
        path = saver.save(self._session, prefix, write_meta_graph=False, write_state=False)
        assert path is not None
        return path

    def read(self, prefix: str, named: Sequence[tuple[str, Any]]) -> None:
        by_variable = {id(variable): (key, variable) for key, variable in named}
        if by_variable:
            saver = self._saver(sorted(by_variable.values(), key=lambda item: item[0]), None)
            saver.restore(self._session, prefix)

    def initialize(self, variables: Sequence[Any]) -> None:
        self._session.run([variable.initializer for variable in variables])

    def increment(self, counter: Any) -> int:
        key = "increment", id(counter)
        if key not in self._savers:
            with self._session.graph.as_default():
                self._savers[key] = counter.assign_add(1, read_value=False)
        self._session.run(self._savers[key])
        return int(self._session.run(counter))


@export("train.Checkpoint")
class Checkpoint(Trackable):
    """Saves and restores objects: variables, optimizers, and dicts, lists and checkpoints of them.

    Example:
      checkpoint = tf.train.Checkpoint(model={"w": w}, optimizer=optimizer)
      path = checkpoint.save("/tmp/train/ckpt", session=session)
      checkpoint.restore(path).run_restore_ops(session)

    Args:
      kwargs: the objects; they become attributes, and more can be set.
    Raises: ValueError for what cannot be saved.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._savers: dict[Any, Any] = {}
        self._save_counter: Any = None
        for name, value in kwargs.items():
            setattr(self, name, value)

    def _checkpoint_children(self) -> dict[str, Any]:
        children = {n: v for n, v in self.__dict__.items() if not n.startswith("_")}
        if self._save_counter is not None:
            children["save_counter"] = self._save_counter
        return children

    def _files(self, session: Any) -> ObjectFiles:
        return GraphFiles(session, self._savers)

    def _make_counter(self) -> bool:
        """Make the counter of saves, unless it is there; tell whether it was made."""
        if self._save_counter is not None:
            return False
        graph = get_default_graph()
        with graph.device("/cpu:0"):
            self._save_counter = Variable(
                0, name="save_counter", dtype=dtypes.int64, trainable=False
            )
        return True

    @property
    def save_counter(self) -> Any:
        """The variable that numbers the checkpoints."""
        self._make_counter()
        return self._save_counter

    def write(self, file_prefix: Any, session: Session | None = None) -> str:
        """Write the objects under a name of just that prefix; returns it."""
        nodes = object_nodes(self)
        named = {node.key: node.thing for node in nodes if node.key is not None}
        serialized = object_graph(nodes).SerializeToString(deterministic=True)
        return self._files(session).write(os.fspath(file_prefix), named, serialized)

    def save(self, file_prefix: Any, session: Session | None = None) -> str:
        """Write the objects as `<file_prefix>-<number>`, and name that in the state file."""
        prefix = os.fspath(file_prefix)
        number = self._next_number(session)
        path = self.write(f"{prefix}-{number}", session)
        checkpoint_state.write_checkpoint_state(
            os.path.dirname(prefix), path, [path], save_relative_paths=True
        )
        return path

    def _next_number(self, session: Any) -> int:
        files = self._files(session)
        if self._make_counter():
            files.initialize([self._save_counter])
        return files.increment(self._save_counter)

    def read(self, save_path: str) -> RestoreStatus:
        """Prepare restoring what write() wrote; see restore."""
        return RestoreStatus(self, os.fspath(save_path))

    def restore(self, save_path: str) -> RestoreStatus:
        """Prepare restoring; the status that is returned does it, and can check it.

        save_path: None restores nothing: initialize_or_restore then initializes.
        Raises: NotFoundError where there is no such checkpoint; DataLossError for a damaged one.
        """
        self._make_counter()
        return RestoreStatus(self, None if save_path is None else os.fspath(save_path))


class RestoreStatus:
    """What a checkpoint holds for objects: checks it, and restores."""

    def __init__(self, checkpoint: Checkpoint, prefix: str | None) -> None:
        self._checkpoint = checkpoint
        self._prefix = prefix
        self._graph_pb = None if prefix is None else read_object_graph(prefix)

    def _match(self) -> Match:
        nodes = object_nodes(self._checkpoint)
        if self._graph_pb is not None:
            return match_objects(nodes, self._graph_pb)
        found = Match()
        if self._prefix is None:
            return found
        # Saved by names, with a Saver.
        reader = CheckpointReader(self._prefix)
        for node in nodes:
            if node.key is None:
                continue
            name = full_name(node.thing)
            if reader.has_tensor(name):
                found.keys.append((name, node.thing))
            else:
                found.unmatched.append(node.key)
        taken = {key for key, _ in found.keys}
        found.unused = [n for n in reader.get_variable_to_shape_map() if n not in taken]
        return found

    def assert_consumed(self) -> RestoreStatus:
        """Raise AssertionError unless every object and every value has its counterpart."""
        self.assert_existing_objects_matched()
        unused = self._match().unused
        if unused:
            raise AssertionError(f"{self._prefix} has values that no object takes: {unused}")
        return self

    def assert_existing_objects_matched(self) -> RestoreStatus:
        """Raise AssertionError unless the checkpoint has a value for every variable."""
        unmatched = [key for key in self._match().unmatched if not key.startswith("save_counter/")]
        if self._prefix is None or unmatched:
            raise AssertionError(f"{self._prefix} lacks values of these objects: {unmatched}")
        return self

    def assert_nontrivial_match(self) -> RestoreStatus:
        """Raise AssertionError if nothing but the root fits."""
        if not self._match().keys:
            raise AssertionError(f"nothing in {self._prefix} fits these objects")
        return self

    def expect_partial(self) -> RestoreStatus:
        """Accept that some values are not used."""
        return self

    def run_restore_ops(self, session: Session | None = None) -> None:
        """Give the objects their values.  Raises: AssertionError where no checkpoint was given."""
        if self._prefix is None:
            raise AssertionError("no checkpoint was given; use initialize_or_restore")
        self._checkpoint._files(session).read(self._prefix, self._match().keys)

    def initialize_or_restore(self, session: Session | None = None) -> None:
        """Give the objects their values, and initialize those that the checkpoint lacks."""
        found = self._match()
        restored = {id(variable) for _, variable in found.keys}
        nodes = object_nodes(self._checkpoint)
        valued = [n.thing for n in nodes if n.key is not None and n.part_of is None]
        others = [thing for thing in valued if id(thing) not in restored]
        files = self._checkpoint._files(session)
        if others:
            files.initialize(others)
        if self._prefix is not None:
            files.read(self._prefix, found.keys)
