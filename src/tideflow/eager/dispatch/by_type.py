"""Functions of users in the place of public ones, chosen by the classes of arguments.

Source: tensorflow/python/util/dispatch.py.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tideflow.eager.dispatch.apis import Api, Chooses, api_of, apis, decides
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export

Target = TypeVar("Target", bound=Callable[..., Any])
# The parameters that a signature may speak of.
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# What is unregistered with a function that stands for several targets.
_together: dict[Callable[..., Any], list[Callable[[], None]]] = {}


@export("experimental.dispatch_for_api")
def dispatch_for_api(api: Any, *signatures: Mapping[str | int, Any]) -> Callable[[Target], Any]:
    """Return a decorator for a function that is called in the place of a public one.

    It takes the calls in which all arguments that one of the signatures names are of the classes
    that this says, and one of them is made of tensors, as an extension type is.

    Args:
      api: a public function.
      *signatures: what arguments are, by their names or positions: classes, `typing.Union` and
        `typing.List` of them.  Without any, the annotations of the decorated function say it.
    Raises: ValueError for an api that cannot be dispatched on, for unknown parameters, and for
      functions with other parameters (`name` may be left out); TypeError for other signatures.
    Example:
      >>> class Masked(tf.experimental.ExtensionType):
      ...     values: tf.Tensor
      >>> @tf.experimental.dispatch_for_api(tf.math.negative, {"x": Masked})
      ... def negative(x):
      ...     return Masked(-x.values)
      >>> tf.math.negative(Masked([1.0])).values.numpy()
      array([-1.], dtype=float32)
    """
    known = api_of(api)
    given = [_chooser(known, signature) for signature in signatures]

    def register(dispatch_target: Target) -> Any:
        if not callable(dispatch_target):
            raise TypeError(f"Expected dispatch_target to be callable; got {dispatch_target!r}")
        target = _in_name_scope(dispatch_target, known)
        _check_parameters(known, target)
        choosers = given or [_chooser(known, _annotations(target))]
        known.targets.extend((chooser, target) for chooser in choosers)
        known.update()
        return target

    return register


@export("experimental.unregister_dispatch_for")
def unregister_dispatch_for(dispatch_target: Callable[..., Any]) -> None:
    """Take back a function that was registered by a `dispatch_for_...` decorator.

    Raises: ValueError for a function that was not.
    """
    undone = _together.pop(dispatch_target, [])
    for undo in undone:
        undo()
    if not _remove(dispatch_target) and not undone:
        raise ValueError(
            f"Function {dispatch_target} was not registered using a `@dispatch_for_*` decorator."
        )


def _remove(target: Callable[..., Any]) -> bool:
    """Take a target from all functions; returns whether there were any."""
    found = False
    for api in apis():
        rest = [entry for entry in api.targets if entry[1] is not target]
        if len(rest) < len(api.targets):
            api.targets[:] = rest
            api.update()
            found = True
    return found


def unregister_together(target: Callable[..., Any], undo: Callable[[], None]) -> None:
    """Let `undo` be called when a function is unregistered."""
    _together.setdefault(target, []).append(undo)


# ---- signatures

_NO, _FITS, _DECIDES = range(3)
_Check = Callable[[Any], int]


def _chooser(api: Api, signature: Mapping[str | int, Any]) -> Chooses:
    """Return what says whether a call has the arguments of a signature."""
    if not isinstance(signature, dict) or not all(isinstance(k, (str, int)) for k in signature):
        raise TypeError(
            "signatures must be dictionaries mapping parameter names to type annotations."
        )
    checks = {_parameter(api, key): _checker(kind) for key, kind in signature.items()}

    def fits(values: Mapping[str, Any]) -> bool:
        decides = False
        for name, check in checks.items():
            found = check(values[name]) if name in values else _NO
            if found == _NO:
                return False
            decides = decides or found == _DECIDES
        return decides

    return fits


def _parameter(api: Api, key: str | int) -> str:
    """Return the name of a parameter.  Raises: ValueError for none that a signature may name."""
    parameters = api.signature.parameters
    name = list(parameters)[key] if isinstance(key, int) and key < len(parameters) else key
    if name not in parameters:
        raise ValueError(f"signature includes annotation for unknown parameter {name!r}.")
    kind = parameters[str(name)].kind
    if kind not in _POSITIONAL:
        raise ValueError(
            "Dispatch currently only supports type annotations for positional parameters; can't "
            f"handle annotation for {kind!r} parameter {name}."
        )
    return str(name)


def _checker(annotation: Any) -> _Check:
    """Return what says of a value whether it is as annotated, and decides that calls go here."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        options = [_checker(kind) for kind in inner]
        return lambda value: max(check(value) for check in options)
    if origin is list:
        return functools.partial(_check_list, _checker(inner[0]))
    kind = type(None) if annotation is None else annotation
    if not isinstance(kind, type):
        raise ValueError(
            f"Type annotation {annotation} is not currently supported by dispatch.  Supported "
            "annotations: type objects,  List[...], and Union[...]"
        )
    return functools.partial(_check_instance, kind)


def _check_instance(kind: type, value: Any) -> int:
    if not isinstance(value, kind):
        return _NO
    return _DECIDES if decides(value) else _FITS


def _check_list(check: _Check, value: Any) -> int:
    if not isinstance(value, (list, tuple)):
        return _NO
    found = [check(item) for item in value]
    return _NO if _NO in found else max(found, default=_FITS)


def _annotations(target: Callable[..., Any]) -> dict[str | int, Any]:
    """Return the annotations of a function's parameters.  Raises: ValueError for none."""
    parameters = inspect.signature(target, eval_str=True).parameters.values()
    found: dict[str | int, Any] = {
        p.name: p.annotation for p in parameters if p.annotation is not p.empty
    }
    if not found:
        raise ValueError(
            "The dispatch_for_api decorator must be called with at least one signature, or applied "
            "to a function that has type annotations on its parameters."
        )
    return found


# ---- targets


def _check_parameters(api: Api, target: Callable[..., Any]) -> None:
    """Check that a function has the parameters of the one for which it stands."""
    signature = inspect.signature(target)
    kinds = [p.kind for p in signature.parameters.values()]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return
    wanted = [(p.name, p.kind) for p in api.signature.parameters.values()]
    if [(p.name, p.kind) for p in signature.parameters.values()] != wanted:
        raise ValueError(
            f"Dispatch function's signature {signature} does not match API's signature "
            f"{api.signature}."
        )


def _in_name_scope(target: Target, api: Api) -> Callable[..., Any]:
    """Return a function that takes a name, too, and calls another one in this name's scope."""
    parameters = api.signature.parameters
    own = inspect.signature(target)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in own.parameters.values())
    if "name" not in parameters or "name" in own.parameters or takes_any:
        return target
    at = list(parameters).index("name")

    @functools.wraps(target)
    def named(*args: Any, **kwargs: Any) -> Any:
        name, args, kwargs = without_name(at, args, kwargs)
        return call_in_scope(name, target, *args, **kwargs)

    named.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), parameters["name"].replace(annotation=own.empty)]
    )
    return named


def without_name(
    at: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the argument `name` and all others; at: its position, -1 where there is none."""
    if 0 <= at < len(args):
        return args[at], (*args[:at], *args[at + 1 :]), kwargs
    rest = dict(kwargs)
    return rest.pop("name", None) if at >= 0 else None, args, rest


def call_in_scope(name: str | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with its operations named below `name`, if there is one."""
    if name is None:
        return function(*args, **kwargs)
    with get_default_graph().name_scope(name):
        return function(*args, **kwargs)
