"""tf.data of TensorFlow 1: datasets whose elements iterators give to steps of sessions.

Source: tensorflow/python/data/ops/{dataset_ops,iterator_ops}.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tideflow.graph import roles
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import finish, trace
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.data.optional_api import Optional, OptionalSpec, next_as_optional
from tideflow.ops.data.padding import flat_shapes
from tideflow.ops.data.structure import attrs_of, make, packed
from tideflow.ops.data.type_specs import DatasetSpec, NoneTensorSpec
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.ragged import RaggedTensor, RaggedTensorSpec
from tideflow.ops.sparse import SparseTensor, SparseTensorSpec
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


@export("data.Dataset")
class DatasetV1(Dataset):
    """A dataset that makes iterators for sessions; see tf.data.Dataset of the TF2 shape.

    Classes that programs derive say by `_as_variant_tensor` what holds the dataset, and by
    `element_spec` what its elements are.

    Example:
      >>> following = tf.data.Dataset.range(3).make_one_shot_iterator().get_next()
      >>> with tf.Session() as session:
      ...     [int(session.run(following)) for _ in range(3)]
      [0, 1, 2]
    """

    def __init__(self) -> None:
        super().__init__(self._as_variant_tensor())

    def _as_variant_tensor(self) -> Tensor:
        """Return the variant scalar that holds the dataset."""
        raise NotImplementedError(f"{type(self).__name__} has no method `_as_variant_tensor`")

    @classmethod
    def from_sparse_tensor_slices(cls, sparse_tensor: SparseTensor) -> Self:
        """Return the rows of a sparse tensor, each as its indices, values and dense shape.

        Args:
          sparse_tensor: a SparseTensor of shape [n, ...], in the order of its rows.
        Returns: a dataset of n elements.
        Raises: TypeError for what is no sparse tensor.
        Example:
          >>> thin = tf.SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 2])
          >>> rows = tf.data.Dataset.from_sparse_tensor_slices(thin)
          >>> following = rows.make_one_shot_iterator().get_next()
          >>> with tf.Session() as session:
          ...     [session.run(following)[1].tolist() for _ in range(3)]
          [[5], [], [6]]
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(
                "Invalid `sparse_tensor`. `sparse_tensor` must be a `tf.sparse.SparseTensor`. Got "
                f"{type(sparse_tensor)}."
            )
        sizes = sparse_tensor.dense_shape.dims
        rank = None if not sizes or sizes[0] is None else sizes[0] - 1
        element = (
            TensorSpec([None, rank], dtypes.int64),
            TensorSpec([None], sparse_tensor.dtype),
            TensorSpec([rank], dtypes.int64),
        )
        return cls._make("SparseTensorSliceDataset", list(sparse_tensor.parts), element)

    def map_with_legacy_function(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        use_unbounded_threadpool: bool = False,
    ) -> Self:
        """Return what `map` does: functions of graphs are of one kind.

        Args:
          map_func, num_parallel_calls, deterministic, use_unbounded_threadpool: as of `map`.
        Returns: a dataset.
        Example:
          >>> made = tf.data.Dataset.range(3).map_with_legacy_function(lambda x: x * 2)
          >>> following = made.make_one_shot_iterator().get_next()
          >>> with tf.Session() as session:
          ...     [int(session.run(following)) for _ in range(3)]
          [0, 2, 4]
        """
        return self.map(map_func, num_parallel_calls, deterministic)

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Self:
        """Return what `filter` does: functions of graphs are of one kind.

        Args:
          predicate: as of `filter`.
        Returns: a dataset.
        Example:
          >>> made = tf.data.Dataset.range(3).filter_with_legacy_function(lambda x: x > 1)
          >>> following = made.make_one_shot_iterator().get_next()
          >>> with tf.Session() as session:
          ...     int(session.run(following))
          2
        """
        return self.filter(predicate)

    def make_one_shot_iterator(self) -> Iterator:
        """Return an iterator that begins by itself, and gives the elements once.

        Eagerly it is that of `iter`.

        Returns: an Iterator.
        Raises: ValueError for a dataset that depends on placeholders or on state, such as a
          variable.
        Example:
          >>> following = tf.data.Dataset.range(3).make_one_shot_iterator().get_next()
          >>> with tf.Session() as session:
          ...     int(session.run(following))
          0
        """
        if get_default_graph().is_eager:
            found: Iterator = iter(self)
            return found
        graph, _ = trace(lambda: _copied(self._variant), [], "dataset_factory")
        factory = finish(graph).ref()
        made = make("OneShotIterator", [], dataset_factory=factory, **attrs_of(self._element))
        return Iterator(made.outputs[0], None, self._element)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """Return an iterator; run its `initializer` to begin.

        Args:
          shared_name: sessions that name the same one share the iterator.
        Returns: an Iterator.
        Raises: RuntimeError where operations are called at once.
        Example:
          >>> iterator = tf.data.Dataset.range(3).make_initializable_iterator()
          >>> with tf.Session() as session:
          ...     session.run(iterator.initializer)
          ...     int(session.run(iterator.get_next()))
          0
        """
        if get_default_graph().is_eager:
            raise RuntimeError(
                "`make_initializable_iterator()` is not supported in eager mode. Use Python-style "
                "iteration instead."
            )
        attrs = attrs_of(self._element)
        made = make("IteratorV2", [], shared_name=shared_name or "", container="", **attrs)
        handle = made.outputs[0]
        return Iterator(handle, make("MakeIterator", [self._variant, handle]), self._element)

    @property
    def output_types(self) -> Any:
        """The types of an element's components."""
        return _types(self._element)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element's components."""
        return _shapes(self._element)

    @property
    def output_classes(self) -> Any:
        """The classes of an element's components: tf.Tensor, or that of nested datasets."""
        return _classes(self._element)


