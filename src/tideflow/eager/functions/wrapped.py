"""Functions of TensorFlow 1 as functions that are called: `wrap_function`, and parts of them.

Source: tensorflow/python/eager/wrap_function.py for names and rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.eager.functions import Function
from tideflow.graph import importer
from tideflow.graph.functions import library_lookup
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.state import variable_creator_scope
from tideflow.ops.state.scopes import variable_store
from tideflow.ops.state.store import VariableStore


class _Variables:
    """The variables that a function makes, which are the same in each trace of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.made: list[Any] = []
        self._function = function
        self._used = 0

    def traced(self) -> Callable[..., Any]:
        """Return the function, with its own variables."""

        @functools.wraps(self._function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._used = 0
            with variable_store(VariableStore()), variable_creator_scope(self._create):
                return self._function(*args, **kwargs)

        return call

    def _create(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if self._used == len(self.made):
            self.made.append(next_creator(**kwargs))
        self._used += 1
        return self.made[self._used - 1]


class WrappedFunction:
    """A traced function, and what is in its graph.

    Attributes:
      graph: what was traced.
    """

    def __init__(self, concrete: Any, variables: Sequence[Any]) -> None:
        self._concrete = concrete
        self._variables = list(variables)
        self.graph = concrete.graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives for tensors."""
        return self._concrete(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # What is known of any traced function: inputs, outputs, structured_outputs and so on.
        return getattr(self._concrete, name)

    @property
    def variables(self) -> list[Any]:
        """The variables that the function made."""
        return list(self._variables)

    @property
    def trainable_variables(self) -> list[Any]:
        """Those of them that are trained."""
        return [variable for variable in self._variables if variable.trainable]

    def prune(
        self,
        feeds: Any,
        fetches: Any,
        name: str | None = None,
        input_signature: Any = None,
        are_keyword_args_also_positional: bool = False,
    ) -> WrappedFunction:
        """Return a function of some tensors of the graph that gives others.

        Args:
          feeds: a tensor of the graph or a structure of such, which the function takes in order.
          fetches: tensors and operations of the graph, or their names, or a structure of such; for
            an operation, which runs, there is None.
          input_signature: accepted; the types are those of the feeds.
        Raises: ValueError for what is not of the graph.
        """
        given = [self._element(one) for one in nest.flatten(feeds, expand_composites=True)]
        wanted = [self._element(one) for one in nest.flatten(fetches, expand_composites=True)]
        specs = [TensorSpec(one.shape, one.dtype, name=one.op.name) for one in given]

        def pruned(*args: Any) -> Any:
            known = {feed.name: value for feed, value in zip(given, args)}
            found = self._imported(known, wanted)
            tensors = [one if isinstance(one, Tensor) else None for one in found]
            return nest.pack_sequence_as(fetches, tensors, expand_composites=True)

        traced = Function(pruned, name or "pruned", specs, autograph=False)
        return WrappedFunction(traced.get_concrete_function(), self._variables)

    def _element(self, given: Any) -> Any:
        return self.graph.as_graph_element(given)

    def _imported(self, known: dict[str, Any], wanted: Sequence[Any]) -> list[Any]:
        """Make what is needed for tensors and operations, given some tensors by name."""
        graph = get_default_graph()
        for outer, inner in self.graph.captures:
            known.setdefault(inner.name, graph.capture(outer))
        needed = self._needed(known, wanted)
        graph_pb = self.graph.as_graph_def()
        for i in reversed(range(len(graph_pb.node))):
            if graph_pb.node[i].name not in needed:
                del graph_pb.node[i]
        names = [one.name for one in wanted if one.name not in known]
        lookup = library_lookup(graph.functions)
        made = importer.import_graph_def(
            graph_pb,
            {key: value for key, value in known.items() if _is_used(key, needed, self.graph)},
            names,
            name="",
            lookup=lookup,
        )
        found = {**known, **dict(zip(names, made or ()))}
        return [found[one.name] for one in wanted]

    def _needed(self, known: dict[str, Any], wanted: Sequence[Any]) -> set[str]:
        """Return the names of the operations that lead to what is wanted."""
        found: set[str] = set()
        waiting = [one for one in wanted if one.name not in known]
        while waiting:
            one = waiting.pop()
            op = one if isinstance(one, Operation) else one.op
            if op.name in found:
                continue
            found.add(op.name)
            waiting.extend(tensor for tensor in op.inputs if tensor.name not in known)
            waiting.extend(op.control_inputs)
        return found


def _is_used(tensor: str, needed: set[str], graph: Any) -> bool:
    """Whether one of some operations takes a tensor."""
    consumers = graph.as_graph_element(tensor).consumers()
    return any(op.name in needed for op in consumers)


@export("wrap_function")
def wrap_function(
    fn: Callable[..., Any], signature: Sequence[Any], name: str | None = None
) -> WrappedFunction:
    """Return a function of TensorFlow 1 as one that is traced here and called later.

    Its variables are made once, whether by get_variable or not.

    Args:
      fn: a function of tensors.
      signature: a TensorSpec for each argument.
      name: of the graph.
    """
    variables = _Variables(fn)
    traced = Function(
        variables.traced(), name or getattr(fn, "__name__", "wrapped").strip("<>"), signature,
        autograph=False,
    )  # fmt: skip
    concrete = traced.get_concrete_function()
    return WrappedFunction(concrete, variables.made)
