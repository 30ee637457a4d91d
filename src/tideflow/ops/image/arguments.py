"""What functions of images ask of their arguments.

Sizes and offsets are numbers, or tensors that are known when the graph runs.  What is wrong with
numbers is a ValueError at once; with tensors it is found by an Assert.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.array import getitem
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.framework import Assert


def as_image(image: object, name: str = "image") -> Tensor:
    """Return one image [height, width, channels], or a batch of them, as a tensor.

    Raises: ValueError for another rank than 3 or 4, or for no pixels; InvalidArgumentError where
    that is found when the graph runs.
    """
    given = convert_to_tensor(image, name=name)
    dims = given.dims
    if dims is not None and len(dims) not in (3, 4):
        raise ValueError(f"an image has 3 dimensions, a batch of them 4; found {given.shape}")
    what = "an image must have height, width and channels of at least 1"
    if dims is not None and None not in dims[-3:]:
        return checked(given, [(0 not in dims[-3:], f"{what}; its shape is {given.shape}")])
    sizes = getitem(apply_op("Shape", given), slice(-3, None))
    return checked(given, [(apply_op("All", apply_op("Greater", sizes, 0), [0]), what)])


def checked(value: Tensor, conditions: list[tuple[Any, str]]) -> Tensor:
    """Return a value that is there only where conditions hold; each comes with what it says.

    Raises: ValueError for a condition that is a plain False.
    """
    asserts = []
    for condition, what in conditions:
        if isinstance(condition, Tensor):
            asserts.append(Assert(condition, [what]))
        elif not condition:
            raise ValueError(what)
    asserts = [made for made in asserts if made is not None]
    found: Tensor = with_dependencies(asserts, value) if asserts else value
    return found


def size_along(image: Tensor, axis: int) -> Any:
    """Return a size of an image: a number where it is known, else a scalar tensor."""
    known = None if image.dims is None else image.dims[axis]
    return getitem(apply_op("Shape", image), axis) if known is None else known


def static_size(size: Any) -> int | None:
    """Return a size that is a number; None for a tensor."""
    return None if isinstance(size, Tensor) else int(size)


def greatest(a: Any, b: Any) -> Any:
    """Return the greater of two numbers or tensors."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return apply_op("Maximum", a, b)
    return max(a, b)


def least(a: Any, b: Any) -> Any:
    """Return the lesser of two numbers or tensors."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return apply_op("Minimum", a, b)
    return min(a, b)
