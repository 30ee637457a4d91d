"""AutoGraph: Python control flow on tensors becomes control flow of the graph.

The library `diastatic-malt` rewrites the source of a function so that each `if`, `while`, `for`,
`and`, call and so on asks one of our operators, under the name `ag__`.  An operator decides by what
it is given: Python values are treated as Python does, tensors of a graph make If and While ops.
Functions that a converted function calls are converted as they are called, except those of
libraries.

Source: tensorflow/python/autograph/impl/api.py for rules.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from tideflow import logging
from tideflow.eager.autograph import (
    branches as autograph_branches,
)
from tideflow.eager.autograph import (
    builtins as autograph_builtins,
)
from tideflow.eager.autograph import (
    loops as autograph_loops,
)
from tideflow.eager.autograph import (
    scope as autograph_scope,
)
from tideflow.eager.autograph.malt_library import (
    Feature,
    InaccessibleSourceCodeError,
    Rewriter,
    converting,
    eval_in_caller,
    globals_of_caller,
    is_converting_off,
    is_unsupported,
    isbuiltin,
    locals_of_caller,
    not_converting,
    set_loop_options,
    super_of_caller,
)
from tideflow.graph.graph import get_default_graph
from tideflow.graph.operation import line_origins
from tideflow.ops.control_flow import tracing
from tideflow.ops.export import export_v2, export_value_v2

# Their functions know what to do with tensors, or never meet one.
_LIBRARIES = frozenset(
    {
        "tideflow", "malt", "numpy", "scipy", "pandas", "jax", "jaxlib", "ml_dtypes", "sklearn",
        "matplotlib", "PIL", "absl", "google", "grpc", "tqdm", "pytest", "_pytest", "IPython",
        "torch", "tensorflow", "keras",
    }
)  # fmt: skip


def _in_scope(thunk: Callable[[Any], Any], scope_name: str, options: Any) -> Any:
    """Run the body of a lambda."""
    with autograph_scope.FunctionScope("lambda", scope_name, options) as scope:
        return thunk(scope)


_OPERATORS = {
    **{
        name: getattr(autograph_branches, name)
        for name in ("if_stmt", "if_exp", "and_", "or_", "not_")
    },
    **{name: getattr(autograph_loops, name) for name in ("while_stmt", "for_stmt")},
    "FunctionScope": autograph_scope.FunctionScope,
    "with_function_scope": _in_scope,
}

_lock = threading.RLock()
# Code that runs as it is.
_unconvertible: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def _converted(function: types.FunctionType) -> Callable[..., Any]:
    """Return a function's conversion.  Raises: what the library raises where there is none."""
    with _lock:
        made, source_map = _rewriter.rewrite(function)
        _note_lines(source_map)
    made.ag_source_map = source_map  # type: ignore[attr-defined]
    return made


def _note_lines(source_map: dict[Any, Any]) -> None:
    """Let operations be attributed to the lines that the user wrote."""
    for made, origin in source_map.items():
        key = (made.filename, made.lineno)
        line_origins[key] = (origin.loc.filename, origin.loc.lineno)


# ---- calls


def converted_call(
    f: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    caller_fn_scope: Any = None,
    options: Any = None,
) -> Any:
    """Call something that converted code calls: converted, too, where it is the user's."""
    kwargs = kwargs or {}
    if isinstance(f, functools.partial):
        merged = {**f.keywords, **kwargs}
        return converted_call(f.func, (*f.args, *args), merged, caller_fn_scope)
    if isbuiltin(f):
        return _call_builtin(f, args, kwargs, caller_fn_scope)
    if is_converting_off() or not _is_users(f):
        return f(*args, **kwargs)
    return _call_users(f, args, kwargs)


def _call_builtin(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], scope: Any) -> Any:
    if f is eval:
        return eval_in_caller(f, args, scope)
    if f is super:
        return super_of_caller(f, args, scope)
    if f is globals:
        return globals_of_caller(scope)
    if f is locals:
        return locals_of_caller(scope)
    return autograph_builtins.call(f, args, kwargs)


def _is_users(f: Any) -> bool:
    """Whether something is a function of the user's, to be converted."""
    if hasattr(f, "autograph_info__") or inspect.isclass(f):
        return False
    if not (inspect.isfunction(f) or inspect.ismethod(f)):
        # An object that can be called, such as a layer.
        return _is_users_module(type(f).__module__) and inspect.isfunction(_call_method(f))
    function = f.__func__ if inspect.ismethod(f) else f
    if not inspect.isfunction(function) or function.__code__ in _unconvertible:
        return False
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    # A wrapper bears the name of the module of what it wraps.
    return _is_users_module(function.__globals__.get("__name__"))


def _call_method(f: Any) -> Any:
    return inspect.getattr_static(type(f), "__call__", None)


