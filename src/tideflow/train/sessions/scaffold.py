"""Scaffold: the operations that a session needs to begin, found or made, in one place.

Source: tensorflow/python/training/monitored_session.py for names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow import logging
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.array import concat
from tideflow.ops.control_flow import group
from tideflow.ops.export import export
from tideflow.ops.io import merge_all
from tideflow.ops.state import (
    global_variables,
    global_variables_initializer,
    initialize_resources,
    local_resources,
    local_variables_initializer,
    report_uninitialized_resources,
    report_uninitialized_variables,
    shared_resources,
    tables_initializer,
)
from tideflow.train.checkpoints import Saver
from tideflow.train.sessions.session_manager import INITIALIZERS_KEY


@export("train.Scaffold")
class Scaffold:
    """What is needed to initialize, restore and save a model.

    What is left out is taken from the graph's collection for it, or made, by finalize.

    Args:
      init_op, init_feed_dict: give all global variables and shared resources their first value.
      init_fn: called as init_fn(scaffold, session) after init_op.
      ready_op: gives the names of what has no value yet, an empty vector when all is there.
      ready_for_local_init_op: the same for what local_init_op needs: globals.
      local_init_op, local_init_feed_dict: initialize what belongs to one process: local variables
        and tables.
      summary_op: all summaries merged.
      saver: a Saver.
      copy_from_scaffold: where arguments that are None are taken from.
    Raises: TypeError for a copy_from_scaffold that is no Scaffold.
    """

    def __init__(
        self,
        init_op: Operation | None = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Scaffold, Any], Any] | None = None,
        ready_op: Operation | Tensor | None = None,
        ready_for_local_init_op: Operation | Tensor | None = None,
        local_init_op: Operation | None = None,
        summary_op: Tensor | None = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        given = copy_from_scaffold
        if given is not None and not isinstance(given, Scaffold):
            raise TypeError("copy_from_scaffold is not a Scaffold instance.")

        def chosen(value: Any, name: str) -> Any:
            return getattr(given, name, None) if value is None else value

        self._user_init_fn = chosen(init_fn, "_user_init_fn")
        self._init_op = chosen(init_op, "init_op")
        self._init_feed_dict = chosen(init_feed_dict, "init_feed_dict")
        self._ready_op = chosen(ready_op, "ready_op")
        self._ready_for_local_init_op = chosen(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = chosen(local_init_op, "local_init_op")
        self._local_init_feed_dict = chosen(local_init_feed_dict, "local_init_feed_dict")
        self._summary_op = chosen(summary_op, "summary_op")
        self._saver = chosen(saver, "saver")

    def finalize(self) -> Scaffold:
        """Find or make what was left out, make the graph read-only, and return the scaffold.

        Raises: RuntimeError where a collection has several members of which one is wanted.
        """
        find = self.get_or_default
        if self._init_op is None:
            self._init_op = find("init_op", GraphKeys.INIT_OP, _default_init_op)
        if self._ready_op is None:
            self._ready_op = find("ready_op", GraphKeys.READY_OP, _default_ready_op)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = find(
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                _default_ready_for_local_init_op,
            )
        if self._local_init_op is None:
            self._local_init_op = find(
                "local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op
            )
        if self._summary_op is None:
            self._summary_op = find("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        if self._saver is None:
            self._saver = find("saver", GraphKeys.SAVERS, _default_saver)
        self._saver.build()
        get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Callable[[Any], Any] | None:
        """A function of a session that ends its initialization, or None."""
        if self._user_init_fn is None:
            return None
        return lambda session: self._user_init_fn(self, session)

    @property
    def init_op(self) -> Any:
        """Gives all global variables their first value."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """Fed to init_op."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """Gives the names of what has no value yet."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """Gives the names of what local_init_op needs and has no value yet."""
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        """Initializes what belongs to one process."""
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        """Fed to local_init_op."""
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        """All summaries merged, or None."""
        return self._summary_op

    @property
    def saver(self) -> Any:
        """Saves and restores the variables."""
        return self._saver

    @staticmethod
    def get_or_default(
        arg_name: str, collection_key: str, default_constructor: Callable[[], Any]
    ) -> Any:
        """Return the one member of a collection; made, and added to it, if there is none.

        Raises: RuntimeError for several members.
        """
        graph = get_default_graph()
        members = graph.get_collection(collection_key)
        if len(members) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which '
                "one to use by passing it to the tf.Scaffold constructor as:  "
                f"tf.Scaffold({arg_name}=item to use)"
            )
        if members:
            return members[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Operation:
        """Return an operation that initializes local variables, tables and local resources."""
        return group(
            local_variables_initializer(),
            tables_initializer(),
            initialize_resources(local_resources()),
        )


def _default_init_op() -> Operation:
    return group(
        global_variables_initializer(),
        initialize_resources(shared_resources()),
        get_default_graph().get_collection(INITIALIZERS_KEY),
    )


def _default_ready_op() -> Tensor:
    missing = [report_uninitialized_variables(), report_uninitialized_resources()]
    found: Tensor = concat(missing, 0)
    return found


def _default_ready_for_local_init_op() -> Tensor:
    missing = [
        report_uninitialized_variables(global_variables()),
        report_uninitialized_resources(shared_resources()),
    ]
    found: Tensor = concat(missing, 0)
    return found


def _default_saver() -> Saver:
    return Saver(sharded=True, allow_empty=True)
