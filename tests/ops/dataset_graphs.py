"""Datasets made of single ops, for graphs that both run (see one_graph.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.graph.node import FunctionRef
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.control_flow import finish, trace
from tideflow.ops.control_flow.functional import Like
from tideflow.wire.dtypes import DType

END = "OutOfRangeError"
INVALID = "InvalidArgumentError"

# Steps of an iterator: more than the elements of any dataset here.
_STEPS = 14


@dataclass
class Made:
    """A dataset that is a tensor of the graph, with types and shapes of its components."""

    variant: Any
    types: Sequence[DType] = (tf.int64,)
    shapes: Sequence[Dims] = ((),)

    @property
    def structure(self) -> dict[str, Any]:
        """The attrs that say what an element is."""
        return {
            "output_types": list(self.types),
            "output_shapes": [TensorShape(dims) for dims in self.shapes],
        }

    def to(self, op: str, *inputs: Any, **attrs: Any) -> Made:
        """Return the dataset that an op makes of this one; its elements are of the same kind."""
        made = apply_op(op, self.variant, *inputs, **self.structure, **attrs)
        return Made(made, self.types, self.shapes)

    def to_other(
        self, op: str, *inputs: Any, types: Sequence[DType], shapes: Sequence[Dims], **attrs: Any
    ) -> Made:
        """Return the dataset that an op makes of this one; its elements are of another kind."""
        result = Made(None, types, shapes)
        result.variant = apply_op(op, self.variant, *inputs, **result.structure, **attrs)
        return result


def int64(value: Any) -> Any:
    """Return a number as a tensor of the type that datasets are told numbers in."""
    return tf.constant(value, tf.int64)


def numbers(*limits: int) -> Made:
    """Return a dataset of integers, as Python's range."""
    return Made(tf.data.experimental.to_variant(tf.data.Dataset.range(*limits)))


def rows(value: Any) -> Made:
    """Return a dataset of the rows of an array."""
    given = tf.constant(value)
    made = Made(None, [given.dtype], [given.dims[1:]])
    made.variant = apply_op(
        "TensorSliceDataset", [given], output_shapes=made.structure["output_shapes"]
    )
    return made


def function(body: Callable[..., Any], *like: DType | tuple[DType, Dims]) -> FunctionRef:
    """Return a function of the graph; like: types of its arguments, with shapes if no scalars."""
    kinds = [Like(*one) if isinstance(one, tuple) else Like(one, ()) for one in like]
    graph, _ = trace(body, kinds, "f")
    assert not graph.captured_inputs
    return FunctionRef(finish(graph).name)


def as_written(dataset: Made) -> Made:
    """Return a dataset that TensorFlow runs as it is: its optimizer writes some old ops wrongly."""
    from tensorflow.core.framework import dataset_options_pb2  # noqa: PLC0415 - of the oracle

    options = dataset_options_pb2.Options()
    options.optimization_options.apply_default_optimizations = False
    options.autotune_options.enabled = False
    return dataset.to("OptionsDataset", serialized_options=options.SerializeToString())


def steps(dataset: Made, count: int = _STEPS) -> list[Run]:
    """Return runs that begin an iterator, go past the end, begin anew and take one element."""
    handle = apply_op("IteratorV2", shared_name="", container="", **dataset.structure)
    begin = apply_op("MakeIterator", as_written(dataset).variant, handle)
    element = apply_op("IteratorGetNext", handle, **dataset.structure)
    return [Run([begin]), *[Run(element)] * count, Run([begin]), Run(element)]


def check_elements(
    build: Callable[[], Made], about: Sequence[str], count: int = _STEPS, **options: Any
) -> list[Any]:
    """Assert that both give the same elements, at least one; return what came before the end.

    count: of steps, for a dataset without end.
    """
    found = check_both_run(lambda: steps(build(), count), about, **options)
    elements = [plain(one) for one in found[1:-2]]
    assert elements[0] != END
    assert found[-2] == [], f"the iterator cannot be started anew: {found[-2]}"
    if END not in elements:
        return elements
    end = elements.index(END)
    assert set(map(str, elements[end:])) == {END}, "there is something after the end"
    return elements[:end]


def check_refused(
    build: Callable[[], Made], about: Sequence[str], error: str = INVALID, at: int = 0
) -> None:
    """Assert that both refuse, with one class of error.

    at: the step: 0 where the dataset is made, i at the i-th element.
    """
    found = check_both_run(lambda: steps(build())[: at + 1], about)
    assert found[-1] == error
    assert not any(isinstance(one, str) for one in found[:-1])


def plain(end: Any) -> Any:
    """Return what a run gave with lists and numbers: one value bare, several as a tuple."""
    if isinstance(end, str):
        return end
    values = tuple(value.tolist() for value in end)
    return values[0] if len(values) == 1 else values