def _is_users_module(module: str | None) -> bool:
    top = (module or "").partition(".")[0]
    return top not in _LIBRARIES and (top not in sys.stdlib_module_names or module == "__main__")


def _call_users(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function: Any
    if inspect.ismethod(f):
        function, args = f.__func__, (f.__self__, *args)
    elif inspect.isfunction(f):
        function = f
    else:
        function, args = _call_method(f), (f, *args)
    if is_unsupported(f):
        return function(*args, **kwargs)
    try:
        made = _converted(function)
    except Exception as error:
        _fall_back(function, error)
        return function(*args, **kwargs)
    try:
        return made(*args, **kwargs)
    except Exception as error:
        _add_line(error, made)
        raise


def _fall_back(function: types.FunctionType, error: Exception) -> None:
    """Say once that a function runs as it is."""
    if function.__code__ in _unconvertible:
        return
    _unconvertible.add(function.__code__)
    file, line = function.__code__.co_filename, function.__code__.co_firstlineno
    if isinstance(error, InaccessibleSourceCodeError):
        why = "its source cannot be read"
    else:
        why = f"{type(error).__name__}: {str(error).strip()}"
    logging.warning(
        f"AutoGraph runs {function.__qualname__!r} ({file}:{line}) as it is: {why}. Python `if`, "
        "`while` and `for` on tensors fail in it; write tf.cond, tf.while_loop or tf.map_fn, or "
        "put it into a file. @tf.autograph.experimental.do_not_convert silences this."
    )


_NOTE = "in user code:"


def _add_line(error: Exception, made: Any) -> None:
    """Note on an error which lines of the user's it passed, instead of those of made code."""
    source_map = made.ag_source_map
    traceback = error.__traceback__
    found: tuple[str, int] | None = None
    name = ""
    files = {location.filename for location in source_map}
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in files:
            found = line_origins.get((code.co_filename, traceback.tb_lineno), found)
            name = made.__name__.removeprefix("ag__").removeprefix("tf__")
        traceback = traceback.tb_next
    if found is None:
        return
    file, line = found
    text = linecache.getline(file, line).strip()
    note = f'  File "{file}", line {line}, in {name}\n    {text}'
    notes = getattr(error, "__notes__", None)
    if notes and notes[-1].startswith(_NOTE):
        notes[-1] = notes[-1].replace(_NOTE, f"{_NOTE}\n{note}", 1)
    else:
        error.add_note(f"{_NOTE}\n{note}")


def _for_elements(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a function that is handed to a library function, such as Dataset.map."""
    if is_converting_off():
        return function
    return convert(function) if get_default_graph().body_class is not None else function


tracing.convert = _for_elements


_rewriter = Rewriter({**_OPERATORS, "converted_call": converted_call})


# ---- the door


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs with Python control flow on tensors converted."""
    if getattr(function, "autograph_info__", None) is not None:
        return function

    @functools.wraps(function)
    def converted(*args: Any, **kwargs: Any) -> Any:
        with converting():
            return converted_call(function, args, kwargs)

    converted.autograph_info__ = {}  # type: ignore[attr-defined]
    return converted


@export_v2("autograph.experimental.do_not_convert")
def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Return a function that runs as it is written, also inside of converted ones; a decorator."""
    if func is None:
        return do_not_convert

    @functools.wraps(func)
    def unconverted(*args: Any, **kwargs: Any) -> Any:
        with not_converting():
            return func(*args, **kwargs)

    unconverted.autograph_info__ = {}  # type: ignore[attr-defined]
    return unconverted


@export_v2("autograph.to_graph")
def to_graph(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> Callable[..., Any]:
    """Return the conversion of a function, which builds control flow where it is called.

    Raises: ValueError for what cannot be converted.
    """
    function = inspect.unwrap(entity) if not inspect.isfunction(entity) else entity
    if not inspect.isfunction(function):
        raise ValueError(f"{entity!r} is no Python function; give the function itself")
    try:
        made = _converted(function)
    except Exception as error:
        raise ValueError(f"{entity!r} cannot be converted: {error}") from error
    made.autograph_info__ = {}  # type: ignore[attr-defined]
    return made


@export_v2("autograph.to_code")
def to_code(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> str:
    """Return the source of a function's conversion.  Raises: as to_graph."""
    return inspect.getsource(to_graph(entity, recursive))


@export_v2("autograph.set_verbosity")
def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Accept how much to tell about conversions; warnings are always told."""


@export_v2("autograph.trace")
def trace(*args: Any) -> None:
    """Print when the function is traced."""
    print(*args)


export_value_v2("autograph.experimental.Feature", Feature)
export_value_v2("autograph.experimental.set_loop_options", set_loop_options)
