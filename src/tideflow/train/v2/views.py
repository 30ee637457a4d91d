"""What objects hold each other in a program, and in a checkpoint.

Source: tensorflow/python/checkpoint/trackable_view.py, checkpoint_view.py.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from typing import Any

from tideflow.ops.export import export_v2
from tideflow.ops.framework import Trackable
from tideflow.train.checkpoints import children_of, is_tracked, read_object_graph


@export_v2("train.TrackableView")
class TrackableView:
    """Show the objects that an object holds, and all that these hold.

    Args:
      root: the object, or a weak reference to it.
    Example:
      >>> view = tf.train.TrackableView(tf.train.Checkpoint(weight=tf.Variable(1.0)))
      >>> sorted(view.children(view.root)), len(view.descendants())
      (['weight'], 2)
    """

    def __init__(self, root: Any) -> None:
        self._root = root

    @classmethod
    def children(cls, obj: Any, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Return what an object holds itself, by name."""
        if isinstance(obj, Trackable) and save_type != "checkpoint":
            return obj._trackable_children(save_type, **kwargs)
        return {name: child for name, child in children_of(obj) if is_tracked(child)}

    @property
    def root(self) -> Any:
        """The object."""
        return self._root() if isinstance(self._root, weakref.ref) else self._root

    def descendants(self) -> list[Any]:
        """Return the object and all that it leads to, the near ones first."""
        found, waiting, seen = [self.root], deque([self.root]), {id(self.root)}
        while waiting:
            for child in self.children(waiting.popleft()).values():
                if id(child) not in seen:
                    seen.add(id(child))
                    found.append(child)
                    waiting.append(child)
        return found


@export_v2("train.CheckpointView")
class CheckpointView:
    """Show the objects of a checkpoint, which are known by numbers; the root's is 0.

    Args:
      save_path: the checkpoint's prefix.
    Raises: ValueError for a checkpoint that holds no objects.
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = tf.train.Checkpoint(weight=tf.Variable(1.0)).write(os.path.join(folder, "a"))
      ...     view = tf.train.CheckpointView(path)
      >>> view.children(0), view.descendants()
      ({'weight': 1}, [0, 1])
    """

    def __init__(self, save_path: Any) -> None:
        found = read_object_graph(os.fspath(save_path))
        if found is None:
            raise ValueError(
                f"the checkpoint {save_path!r} has no graph of objects; tf.train.Checkpoint writes "
                "one, and savers of names do not"
            )
        self._graph_pb = found

    def children(self, node_id: int) -> dict[str, int]:
        """Return the numbers of what an object holds itself, by name."""
        return {one.local_name: one.node_id for one in self._graph_pb.nodes[node_id].children}

    def descendants(self) -> list[int]:
        """Return the numbers of the root and all that it leads to, the near ones first."""
        found, waiting = [0], deque([0])
        while waiting:
            for number in self.children(waiting.popleft()).values():
                if number not in found:
                    found.append(number)
                    waiting.append(number)
        return found

    def match(self, obj: Any) -> dict[int, Any]:
        """Return the objects of a program that have a counterpart here, by its number.

        Args:
          obj: what stands for the root.
        """
        found, waiting, taken = {0: obj}, deque([0]), {id(obj)}
        while waiting:
            number = waiting.popleft()
            here = TrackableView.children(found[number])
            for name, child in self.children(number).items():
                if name in here and child not in found and id(here[name]) not in taken:
                    found[child] = here[name]
                    taken.add(id(here[name]))
                    waiting.append(child)
        return found

    def diff(self, obj: Any) -> tuple[dict[int, Any], list[int], list[Any]]:
        """Return what both have, the numbers of what only the checkpoint has, and other objects.

        Args:
          obj: what stands for the root.
        """
        both = self.match(obj)
        matched = {id(one) for one in both.values()}
        only_here = [number for number in self.descendants() if number not in both]
        others = [one for one in TrackableView(obj).descendants() if id(one) not in matched]
        return both, only_here, others
