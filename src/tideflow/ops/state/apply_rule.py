"""The declaration of what an optimizer does to its variables: one rule, four ops.

A rule works element by element on the old values and gives the new ones.  `apply_rule` makes the
reference op (ApplyX), the resource op (ResourceApplyX) and the two sparse ones (SparseApplyX,
ResourceSparseApplyX: the rule on the rows that indices name) from it.  Where TensorFlow's sparse op
takes the steps in another order, which shows when values are not finite, rows have their own rule.
Source: tensorflow/core/ops/training_ops.cc
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.update_rule import Update
from tideflow.ops.state import shapes as state_shapes
from tideflow.ops.state.updates import declare_update, rows_kernel
from tideflow.wire import errors

F = TypeVar("F", bound=Callable[..., Any])

# Inputs as large as the variable; every other one is a scalar.
_FULL = frozenset({"grad", "delta"})


def apply_rule(
    name: str,
    variables: str,
    inputs: str,
    *attrs: str,
    sparse: str = "",
    forms: tuple[str, ...] = ("", "Resource"),
    rows: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Declare the ops that apply the decorated rule.

    Args:
      name: "Adam" for ApplyAdam.
      variables, inputs: names in the ops' order; `name:dtype` where the type is not T.
      attrs: signature lines of attrs besides T and use_locking.
      sparse: inputs of the sparse ops, in their order; no sparse ops without it.
      forms: "" for reference ops, "Resource" for resource ops.
      rows: the rule of the sparse ops, where it is another one.
    """
    cells = variables.split()

    def register(rule: F) -> F:
        for form in forms:
            _declare_dense(form, name, cells, inputs.split(), attrs, rule)
            if sparse:
                _declare_sparse(form, name, cells, sparse.split(), attrs, rows or rule)
        return rule

    return register


def _declare_dense(
    form: str, name: str, cells: list[str], inputs: list[str], attrs: tuple[str, ...], rule: Any
) -> None:
    op_name = f"{form}Apply{name}"
    full = tuple(i for i, given in enumerate(inputs) if given in _FULL)
    update = Update(
        op_name, len(cells), is_ref=not form, rule=rule, full=full, missing=errors.InternalError
    )
    signature = _signature(op_name, form, cells, inputs, attrs)
    declare_update(signature, rule, update, state_shapes.elementwise(len(cells), full))
    not_differentiable(op_name)


def _declare_sparse(
    form: str, name: str, cells: list[str], inputs: list[str], attrs: tuple[str, ...], rule: Any
) -> None:
    op_name = f"{form}SparseApply{name}"
    full = tuple(i for i, given in enumerate(inputs) if given in _FULL)
    indices = inputs.index("indices")
    update = Update(
        op_name,
        len(cells),
        is_ref=not form,
        rule=rule,
        kind="rows",
        full=full,
        indices=indices,
        missing=errors.InternalError,
    )
    parameters = inspect.signature(rule).parameters.values()
    kernel = rows_kernel(update, [p.name for p in parameters if p.kind is p.KEYWORD_ONLY])
    signature = _signature(op_name, form, cells, inputs, attrs)
    declare_update(signature, kernel, update, state_shapes.rows(len(cells), full, indices))
    not_differentiable(op_name)


def _signature(
    op_name: str, form: str, cells: list[str], inputs: list[str], attrs: tuple[str, ...]
) -> str:
    kind = "resource" if form else "Ref T"
    args = [f"{cell}: {kind}" for cell in cells]
    for given in inputs:
        input_name, _, dtype = given.partition(":")
        args.append(f"{input_name}: {'Tindices' if input_name == 'indices' else dtype or 'T'}")
    lines = [
        f"{op_name}({', '.join(args)})" + ("" if form else " -> out: Ref T"),
        "T: type in numbers",
        *(["Tindices: type in indices"] if "indices" in inputs else []),
        "use_locking: bool = false",
        *attrs,
    ]
    return "\n".join(lines)
