"""`tf.function`: Python functions traced into graphs, once for each kind of arguments.

A call finds the trace by the structure of the arguments, the element types and shapes of tensors,
and the values of everything else; what was not seen before is traced.

Source: tensorflow/python/eager/polymorphic_function/polymorphic_function.py.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tideflow import logging
from tideflow.eager.autograph import convert as autograph
from tideflow.eager.functions.arguments import Arguments, Layout, covering, relaxed
from tideflow.eager.functions.concrete_function import ConcreteFunction
from tideflow.eager.functions.func_graph import FunctionGraph
from tideflow.eager.functions.function_type import FunctionType, function_type
from tideflow.eager.functions.lifting import lifted_variables
from tideflow.eager.tracking import function_kinds
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.defaults import local
from tideflow.graph.graph import Operation, get_default_graph
from tideflow.ops.framework import Trackable, nest
from tideflow.ops.state import outermost_graph, variable_creator_scope

_uids = itertools.count()
# As many of the last calls that traced anew bring a warning.
_WINDOW, _MOST_TRACES = 6, 5


class _Modes:
    """What holds for all functions of the process.

    Attributes:
      runs_eagerly: whether functions are called as plain Python (see run_functions_eagerly).
      strategy: tells apart the distribution strategies in whose scope functions are traced.
    """

    def __init__(self) -> None:
        self.runs_eagerly = False
        self.strategy: Callable[[], Any] = lambda: None


_modes = _Modes()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Call functions as plain Python, operation by operation, to debug them."""
    _modes.runs_eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether run_functions_eagerly is in force."""
    return _modes.runs_eagerly


def distinguish_traces(by: Callable[[], Any]) -> None:
    """Let traces differ by what `by` returns when they are made and called (a strategy's scope)."""
    _modes.strategy = by


class Function(Trackable):
    """A Python function that is traced when it is called (see tf.function)."""

    def __init__(
        self,
        python_function: Callable[..., Any],
        name: str,
        input_signature: Sequence[Any] | None = None,
        autograph: bool = True,
        reduce_retracing: bool = False,
    ) -> None:
        self._python_function = python_function
        self._name = name
        self._layout = Layout(python_function, input_signature)
        self._autograph = autograph
        self._relaxes = reduce_retracing
        self._traces: dict[Any, ConcreteFunction] = {}
        self._specs: list[Arguments] = []
        self._lock = threading.RLock()
        self._open: set[Any] = set()  # keys of the traces in progress
        self._has_variables = False
        self._recent: deque[bool] = deque(maxlen=_WINDOW)
        self._of_instances: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()
        functools.update_wrapper(self, python_function)

    def _decorate(self, decorator: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put another function in the place of the one that is traced.

        Args:
          decorator: takes the Python function and returns what is to be traced, with the same
            arguments.
        Raises: ValueError where the function was traced before.
        """
        if self._traces:
            raise ValueError("Functions cannot be decorated after they have been traced.")
        self._python_function = decorator(self._python_function)

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _modes.runs_eagerly:
            return self._python_function(*args, **kwargs)
        arguments = self._layout.bind(args, kwargs)
        found = self._traces.get(self._key(arguments))
        if found is None:
            found = self._trace_for(arguments)
        elif self._recent:
            self._recent.append(False)
        return found.call_flat(arguments.tensors)

    def _key(self, arguments: Arguments) -> Any:
        graph = outermost_graph()
        where = None if graph.is_eager else id(graph)
        return (arguments.key, where, _modes.strategy())

    def _trace_for(self, arguments: Arguments) -> ConcreteFunction:
        with self._lock:
            asked = self._key(arguments)
            traced = [one for one in self._specs if self._key(one) in self._traces]
            if known := covering(arguments, traced):
                arguments = known
            elif self._relaxes and self._specs:
                arguments = relaxed(arguments, self._specs)
            key = self._key(arguments)
            found = self._traces.get(key)
            if found is None:
                if key in self._open:
                    raise RecursionError(
                        f"tf.function {self._name!r} calls itself with arguments of the same "
                        "types and shapes, so that its trace would have no end; write a "
                        "tf.while_loop, or recur over Python numbers"
                    )
                self._open.add(key)
                try:
                    found = self._traces[key] = self._trace(arguments)
                finally:
                    self._open.discard(key)
                self._specs.append(arguments)
                self._warn_of_traces()
            self._traces[asked] = found
            return found

    def _warn_of_traces(self) -> None:
        self._recent.append(True)
        if sum(self._recent) >= _MOST_TRACES:
            logging.warning(
                f"{sum(self._recent)} of the last {len(self._recent)} calls of {self._name!r} "
                "traced it anew, which is slow. Make the tf.function outside of loops, pass "
                "tensors in place of Python numbers that change, or give an input_signature or "
                "reduce_retracing=True for shapes that change."
            )

    # ---- tracing

    def _trace(self, arguments: Arguments) -> ConcreteFunction:
        """Trace once; a second time without variables, if the first trace made some.

        Raises: ValueError for a function that makes variables in later calls.
        """
        made: list[Any] = []
        concrete = self._trace_once(arguments, made)
        if made:
            again: list[Any] = []
            if not self._has_variables:
                concrete = self._trace_once(arguments, again)
            if self._has_variables or again:
                raise ValueError(
                    f"tf.function {self._name!r} made variable {(again or made)[0].name!r} in a "
                    "later call: tf.function only supports singleton tf.Variables created on the "
                    "first call. Make variables outside, or once: `if self.v is None: ...`"
                )
        self._has_variables = True
        return concrete

    def _trace_once(self, arguments: Arguments, made: list[Any]) -> ConcreteFunction:
        graph = FunctionGraph(f"__inference_{self._name}_{next(_uids)}", get_default_graph())
        wrap = autograph.convert if self._autograph else autograph.do_not_convert
        method = getattr(self._python_function, "as_method", None)
        function = wrap(self._python_function if method is None else method())
        tapes, local.tapes = local.tapes, ()
        try:
            with (
                graph.as_default(),
                variable_creator_scope(lifted_variables(graph, made, arguments.tensors)),
            ):
                args, kwargs = arguments.placeholders(graph, self._layout.python)
                result = function(*args, **kwargs)
                outputs = nest.map_structure(
                    lambda leaf: self._as_output(graph, leaf), result, expand_composites=True
                )
                made_by = nest.flatten(outputs, expand_composites=True)
                flat = [_named(graph, tensor) for tensor in made_by]
                outputs = nest.pack_sequence_as(outputs, flat, expand_composites=True)
        finally:
            local.tapes = tapes
        return ConcreteFunction(graph, outputs, flat, made_by, arguments, self._layout)

    def _as_output(self, graph: FunctionGraph, leaf: Any) -> Any:
        if leaf is None or isinstance(leaf, Operation):
            return None
        try:
            tensor = convert_to_tensor(leaf)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"tf.function {self._name!r} returned {leaf!r:.80}, which is no tensor: {error}"
            ) from None
        return tensor if tensor.graph is graph else graph.capture(tensor)

    # ---- what it has been traced for

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the trace for arguments: tensors, values or TensorSpecs."""
        arguments = self._layout.bind(args, kwargs, allow_specs=True)
        found = self._traces.get(self._key(arguments))
        return self._trace_for(arguments) if found is None else found

    def traces_to_save(self) -> list[ConcreteFunction]:
        """Return the traces in the order of their making; that of the signature is made first."""
        if self.input_signature is not None:
            self.get_concrete_function()
        return list({id(trace): trace for trace in self._traces.values()}.values())

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        if save_type == "checkpoint":
            return {}
        return {f"trace_{place}": one for place, one in enumerate(self.traces_to_save())}

    # Keras asks by this name what has been traced.
    _list_all_concrete_functions = traces_to_save

    def experimental_get_tracing_count(self) -> int:
        """Return how many traces there are; several kinds of arguments may share one."""
        return len({id(trace) for trace in self._traces.values()})

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """Return text of what each trace takes and gives."""
        traces = {id(trace): trace for trace in self._traces.values()}
        return "\n\n".join(one.pretty_printed_signature(verbose) for one in traces.values())

    @property
    def python_function(self) -> Callable[..., Any]:
        """The function that is traced."""
        return self._python_function

    @property
    def input_signature(self) -> Any:
        """The specs that arguments are cast to, or None."""
        return self._layout.signature

    @property
    def function_type(self) -> FunctionType:
        """The parameters of the function."""
        return function_type(self._layout.python)

    @property
    def name(self) -> str:
        """The function's name."""
        return self._name

    def around(self, python_function: Callable[..., Any]) -> Function:
        """Return a function of another Python function that takes any arguments, traced alike."""
        return Function(python_function, self._name, None, self._autograph, self._relaxes)

    # ---- as a method

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        found = self._of_instances.get(instance)
        if found is None:
            found = Function(
                _bound(self._python_function, instance),
                self._name,
                self._layout.signature,
                self._autograph,
                self._relaxes,
            )
            self._of_instances[instance] = found
        return found

    def __repr__(self) -> str:
        return f"<tf.function {self._name!r}, traced {len(self._traces)} times>"


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Return a function that is traced into a graph for each kind of arguments; a decorator, too.

    Args:
      input_signature: TensorSpecs to which the arguments of all calls are cast: one trace.
      autograph: turn Python control flow on tensors into graph control flow.
      jit_compile: accepted; what is hot is compiled in any case (see docs/jit.md).
      reduce_retracing: trace with open sizes when only sizes differ from an earlier trace.
      experimental_...: accepted for programs that give them.
    """

    def decorate(inner: Callable[..., Any]) -> Function:
        name = getattr(inner, "__name__", None) or type(inner).__name__
        relaxes = bool(reduce_retracing or experimental_relax_shapes)
        return Function(inner, name.strip("<>"), input_signature, autograph, relaxes)

    return decorate if func is None else decorate(func)


def _named(graph: FunctionGraph, result: Any) -> Any:
    """Return a result under a name of its own, which tells it from an argument."""
    if result is None:
        return None
    attrs = {"T": result.dtype.base_dtype}
    with graph.name_scope(None), graph.control_dependencies(None):
        return graph.create_op("Identity", [result], attrs).outputs[0]


def _bound(function: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    """Return a method that does not keep its instance alive."""
    owner = weakref.ref(instance)
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(owner(), *args, **kwargs)

    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p for name, p in signature.parameters.items() if name != first]
    )
    method.as_method = lambda: types.MethodType(function, owner())  # type: ignore[attr-defined]
    return method


function_kinds += [Function, ConcreteFunction]
