"""The functions of a session's graph, as they travel: what each graph part needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tideflow.compile.made_functions import MadeFunction
from tideflow.graph.function_writer import function_of_nodes
from tideflow.graph.functions import FunctionDefinition, names_in, op_def_of_function
from tideflow.graph.op_def import OpDef
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.fields import Buffer
from tideflow.wire.graph_contents import GraphContents


class FunctionLibrary:
    """Functions by name.  It never changes; `extended` makes a larger one."""

    def __init__(
        self,
        functions: Mapping[str, pb.FunctionDef] | None = None,
        gradients: Mapping[str, str] | None = None,
        contents: GraphContents | None = None,
    ) -> None:
        self._functions = dict(functions or {})
        # To which constants of the functions refer.
        self.contents = contents or {}
        # By the name of the function whose gradient another one is.
        self._gradients = dict(gradients or {})
        self._op_defs: dict[str, OpDef] = {}

    def extended(
        self, library_pb: pb.FunctionDefLibrary, contents: GraphContents
    ) -> FunctionLibrary:
        """Return this library with more functions.

        contents: to which constants of the functions refer.
        Raises: InvalidArgumentError for one that is there already with another body.
        """
        if not library_pb.function:
            return self
        found = dict(self._functions)
        for function_pb in library_pb.function:
            name = function_pb.signature.name
            known = found.setdefault(name, function_pb)
            if known is not function_pb and known != function_pb:
                raise errors.InvalidArgumentError(
                    f"the graph has a function {name!r} already, with another body"
                )
        gradients = {g.function_name: g.gradient_func for g in library_pb.gradient}
        return FunctionLibrary(
            found, {**self._gradients, **gradients}, {**self.contents, **contents}
        )

    def with_made(self, made: Sequence[MadeFunction]) -> FunctionLibrary:
        """Return this library with functions that passes have made."""
        contents: dict[bytes, Buffer] = {}
        written = [function_of_nodes(one.name, one.nodes, contents) for one in made]
        return self.extended(pb.FunctionDefLibrary(function=written), contents)

    def find(self, name: str) -> FunctionDefinition | None:
        """Return a function, to be made nodes of."""
        function_pb = self._functions.get(name)
        if function_pb is None:
            return None
        return FunctionDefinition(function_pb, self.find_op, self.contents)

    def find_op(self, name: str) -> OpDef | None:
        """Return the definition under which a function is called as an op."""
        function_pb = self._functions.get(name)
        if function_pb is None:
            return None
        found = self._op_defs.get(name)
        if found is None:
            found = self._op_defs[name] = op_def_of_function(function_pb.signature)
        return found

    def copy_needed(self, graph_pb: pb.GraphDef) -> None:
        """Add to a graph the functions that its nodes name, and those that these name; their
        constants refer to the library's contents."""
        if not self._functions:
            return
        needed: dict[str, None] = {}
        names = list(names_in(graph_pb.node))
        while names:
            name = names.pop()
            if name in needed or name not in self._functions:
                continue
            needed[name] = None
            names.extend(names_in(self._functions[name].node_def))
            if name in self._gradients:
                names.append(self._gradients[name])
        graph_pb.library.function.extend(self._functions[name] for name in needed)
        for name in needed:
            if name in self._gradients:
                graph_pb.library.gradient.add(
                    function_name=name, gradient_func=self._gradients[name]
                )
