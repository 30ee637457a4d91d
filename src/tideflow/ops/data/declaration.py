"""The declaration of dataset ops: what all of them share is said here, once.

    @dataset_op("TakeDataset(input_dataset: variant, count: int64)", same_elements=True)
    def take_dataset(input_dataset: Dataset, count: int) -> Elements:
        return Elements(lambda: Taken(input_dataset.iterator(), count))

A signature is that of an op (see tideflow.graph.op_def) without the output, the types of captured
inputs, output_types, output_shapes and metadata, which are added.  Several signatures may share a
kernel.  Each parameter of the kernel has the name of an input or an attr; one with a default may
be missing from a signature.  A function comes as a CapturedFunction, with what it captured.  The
annotation of an input says in which form it is wanted:

  Dataset, list[Dataset]          the dataset that a variant is
  int, bool, bytes                the value of a scalar
  Sequence[int], Sequence[bytes]  the values of a scalar or a vector
  Any, list[Any]                  the value as it is, or the values of a list

The kernel returns the elements; the dataset around them is made here.

Source: tensorflow/core/ops/{dataset_ops,experimental_dataset_ops}.cc.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import OpDef, get_op_def, op, with_attrs
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import Dims
from tideflow.ops.data.functions import CapturedFunction
from tideflow.ops.data.values import (
    UNKNOWN,
    Dataset,
    Iterator,
    Origin,
    SeedSource,
    Splits,
    as_dataset,
    dims_of,
    owned,
    scalar,
    vector,
)
from tideflow.wire.dtypes import DType


@dataclass(slots=True)
class Elements:
    """What a dataset op adds to its declaration.

    Attributes:
      iterate: makes an iterator; without one the input's elements are passed on.
      count: the cardinality, or what tells it; where it is None, that of the input if the elements
        are the same, and otherwise unknown.
      types, shapes: of an element's components, where the attrs of the op do not say them.
      options: serialized tf.data options that are set here.
      batch_size: how many elements of the input each of these has; 0 where they are no batches.
      seeds: what gives seeds to the iterators, if anything does.
      splits: how the elements of a source are shared out, where they can be.
    """

    iterate: Callable[[], Iterator] | None = None
    count: Callable[[], int] | int | None = None
    types: Sequence[DType] | None = None
    shapes: Sequence[Dims] | None = None
    options: bytes = b""
    batch_size: int = 0
    seeds: SeedSource | None = None
    splits: Splits | None = None


K = TypeVar("K", bound=Callable[..., Elements])

_READERS: dict[Any, Callable[[Any, str], Any]] = {
    Dataset: lambda value, what: as_dataset(value),
    list[Dataset]: lambda values, what: [as_dataset(value) for value in values],
    int: lambda value, what: int(scalar(value, what)),
    bool: lambda value, what: bool(scalar(value, what)),
    bytes: scalar,
    Sequence[int]: lambda value, what: [int(one) for one in vector(value, what)],
    Sequence[bytes]: vector,
    Any: lambda value, what: value,
    list[Any]: lambda values, what: values,
}


def dataset_op(
    *signatures: str,
    same_elements: bool = False,
    structure: bool = True,
    metadata: bool = True,
    direct: bool = False,
    stateful: bool = False,
    shape: Callable[..., Any] = scalar_shape,
    blocks: str = "",
) -> Callable[[K], K]:
    """Register dataset ops with the decorated function as their kernel (see the module's text).

    Args:
      same_elements: the elements are some of the first input's: of its types and shapes, and
        batches where those are.
      structure: whether the ops have attrs for types and shapes of the components.
      metadata: whether they have the attr `metadata`.
      direct: its elements are made when they are asked for: nothing works ahead, or waits for files
        or time, so that they may be made in the calling thread where those of its inputs may.
      stateful, shape, blocks: as for `op`.
    """

    def register(kernel: K) -> K:
        for signature in signatures:
            full = _complete(signature, structure, metadata)
            run = _kernel_of(full, kernel, same_elements, direct)
            op(full, shape=shape, stateful=stateful, blocks=blocks)(run)
        return kernel

    return register


def _attr_names(signature: str) -> list[str]:
    return re.findall(r"^\s*(\w+)\s*:", signature.partition(")")[2], re.MULTILINE)


def _types_attr(signature: str) -> str:
    """Return the attr that names the types of components."""
    return "Toutput_types" if "*Toutput_types" in signature else "output_types"


def _complete(signature: str, structure: bool, metadata: bool) -> str:
    """Return the signature of an op, with what all dataset ops have."""
    head, _, rest = signature.partition(")")
    known = _attr_names(signature)
    lines = []
    if structure:
        types = _types_attr(signature)
        lines += [f"{types}: list(type) >= 1", "output_shapes: list(shape) >= 1"]
    lines += [f"{captured}: list(type) >= 0" for captured in re.findall(r"\*(\w+)", head)]
    if metadata:
        lines.append("metadata: string = ''")
    added = []
    for line in lines:
        name = line.partition(":")[0]
        if name not in known:
            known.append(name)
            added.append(line)
    if "->" not in rest:
        head, rest = f"{head}) -> handle: variant", rest
    else:
        head += ")"
    return "\n".join([head + rest.rstrip(), *added])


def _kernel_of(
    signature: str, kernel: K, same_elements: bool, direct: bool
) -> Callable[..., Dataset]:
    """Return the kernel of an op, which gives a dataset of a function's elements."""
    name = signature.partition("(")[0].strip()
    kind = name.partition("Dataset")[0].removeprefix("Experimental")
    types_attr = _types_attr(signature)

    @functools.cache
    def read_arguments() -> Callable[..., dict[str, Any]]:
        return _argument_reader(get_op_def(name), kernel)

    def run(ctx: KernelContext, *given: Any, **attrs: Any) -> Dataset:
        inputs = [
            [owned(one) for one in value] if isinstance(value, list) else owned(value)
            for value in given
        ]
        origin = Origin(ctx, _flat(inputs))
        arguments = read_arguments()(ctx, inputs, attrs)
        found = kernel(**arguments)
        sources = _datasets_in(arguments.values())
        functions = [one for one in arguments.values() if isinstance(one, CapturedFunction)]
        if same_elements:
            return _of_same_elements(kind, sources, functions, found, direct, origin)
        return Dataset(
            kind,
            attrs[types_attr] if found.types is None else found.types,
            dims_of(attrs["output_shapes"]) if found.shapes is None else found.shapes,
            found.iterate or sources[0].iterator,
            UNKNOWN if found.count is None else found.count,
            sources,
            options=found.options,
            batch_size=found.batch_size,
            is_direct=direct,
            stateful_ops=lambda: _stateful_ops(functions),
            seeds=found.seeds,
            origin=origin,
            splits=found.splits,
        )

    declared = _attr_names(signature)
    wanted = list(inspect.signature(kernel).parameters)
    structure = [attr for attr in (types_attr, "output_shapes") if attr in declared]
    taken = dict.fromkeys([one for one in wanted if one in declared] + structure)
    functools.update_wrapper(run, kernel)
    return with_attrs(run, list(taken), first="ctx")


def _of_same_elements(
    kind: str,
    sources: Sequence[Dataset],
    functions: Sequence[CapturedFunction],
    found: Elements,
    direct: bool,
    origin: Origin,
) -> Dataset:
    source = sources[0]
    return Dataset(
        kind,
        source.types,
        source.shapes if found.shapes is None else found.shapes,
        found.iterate or source.iterator,
        source.cardinality if found.count is None else found.count,
        sources,
        options=found.options,
        batch_size=source.batch_size,
        is_direct=direct,
        stateful_ops=lambda: _stateful_ops(functions),
        seeds=found.seeds,
        origin=origin,
    )


def _flat(inputs: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in inputs:
        flat.extend(value) if isinstance(value, list) else flat.append(value)
    return flat


def _stateful_ops(functions: Sequence[CapturedFunction]) -> list[str]:
    return [name for function in functions for name in function.stateful_ops()]


def _datasets_in(arguments: Any) -> list[Dataset]:
    found: list[Dataset] = []
    for argument in arguments:
        if isinstance(argument, Dataset):
            found.append(argument)
        elif isinstance(argument, list):
            found.extend(one for one in argument if isinstance(one, Dataset))
    return found


def _argument_reader(op_def: OpDef, kernel: K) -> Callable[..., dict[str, Any]]:
    """Return what makes a kernel's arguments of the inputs and attrs of a node."""
    names = [arg.name for arg in op_def.inputs]
    hints = get_type_hints(kernel)
    parameters = inspect.signature(kernel).parameters
    read = {name: _READERS[hints[name]] for name in parameters if name in names}
    functions = {
        name: _captured_input(op_def, name)
        for name in parameters
        if name in op_def.attrs and op_def.attrs[name].kind == "func"
    }

    def arguments(
        ctx: KernelContext, inputs: Sequence[Any], attrs: dict[str, Any]
    ) -> dict[str, Any]:
        given = {"ctx": ctx, **dict(zip(names, inputs)), **attrs}
        made: dict[str, Any] = {}
        for name in parameters:
            if name in functions:
                captured = [one for source in functions[name] for one in given[source]]
                made[name] = CapturedFunction(ctx, given[name], captured)
            elif name in read:
                made[name] = read[name](given[name], name)
            elif name in given:
                made[name] = given[name]
        return made

    return arguments


def _captured_input(op_def: OpDef, function: str) -> list[str]:
    """Return the name of the input that has what a function captured, if there is one."""
    wanted = {f"{function}_other_arguments", f"{function}_other_args", "other_arguments"}
    return [arg.name for arg in op_def.inputs if arg.name in wanted]
