"""What a traced function takes and gives, as a signature.

Source: tensorflow/python/types/core.py.
"""

from __future__ import annotations

import inspect
from typing import Any

from tideflow.eager.functions.descriptions import argument_names


class FunctionType(inspect.Signature):
    """A signature whose annotations are the types by which traces are told apart."""

    @classmethod
    def from_callable(cls, obj: Any, *, follow_wrapped: bool = True) -> Any:  # type: ignore[override]
        """Return the signature of a function."""
        return super().from_callable(obj, follow_wrapped=follow_wrapped)


def function_type(python: inspect.Signature | None, specs: Any = None) -> FunctionType:
    """Return the type of a function.

    Args:
      python: the signature of the Python function, None for one that has none.
      specs: the arguments of a trace with specs in the place of tensors: args and kwargs.
    """
    known = {} if python is None else dict(python.parameters)
    if specs is None:
        return FunctionType([p.replace(annotation=p.empty) for p in known.values()])
    args, kwargs = specs
    named = dict(zip(argument_names(python, len(args)), args)) | kwargs
    made = []
    for name, kind in named.items():
        one = known.get(name)
        by_name = name in kwargs
        how = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
        made.append(inspect.Parameter(name, one.kind if one else how, annotation=kind))
    return FunctionType(sorted(made, key=lambda p: p.kind))