DatasetV1._kind = DatasetV1


class DatasetV1Adapter(DatasetV1):
    """A dataset of the TF2 shape as one of TensorFlow 1.

    Args:
      dataset: the one that it stands for.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        super().__init__()
        self._stand_for(dataset)

    def _as_variant_tensor(self) -> Tensor:
        return self._dataset._variant

    def _shown_name(self) -> str:
        return self._dataset._shown_name()


def _copied(variant: Tensor) -> Tensor:
    """Return a copy, in the current graph, of a dataset with all that it is made of.

    Raises: ValueError for a placeholder or an operation with state among that.
    """
    graph = get_default_graph()
    done: dict[Operation, Operation] = {}
    waiting = [variant.op]
    while waiting:
        op = waiting[-1]
        missing = [tensor.op for tensor in op.inputs if tensor.op not in done]
        if op in done or missing:
            waiting.extend(missing)
            if op in done:
                waiting.pop()
            continue
        _check_copied(op)
        inputs = [done[tensor.op].outputs[tensor.value_index] for tensor in op.inputs]
        attrs = {name: value for name, value in op.attrs.items() if not name.startswith("_")}
        done[op] = graph.create_op(op.type, inputs, attrs, op.name.rpartition("/")[2])
        waiting.pop()
    return done[variant.op].outputs[variant.value_index]


def _check_copied(op: Operation) -> None:
    if op.op_def.role is roles.PLACEHOLDER and not op.inputs:
        raise ValueError(
            f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value. A one-shot "
            "iterator keeps no inputs; use `make_initializable_iterator`"
        )
    is_dataset = any(tensor.dtype is dtypes.variant for tensor in op.outputs)
    if op.op_def.is_stateful and not is_dataset:
        raise ValueError(
            f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value. A one-shot "
            "iterator keeps no state; use `make_initializable_iterator`"
        )


@export("data.Iterator")
class Iterator:
    """Gives the elements of a dataset to steps of sessions.

    Iterators are made by the methods of datasets and by the class methods below.

    Args:
      handle: a resource scalar that names it.
      initializer: the operation that begins a walk, if there is one for good.
      element: the specs of an element.
    Example:
      >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
      >>> following = iterator.get_next()
      >>> with tf.Session() as session:
      ...     session.run(iterator.initializer)
      ...     [int(session.run(following)) for _ in range(3)]
      [0, 1, 2]
    """

    def __init__(self, handle: Tensor, initializer: Operation | None, element: Any) -> None:
        self._handle = handle
        self._initializer = initializer
        self._element = element
        self._string_handle: Tensor = make("IteratorToStringHandle", [handle]).outputs[0]

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return an iterator that several datasets may begin; see `make_initializer`.

        Args:
          output_types: a structure of types, one for each component of an element.
          output_shapes: a structure of shapes; None where they are not known.
          shared_name: sessions that name the same one share the iterator.
          output_classes: a structure of classes; None where all components are tensors.
        Returns: an Iterator without an `initializer` of its own.
        Example:
          >>> iterator = tf.data.Iterator.from_structure(tf.int64, [])
          >>> begin = iterator.make_initializer(tf.data.Dataset.range(3))
          >>> with tf.Session() as session:
          ...     session.run(begin)
          ...     int(session.run(iterator.get_next()))
          0
        """
        element = _element(output_types, output_shapes, output_classes)
        name = shared_name or ""
        made = make("IteratorV2", [], shared_name=name, container="", **attrs_of(element))
        return Iterator(made.outputs[0], None, element)

    @staticmethod
    def from_string_handle(
        string_handle: TensorLike,
        output_types: Any,
        output_shapes: Any = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return the iterator that a string names when a step runs; see `string_handle`.

        Args:
          string_handle: a string scalar, such as a placeholder.
          output_types: a structure of types, one for each component of an element.
          output_shapes: a structure of shapes; None where they are not known.
          output_classes: a structure of classes; None where all components are tensors.
        Returns: an Iterator without an `initializer`.
        Example:
          >>> name = tf.placeholder(tf.string, [])
          >>> following = tf.data.Iterator.from_string_handle(name, tf.int64, []).get_next()
          >>> one = tf.data.Dataset.range(3).make_one_shot_iterator()
          >>> with tf.Session() as session:
          ...     int(session.run(following, {name: session.run(one.string_handle())}))
          0
        """
        element = _element(output_types, output_shapes, output_classes)
        text = convert_to_tensor(string_handle, dtypes.string)
        made = make("IteratorFromStringHandleV2", [text], **attrs_of(element))
        return Iterator(made.outputs[0], None, element)

    @property
    def initializer(self) -> Operation:
        """The operation that begins a walk.

        Raises: ValueError for an iterator that is started otherwise.
        """
        if self._initializer is None:
            raise ValueError(
                "The iterator does not have an initializer. It was likely created using "
                "`tf.data.Dataset.make_one_shot_iterator()`. For an initializable iterator, use "
                "`tf.data.Dataset.make_initializable_iterator()` instead."
            )
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """Return an operation that begins a walk over a dataset.

        Args:
          dataset: one whose elements have the iterator's types, and shapes that fit.
          name: the name of the operation.
        Returns: an operation.
        Raises: TypeError for elements of other types or shapes; ValueError for another number of
          components.
        Example:
          >>> iterator = tf.data.Iterator.from_structure(tf.int64, [])
          >>> begin = iterator.make_initializer(tf.data.Dataset.range(5, 8))
          >>> with tf.Session() as session:
          ...     session.run(begin)
          ...     int(session.run(iterator.get_next()))
          5
        """
        nest.assert_same_structure(self._element, dataset._element)
        pairs = zip(nest.flatten(self._element), nest.flatten(dataset._element))
        for wanted, found in pairs:
            if wanted.value_type is not found.value_type:
                raise TypeError(
                    f"Expected output classes {self.output_classes!r} but got dataset with output "
                    f"classes {_classes(dataset._element)!r}."
                )
            if _types(wanted) != _types(found):
                raise TypeError(
                    f"Expected output types {self.output_types!r} but got dataset with output "
                    f"types {_types(dataset._element)!r}."
                )
            if not wanted.is_compatible_with(found):
                raise TypeError(
                    "Expected output shapes compatible with "
                    f"{self.output_shapes!r} but got dataset with output shapes "
                    f"{_shapes(dataset._element)!r}."
                )
        return make("MakeIterator", [dataset._variant, self._handle], name or "make_initializer")

    def get_next(self, name: str | None = None) -> Any:
        """Return tensors for the next element.

        Args:
          name: the name of the operation.
        Returns: a structure of tensors.
        Raises: OutOfRangeError, in the step that asks after the last element.
        Example:
          >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
          >>> with tf.Session() as session:
          ...     session.run(iterator.initializer)
          ...     int(session.run(iterator.get_next()))
          0
        """
        op = make("IteratorGetNext", [self._handle], name, **attrs_of(self._element))
        return packed(self._element, op.outputs)

    def get_next_as_optional(self) -> Optional:
        """Return the next element, if there is one.

        Returns: a tf.experimental.Optional.
        Example:
          >>> found = tf.data.Dataset.range(1).make_one_shot_iterator().get_next_as_optional()
          >>> with tf.Session() as session:
          ...     [bool(session.run(found.has_value())) for _ in range(2)]
          [True, False]
        """
        return next_as_optional(self._handle, self._element)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Return a string that names the iterator; see `from_string_handle`.

        Args:
          name: the name of the operation.
        Returns: a string scalar.
        Example:
          >>> iterator = tf.data.Dataset.range(3).make_one_shot_iterator()
          >>> with tf.Session() as session:
          ...     type(session.run(iterator.string_handle())).__name__
          'bytes'
        """
        if name is None:
            return self._string_handle
        found: Tensor = make("IteratorToStringHandle", [self._handle], name).outputs[0]
        return found

    @property
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of an element."""
        return self._element

    @property
    def output_types(self) -> Any:
        """The types of an element's components."""
        return _types(self._element)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element's components."""
        return _shapes(self._element)

    @property
    def output_classes(self) -> Any:
        """The classes of an element's components."""
        return _classes(self._element)


def _element(output_types: Any, output_shapes: Any, output_classes: Any) -> Any:
    """Return specs for a structure of types, one of shapes and one of classes."""
    types = nest.flatten(output_types)
    shapes: list[Any] = [None] * len(types)
    if output_shapes is not None:
        shapes = flat_shapes(output_shapes, len(types))
    if len(shapes) != len(types):
        raise TypeError(f"there are {len(types)} types, and {len(shapes)} shapes")
    classes = [Tensor] * len(types) if output_classes is None else nest.flatten(output_classes)
    specs = {SparseTensor: SparseTensorSpec, RaggedTensor: RaggedTensorSpec}
    leaves = [
        specs.get(kind, TensorSpec)(TensorShape(s), as_dtype(t))
        for t, s, kind in zip(types, shapes, classes, strict=True)
    ]
    return nest.pack_sequence_as(output_types, leaves)


def _types(element: Any) -> Any:
    return nest.map_structure(lambda leaf: _of_leaf(leaf, "dtype", _types), element)


def _shapes(element: Any) -> Any:
    return nest.map_structure(lambda leaf: _of_leaf(leaf, "shape", _shapes), element)


def _of_leaf(leaf: Any, what: str, within: Callable[[Any], Any]) -> Any:
    """Return type or shape of a component: of the elements, where it is a dataset."""
    if isinstance(leaf, DatasetSpec | OptionalSpec):
        return within(leaf.element_spec)
    return None if isinstance(leaf, NoneTensorSpec) else getattr(leaf, what)


def _classes(element: Any) -> Any:
    return nest.map_structure(lambda leaf: leaf.value_type, element)


@export("data.make_one_shot_iterator")
def make_one_shot_iterator(dataset: DatasetV1) -> Iterator:
    """Return an iterator that begins by itself, and gives the elements once.

    Args:
      dataset: whose elements it gives.
    Returns: an Iterator.
    Raises: ValueError for a dataset that depends on placeholders or on state.
    Example:
      >>> iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))
      >>> with tf.Session() as session:
      ...     int(session.run(iterator.get_next()))
      0
    """
    return DatasetV1.make_one_shot_iterator(dataset)


@export("data.make_initializable_iterator")
def make_initializable_iterator(dataset: DatasetV1, shared_name: str | None = None) -> Iterator:
    """Return an iterator; run its `initializer` to begin.

    Args:
      dataset: whose elements it gives.
      shared_name: sessions that name the same one share the iterator.
    Returns: an Iterator.
    Example:
      >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
      >>> with tf.Session() as session:
      ...     session.run(iterator.initializer)
      ...     int(session.run(iterator.get_next()))
      0
    """
    return DatasetV1.make_initializable_iterator(dataset, shared_name)


@export("data.get_output_types")
def get_output_types(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the types of an element's components.

    Args:
      dataset_or_iterator: a dataset or an iterator.
    Returns: a structure of types.
    Example:
      >>> tf.data.get_output_types(tf.data.Dataset.range(3)).name
      'int64'
    """
    return _types(dataset_or_iterator._element)


@export("data.get_output_shapes")
def get_output_shapes(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the shapes of an element's components.

    Args:
      dataset_or_iterator: a dataset or an iterator.
    Returns: a structure of TensorShapes.
    Example:
      >>> tf.data.get_output_shapes(tf.data.Dataset.range(3)).as_list()
      []
    """
    return _shapes(dataset_or_iterator._element)


@export("data.get_output_classes")
def get_output_classes(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the classes of an element's components.

    Args:
      dataset_or_iterator: a dataset or an iterator.
    Returns: a structure of classes.
    Example:
      >>> tf.data.get_output_classes(tf.data.Dataset.range(3)).__name__
      'Tensor'
    """
    return _classes(dataset_or_iterator._element)


@export("data.experimental.get_next_as_optional")
def get_next_as_optional(iterator: Iterator) -> Optional:
    """Return the next element of an iterator, if there is one.

    Args:
      iterator: an iterator.
    Returns: a tf.experimental.Optional.
    Example:
      >>> iterator = tf.data.Dataset.range(1).make_one_shot_iterator()
      >>> found = tf.data.experimental.get_next_as_optional(iterator)
      >>> with tf.Session() as session:
      ...     int(session.run(found.get_value()))
      0
    """
    return iterator.get_next_as_optional()
