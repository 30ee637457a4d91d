"""Signatures: functions of a model that are called by name, with named tensors.

Source: tensorflow/python/saved_model/signature_serialization.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tideflow.eager.functions import ConcreteFunction, Function
from tideflow.graph.graph import Tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.framework import Trackable
from tideflow.saved_models.constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY

# A model says by this child which of its functions is served if no signature is given.
_DEFAULT_FUNCTION = "_default_save_signature"


class SignatureMap(Mapping[str, Any], Trackable):
    """The signatures of a model by name."""

    def __init__(self, signatures: Mapping[str, Any] | None = None) -> None:
        self._signatures: dict[str, Any] = {}
        for name, concrete in (signatures or {}).items():
            self.add(name, concrete)

    def add(self, name: str, concrete: Any) -> None:
        """Add a signature."""
        self._signatures[name] = concrete
        self._track_trackable(concrete, name, overwrite=True)

    def __getitem__(self, name: str) -> Any:
        return self._signatures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        return f"_SignatureMap({self._signatures})"


def signatures_of(root: Any, given: Any) -> SignatureMap:
    """Return the signatures of a model.

    Args:
      given: functions by name, one function, or None for the one that the model has, if it has
        just one that can be served.
    Raises: ValueError for what cannot be served.
    """
    if given is None:
        given = _default_function(root)
    if given is None:
        return SignatureMap()
    if not isinstance(given, Mapping):
        given = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: given}
    made: dict[str, Any] = {}
    for name, function in given.items():
        if not callable(function):
            raise ValueError(f"Expected callables for signatures, got {function!r} for {name!r}")
        concrete = _concrete(function)
        if concrete is None:
            raise ValueError(
                "Expected a TensorFlow function for which to generate a signature, but got "
                f"{function!r}. Only `tf.functions` with an input signature or concrete functions "
                "can be used as a signature."
            )
        made[name] = _wrapped(name, concrete)
    return SignatureMap(made)


def _concrete(function: Any) -> Any:
    if isinstance(function, ConcreteFunction):
        return function
    if isinstance(function, Function) and function.input_signature is not None:
        return function.get_concrete_function()
    return None


def _default_function(root: Any) -> Any:
    if not isinstance(root, Trackable):
        return None
    children = root._trackable_children(save_type="savedmodel", cache={})
    functions = {
        name: child
        for name, child in children.items()
        if isinstance(child, (Function, ConcreteFunction))
    }
    if _DEFAULT_FUNCTION in functions:
        return functions[_DEFAULT_FUNCTION]
    found = [concrete for concrete in map(_concrete, functions.values()) if concrete is not None]
    found = [concrete for concrete in found if _can_be_served(concrete)]
    return found[0] if len(found) == 1 else None


def _can_be_served(concrete: ConcreteFunction) -> bool:
    outputs = concrete.structured_outputs
    if outputs is None:
        return False
    try:
        _named_outputs(outputs, concrete.name.decode(), "")
    except ValueError:
        return False
    return True


def argument_keywords(concrete: ConcreteFunction) -> list[str]:
    """Return a name for each tensor that a trace takes, in their order.

    Tensors of one argument have its name, numbered where there are several.
    """
    args, kwargs = concrete.structured_input_signature
    if not args and all(isinstance(spec, TensorSpec) for spec in kwargs.values()):
        return sorted(kwargs)
    told = getattr(concrete.graph, "argument_names", None)
    own = len(concrete.arguments.specs)
    return list(told or [tensor.op.name for tensor in concrete.graph.inputs[:own]])


def _flat_specs(concrete: ConcreteFunction) -> list[TensorSpec]:
    return [TensorSpec(dims, dtype) for dtype, dims in concrete.arguments.specs]


def _wrapped(name: str, concrete: ConcreteFunction) -> ConcreteFunction:
    """Return a function of named tensors that calls another one and gives named tensors."""
    keywords = argument_keywords(concrete)

    def signature_wrapper(**kwargs: Any) -> Any:
        found = concrete.call_flat([kwargs[keyword] for keyword in keywords])
        return _named_outputs(found, concrete.name.decode(), name)

    specs = {
        keyword: TensorSpec(spec.dims, spec.dtype, keyword)
        for keyword, spec in zip(keywords, _flat_specs(concrete))
    }
    wrapper: Callable[..., Any] = Function(signature_wrapper, "signature_wrapper", autograph=False)
    made: ConcreteFunction = wrapper.get_concrete_function(**specs)  # type: ignore[attr-defined]
    return made


def _named_outputs(outputs: Any, function: str, key: str) -> dict[str, Any]:
    """Return results by name.  Raises: ValueError for what are no named tensors."""
    if isinstance(outputs, Mapping):
        for name in outputs:
            if not isinstance(name, str):
                raise ValueError(
                    f"Got a dictionary with a non-string key {name!r} in the output of the "
                    f"function {function} used to generate the SavedModel signature {key!r}."
                )
        named = dict(outputs)
    elif isinstance(outputs, (list, tuple)):
        named = {f"output_{place}": value for place, value in enumerate(outputs)}
    else:
        named = {"output_0": outputs}
    for name, value in named.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"Got a non-Tensor value {value!r:.80} for key {name!r} in the output of the "
                f"function {function} used to generate the SavedModel signature {key!r}. "
                "Outputs for functions used as signatures must be a single Tensor, a sequence of "
                "Tensors, or a dictionary from string to Tensor."
            )
    return named
