"""Datasets of what Python generators yield: the functions that begin, proceed and end one.

Source: tensorflow/python/data/ops/from_generator_op.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tideflow.graph.array_values import to_array
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec
from tideflow.ops.control_flow import PythonFunction, call_in_program
from tideflow.ops.data.padding import flat_shapes
from tideflow.ops.data.traced import Traced
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


def generator_specs(types: Any, shapes: Any, signature: Any) -> Any:
    """Return the TypeSpecs of an element from one of the two ways to say them.

    Raises: TypeError where neither is given, or both.
    """
    if signature is not None:
        if types is not None or shapes is not None:
            raise TypeError(
                "The `output_types` and `output_shapes` arguments can not be used together with "
                "the `output_signature` argument."
            )
        for spec in nest.flatten(signature):
            if not isinstance(spec, TypeSpec):
                raise TypeError(
                    "`output_signature` must contain objects that are subclass of `tf.TypeSpec` "
                    f"but found {type(spec)} which is not."
                )
        return signature
    if types is None:
        raise TypeError("Either `output_types` or `output_signature` must be specified")
    # A list of types is a structure of its own, as a tuple is.
    flat = [dtypes.as_dtype(one) for one in nest.flatten(types)]
    given = [None] * len(flat) if shapes is None else flat_shapes(shapes, len(flat))
    specs = [TensorSpec(shape, dtype) for shape, dtype in zip(given, flat)]
    return nest.pack_sequence_as(types, specs)


def generator_parts(
    generator: Callable[..., Any], specs: Any, args: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Return the inputs and attrs of the op that makes a generator's dataset."""
    flat = nest.flatten(specs)
    tensors = [part for spec in flat for part in spec.parts]
    types = [part.dtype for part in tensors]
    running: dict[int, Iterator[Any]] = {}
    keys = itertools.count()

    def begin(*values: Any) -> Any:
        key = next(keys)
        running[key] = iter(generator(*values))
        return np.int64(key)

    def proceed(key: Any) -> list[Any]:
        found = _parts(specs, next(running[int(key)]))
        parts = [one for value, spec in zip(found, flat) for one in _tensors_of(value, spec)]
        return [_as_specified(value, part) for value, part in zip(parts, tensors, strict=True)]

    def end(key: Any) -> Any:
        running.pop(int(key), None)
        return np.int64(0)

    def element(key: Any) -> Any:
        found = call_in_program("PyFunc", [key], PythonFunction(proceed), types)
        given = iter(found if isinstance(found, list) else [found])
        made = []
        for spec in flat:
            parts = [next(given) for _ in spec.parts]
            for part, known in zip(parts, spec.parts):
                part.set_shape(known.shape)
            made.append(spec.from_parts(parts))
        return nest.pack_sequence_as(specs, made) if nest.is_nested(specs) else made[0]

    given = [convert_to_tensor(arg) for arg in args or ()]
    key_spec = TensorSpec((), dtypes.int64)
    start = Traced(lambda *ignored: _number(begin, given), (), "generator_init")
    proceeding = Traced(element, key_spec, "generator")
    ending = Traced(lambda key: _number(end, [key]), key_spec, "generator_end")
    inputs = [start.captured, proceeding.captured, ending.captured]
    attrs = {
        "init_func": start.ref,
        "next_func": proceeding.ref,
        "finalize_func": ending.ref,
    }
    return inputs, attrs


def _number(function: Callable[..., Any], inputs: list[Any]) -> Any:
    """Return the int64 that a Python function gives, called by the graph that is being built."""
    found = call_in_program("PyFunc", inputs, PythonFunction(function), [dtypes.int64])
    return found[0] if isinstance(found, list) else found


def _tensors_of(value: Any, spec: TypeSpec) -> list[Any]:
    """Return the tensors that a value of a generator has.

    Raises: TypeError for a value that is not of the class of the spec.
    """
    if isinstance(spec, TensorSpec):
        return [value]
    if value is None:
        found: list[Any] = []
    elif nest.is_composite(value):
        found = nest.flatten(value, expand_composites=True)
    else:
        found = list(value) if isinstance(value, tuple) else [value]
    if len(found) != len(spec.parts):
        raise TypeError(f"`generator` yielded {value!r} where a value of {spec!r} was expected")
    return [one.numpy() if hasattr(one, "numpy") else one for one in found]


def _as_specified(value: Any, spec: Any) -> Any:
    """Return what a generator gave as an array.  Raises: TypeError for another shape or type."""
    try:
        array = to_array(value, spec.dtype)
    except (TypeError, ValueError):
        # Numbers of another type are converted as NumPy does it.
        array = np.asarray(value).astype(spec.dtype.as_numpy_dtype)
    if not spec.shape.is_compatible_with(array.shape):
        raise TypeError(
            f"`generator` yielded an element of shape {array.shape} where an element of shape "
            f"{spec.shape} was expected."
        )
    return array


def _parts(specs: Any, element: Any) -> list[Any]:
    """Return an element's parts by the structure of the specs: a list may be one tensor."""
    if isinstance(specs, dict):
        return [part for key in sorted(specs) for part in _parts(specs[key], element[key])]
    if isinstance(specs, (list, tuple)):
        if len(element) != len(specs):
            raise TypeError(
                f"`generator` yielded an element of {len(element)} parts; {len(specs)} are declared"
            )
        return [part for spec, item in zip(specs, element) for part in _parts(spec, item)]
    return [element]
