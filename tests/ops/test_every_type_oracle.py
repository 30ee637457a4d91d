"""Each op with cases of its own, again with every type that TensorFlow's CPU kernels take."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1  # noqa: F401  defines the ops
from ops.harness import Case, build, check_against_tensorflow
from tideflow.graph.op_def import ArgDef, get_op_def
from tideflow.wire import dtypes

tf = pytest.importorskip("tensorflow")
kernels = importlib.import_module("tensorflow.python.framework.kernels")

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]

_MODULES = ("array", "conv", "data_flow", "math", "nn_more", "nn", "pool", "random")
# Values of these are made by other ops; NumPy has none.
_HANDLES = {dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum}

# On processors that compute with float16 TensorFlow has other kernels for it.
_CPUINFO = Path("/proc/cpuinfo")
_HAS_HALF = _CPUINFO.exists() and "avx512_fp16" in _CPUINFO.read_text()

# What TensorFlow's own kernels do with these types is not to be wished for.
KNOWN_DIFFERENCES = {
    ("Round", "int32"): "TensorFlow gives zeros",
    ("Round", "int64"): "TensorFlow gives zeros",
    **(
        {}
        if _HAS_HALF
        else {
            (
                "FusedBatchNormV3",
                "float16",
            ): "its reserve_space_3, which no kernel reads, is a scalar"
        }
    ),
    # These compare with an output that a cast has made wrong.
    **{("MaxPoolGrad", f"uint{bits}"): "no output of this input" for bits in (8, 16, 32, 64)},
}


def first_cases() -> dict[str, Case]:
    """Return the first case of each op, of those in the other files."""
    found: dict[str, Case] = {}
    for name in _MODULES:
        module = importlib.import_module(f"ops.test_{name}_oracle")
        for function in vars(module).values():
            for mark in getattr(function, "pytestmark", []):
                for case in mark.args[1] if mark.name == "parametrize" else ():
                    if isinstance(case, Case):
                        found.setdefault(case.op, case)
    return found


def types_taken(op: str) -> list[dict[str, int]]:
    """Return what TensorFlow's CPU kernels take: a type for each type attr that they tell apart."""
    allowed = {
        name: {one.as_datatype_enum for one in attr.allowed or ()}
        for name, attr in get_op_def(op).attrs.items()
        if attr.kind == "type"
    }
    found = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type in ("CPU", "DEFAULT") and not kernel.label:
            limits = {one.name: one.allowed_values.list.type for one in kernel.constraint}
            names = [name for name, types in limits.items() if types]
            lists = [limits[name] for name in names]
            found |= {tuple(sorted(zip(names, types))) for types in itertools.product(*lists)}
    return [
        dict(one)
        for one in sorted(found)
        if not any(
            t in _HANDLES or (allowed.get(name) and t not in allowed[name]) for name, t in one
        )
    ]


def _cast(value: Any, wanted: dtypes.DType) -> Any:
    given = np.asarray(value)
    target = wanted.as_numpy_dtype
    if target == np.dtype(object):
        made = np.empty(given.shape, object)
        made.reshape(-1)[:] = [str(item).encode() for item in given.flat]
        return made
    if given.dtype == object:
        given = np.arange(given.size).reshape(given.shape)
    return (np.abs(given) if np.dtype(target).kind == "u" else given).astype(target)


def _input(arg: ArgDef, value: Any, types: dict[str, int]) -> Any:
    number = types.get(arg.type_attr or "")
    if number is None:
        return value
    wanted = dtypes.as_dtype(number)
    return [_cast(one, wanted) for one in value] if arg.number_attr else _cast(value, wanted)


def cases_of(op: str, first: Case) -> Iterator[tuple[str, Case]]:
    """Return a case with each choice of types, and the types by name."""
    op_def = get_op_def(op)
    inferred = {arg.type_attr for arg in op_def.inputs}
    for types in types_taken(op):
        inputs = [_input(arg, one, types) for arg, one in zip(op_def.inputs, first.inputs)]
        attrs = dict(first.attrs)
        attrs |= {
            k: dtypes.as_dtype(t) for k, t in types.items() if k in attrs or k not in inferred
        }
        names = ",".join(dtypes.as_dtype(t).name for t in types.values())
        has_strings = dtypes.string.as_datatype_enum in types.values()
        jit = first.jit and not has_strings
        # Half of the bits are rounded away, by each in its own order.
        is_short = any(one in names for one in ("float16", "bfloat16"))
        rtol, atol = (5e-2, 5e-2) if is_short else (first.rtol * 10, first.atol * 10)
        yield names, Case(op, inputs, attrs, jit=jit, rtol=rtol, atol=atol)


FIRST = first_cases()


@pytest.mark.parametrize("op", sorted(FIRST))
def test_every_type_agrees(op: str) -> None:
    build(FIRST[op])
    bad = {}
    agreed = 0
    known = {name for other, name in KNOWN_DIFFERENCES if other == op}
    for names, case in cases_of(op, FIRST[op]):
        try:
            with np.errstate(all="ignore"):
                check_against_tensorflow(case)
            agreed += 1
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            # The values do not suit this type, such as a negative exponent of integers.
            refusal = str(error)
            assert refusal
        except Exception as error:
            bad[names] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    assert {names: text for names, text in bad.items() if not known & set(names.split(","))} == {}
    differing = {name for names in bad for name in names.split(",")}
    assert not known - differing, "no differences any more: take them from the list"
    assert agreed


def test_the_known_differences_are_of_ops_that_are_compared() -> None:
    assert {op for op, _ in KNOWN_DIFFERENCES} <= set(FIRST)
