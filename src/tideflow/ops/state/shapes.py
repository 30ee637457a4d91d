"""Shape rules of the ops that read and change variables."""

from __future__ import annotations

from tideflow.graph import shapes
from tideflow.graph.shape_rules import ShapeContext, ShapeRule, with_rank
from tideflow.graph.shapes import Dims


def variable_dims(c: ShapeContext, index: int) -> Dims:
    """Return the static shape of the variable behind input `index`, of either kind."""
    if c.node.op_def.inputs[index].is_ref:
        return c.shape(index)
    data = c.handle_data(index)
    return None if data is None else data[1]


def check_handle(c: ShapeContext, index: int = 0, attr: str = "dtype") -> Dims:
    """Return a resource variable's static shape.  Raises: ValueError for another type."""
    data = c.handle_data(index)
    if data is None:
        return None
    dtype, dims = data
    if dtype != c.attrs[attr]:
        raise ValueError(f"the variable holds {dtype.name}, not {c.attrs[attr].name}")
    return dims


def output_of(c: ShapeContext, dims: Dims) -> list[Dims]:
    """Give a reference op's output the variable's shape; a resource op has no output."""
    return [dims] if c.node.op_def.outputs else []


def assigned(c: ShapeContext) -> list[Dims]:
    """Assign to a resource variable: the value must fit what was declared."""
    shapes.merge(check_handle(c), c.shape(1))
    return []


def combined(c: ShapeContext) -> list[Dims]:
    """Add to or subtract from a variable: equal shapes."""
    return output_of(c, shapes.merge(variable_dims(c, 0), c.shape(1)))


def elementwise(variables: int, full: tuple[int, ...]) -> ShapeRule:
    """Variables and the inputs at `full` have one shape; the other inputs are scalars."""

    def rule(c: ShapeContext) -> list[Dims]:
        found: Dims = None
        for i in range(variables):
            found = shapes.merge(found, variable_dims(c, i))
        for i in range(variables, len(c.inputs)):
            if i - variables in full:
                found = shapes.merge(found, c.shape(i))
            else:
                with_rank(c.shape(i), 0, f"input {c.node.op_def.inputs[i].name!r}")
        return output_of(c, found)

    return rule


def rows(variables: int, full: tuple[int, ...], indices: int) -> ShapeRule:
    """Variables have one shape; inputs at `full` have a row of it for each index."""

    def rule(c: ShapeContext) -> list[Dims]:
        found: Dims = None
        for i in range(variables):
            found = shapes.merge(found, variable_dims(c, i))
        (count,) = with_rank(c.shape(variables + indices), 1, "indices")
        tail = None if found is None else found[1:]
        for i in range(variables, len(c.inputs)):
            if i - variables in full:
                wanted = None if tail is None else (count, *tail)
                shapes.merge(wanted, c.shape(i))
            elif i - variables != indices:
                with_rank(c.shape(i), 0, f"input {c.node.op_def.inputs[i].name!r}")
        return output_of(c, found)

    return rule


def scattered(c: ShapeContext) -> list[Dims]:
    """Scatter by first index: updates have shape indices.shape + variable.shape[1:], or none."""
    variable, indices, updates = variable_dims(c, 0), c.shape(1), c.shape(2)
    if variable is not None and not variable:
        raise ValueError("a scalar variable has no rows to scatter into")
    if variable is not None and indices is not None and updates != ():
        shapes.merge(indices + variable[1:], updates)
    return output_of(c, variable)


def scattered_nd(c: ShapeContext) -> list[Dims]:
    """Scatter by index tuples: updates have shape indices.shape[:-1] + variable.shape[depth:]."""
    variable, indices, updates = variable_dims(c, 0), c.shape(1), c.shape(2)
    if indices is not None and not indices:
        raise ValueError("indices must have at least rank 1")
    if variable is not None and indices is not None and indices[-1] is not None:
        depth = indices[-1]
        if depth > len(variable):
            raise ValueError(
                f"indices address {depth} dimensions; the variable has {len(variable)}"
            )
        shapes.merge(indices[:-1] + variable[depth:], updates)
    return output_of(c, variable)


def gathered(c: ShapeContext) -> list[Dims]:
    """Gather rows of a variable: variable.shape[:b] + indices.shape[b:] + variable.shape[b+1:]."""
    variable, indices = check_handle(c), c.shape(1)
    batch = c.attrs["batch_dims"]
    if variable is None or indices is None:
        return [None]
    if batch < 0:
        batch += len(indices)
    if batch > len(indices) or batch >= len(variable):
        raise ValueError(
            f"batch_dims {c.attrs['batch_dims']} is too large for shapes "
            f"{shapes.format_dims(variable)} and {shapes.format_dims(indices)}"
        )
    shapes.merge(variable[:batch], indices[:batch])
    return [variable[:batch] + indices[batch:] + variable[batch + 1 :]]


def gathered_nd(c: ShapeContext) -> list[Dims]:
    """Gather slices of a variable: indices.shape[:-1] + variable.shape[depth:]."""
    variable, indices = check_handle(c), c.shape(1)
    if variable is None or indices is None or indices[-1] is None:
        return [None]
    if indices[-1] > len(variable):
        raise ValueError(
            f"indices address {indices[-1]} dimensions; the variable has {len(variable)}"
        )
    return [indices[:-1] + variable[indices[-1] :]]


def read(c: ShapeContext) -> list[Dims]:
    """Read a resource variable: what was declared."""
    return [check_handle(c)]


def rank_of_variable(c: ShapeContext) -> list[Dims]:
    """Give the shape of a variable: a vector, as long as the variable has dimensions."""
    data = c.handle_data(0)
    return [(None,) if data is None or data[1] is None else (len(data[1]),)]


def counter(c: ShapeContext) -> list[Dims]:
    """Give what counts up, a reference or a resource variable, its shape.

    Raises: ValueError for a variable that is no scalar.
    """
    with_rank(variable_dims(c, 0), 0, "a counter")
    return [()]
