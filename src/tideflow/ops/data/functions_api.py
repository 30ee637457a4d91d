"""tf.data: datasets and iterators as a client builds them.

Source: tensorflow/python/data/ops/{dataset_ops,iterator_ops,readers}.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes as static_shapes
from tideflow.graph.building import convert_to_tensor, make_op
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import get_op_def
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import finish, trace, tracing
from tideflow.ops.export import export, export_value
from tideflow.ops.framework import get_seed, nest
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

AUTOTUNE = -1
export_value("data.AUTOTUNE", AUTOTUNE)
export_value("data.experimental.AUTOTUNE", AUTOTUNE)


class Spec:
    """Type and shape of a component."""

    __slots__ = ("dims", "dtype")

    def __init__(self, dtype: DType, dims: Dims) -> None:
        self.dtype = dtype
        self.dims = dims


def _apply(op: str, inputs: Sequence[Any], name: str | None = None, **attrs: Any) -> Operation:
    return make_op(get_op_def(op), inputs, attrs, name or op)


def _int64(value: TensorLike) -> Tensor:
    return convert_to_tensor(value, dtypes.int64)


def _tensors(value: TensorLike) -> Any:
    """Return a structure of tuples and dicts with tensors as leaves; a list is one tensor."""
    if isinstance(value, dict):
        return {key: _tensors(item) for key, item in value.items()}
    if isinstance(value, tuple):
        items = [_tensors(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return convert_to_tensor(value)


class Traced:
    """A function over the elements of a dataset."""

    def __init__(self, function: Callable[..., Any], element: TensorLike, name: str) -> None:
        function = tracing.convert(function)

        def call(*flat: Tensor) -> Any:
            args = nest.pack_sequence_as(element, list(flat))
            result = function(*args) if isinstance(args, tuple) else function(args)
            if isinstance(result, Dataset):
                self.dataset: Dataset | None = result
                return result._variant
            self.dataset = None
            return tuple(result) if isinstance(result, list) else result

        graph, self.result = trace(call, nest.flatten(element), name)
        self.ref = finish(graph).ref()
        self.captured = graph.captured_inputs
        leaves = [Spec(tensor.dtype, tensor.dims) for tensor in graph.outputs]
        self.element = nest.pack_sequence_as(self.result, leaves)


@export("data.Dataset")
class Dataset:
    """Elements to come, each a structure of tensors.

    Datasets are made by the class methods below and by transformations of other datasets, never by
    the
    constructor.  Nothing is read or computed before somebody walks over them.  Each transformation
    takes a `name`, as TensorFlow's does; it labels nothing here.

    Args:
      variant: a variant scalar that holds the dataset.
      element: the types and shapes of an element.
    Source: tensorflow/python/data/ops/dataset_ops.py for names and defaults.
    Example:
      >>> dataset = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0).map(lambda x: x * x)
      >>> [int(x) for x in dataset]
      [0, 4, 16, 36, 64]
    """

    def __init__(self, variant: Tensor, element: TensorLike) -> None:
        self._variant = variant
        self._element = element
        self._made_of: tuple[str, Sequence[Any], dict[str, Any]] | None = None

    @classmethod
    def _make(
        cls,
        op: str,
        inputs: Sequence[Any],
        element: TensorLike,
        types: str = "output_types",
        **attrs: Any,
    ) -> Dataset:
        """Return the dataset that an op makes; among its inputs may be datasets."""
        leaves = nest.flatten(element)
        known = get_op_def(op).attrs
        if types in known:
            attrs[types] = [leaf.dtype for leaf in leaves]
        if "output_shapes" in known:
            attrs["output_shapes"] = [TensorShape(leaf.dims) for leaf in leaves]
        variants = nest.map_structure(_variant_of, list(inputs))
        made = cls(_apply(op, variants, **attrs).outputs[0], element)
        made._made_of = op, inputs, attrs
        return made

    def _like(self, op: str, *inputs: Any, **attrs: Any) -> Dataset:
        return self._make(op, [self, *inputs], self._element, **attrs)

    def remade(self) -> Dataset:
        """Return the same dataset made once more, on the device that is current now.

        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).remade()]
          [0, 1]
        """
        if self._made_of is None:
            return self
        op, inputs, attrs = self._made_of
        parts = nest.map_structure(
            lambda leaf: leaf.remade() if isinstance(leaf, Dataset) else leaf, list(inputs)
        )
        return self._make(op, parts, self._element, **attrs)

    # ---- where elements come from

    @classmethod
    def from_tensors(cls, tensors: TensorLike, name: str | None = None) -> Dataset:
        """Return a dataset of one element.

        Args:
          tensors: a structure of tensors: tuples and dicts stay, a list is one tensor.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [x.tolist() for x in tf.data.Dataset.from_tensors([1, 2]).as_numpy_iterator()]
          [[1, 2]]
        """
        made = _tensors(tensors)
        element = nest.map_structure(lambda tensor: Spec(tensor.dtype, tensor.dims), made)
        flat = nest.flatten(made)
        return cls._make("TensorDataset", [flat], element, "Toutput_types")

    @classmethod
    def from_tensor_slices(cls, tensors: TensorLike, name: str | None = None) -> Dataset:
        """Return a dataset of the rows of tensors.

        Args:
          tensors: a structure of tensors [n, ...], all with the same n; a list is one tensor.
          name: accepted for programs that give it.
        Returns: a dataset of n elements, of shapes [...].
        Example:
          >>> [int(x) for x in tf.data.Dataset.from_tensor_slices([1, 2, 3])]
          [1, 2, 3]
        """
        made = _tensors(tensors)
        element = nest.map_structure(
            lambda tensor: Spec(tensor.dtype, None if tensor.dims is None else tensor.dims[1:]),
            made,
        )
        flat = nest.flatten(made)
        return cls._make("TensorSliceDataset", [flat], element, "Toutput_types")

    @classmethod
    def range(cls, *args: Any, **kwargs: Any) -> Dataset:
        """Return a dataset of integers, as Python's range.

        Args:
          args: stop; start and stop; or start, stop and step: integer scalars.
          kwargs: output_type, an integer or floating type, int64 by default; name.
        Returns: a dataset of scalars.
        Raises: ValueError for no arguments or more than three; TypeError for other keywords.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2, 8, 3)]
          [2, 5]
        """
        wanted = as_dtype(kwargs.pop("output_type", dtypes.int64))
        kwargs.pop("name", None)
        if kwargs:
            raise TypeError(f"range takes output_type and name; found {sorted(kwargs)}")
        if not 1 <= len(args) <= 3:
            raise ValueError(f"range takes one to three numbers; found {len(args)}")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        inputs = [_int64(value) for value in (start, stop, step)]
        return cls._make("RangeDataset", inputs, Spec(wanted, ()))

    @classmethod
    def zip(cls, *args: Any, datasets: object | None = None, name: str | None = None) -> Dataset:
        """Return a dataset of structures of elements, one of each dataset; as long as the shortest.

        Args:
          args: datasets, or one structure of them.
          datasets: the structure, as a keyword.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError without datasets, or with both forms of them.
        Example:
          >>> a5, b2 = tf.data.Dataset.range(5), tf.data.Dataset.range(7, 9)
          >>> [(int(a), int(b)) for a, b in tf.data.Dataset.zip((a5, b2))]
          [(0, 7), (1, 8)]
        """
        if bool(args) == (datasets is not None):
            raise TypeError("give zip its datasets, either one by one or as `datasets`")
        datasets = datasets if not args else args[0] if len(args) == 1 else args
        flat = nest.flatten(datasets)
        element = nest.map_structure(lambda dataset: dataset._element, datasets)
        return cls._make("ZipDataset", [flat], element)

    # ---- without functions

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Return these elements, then those of another dataset.

        Args:
          dataset: the other one, with elements of the same structure and types.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).concatenate(tf.data.Dataset.range(2))]
          [0, 1, 0, 1]
        """
        element = nest.map_structure(
            lambda a, b: Spec(a.dtype, static_shapes.relax(a.dims, b.dims)),
            self._element,
            dataset._element,
        )
        return self._make("ConcatenateDataset", [self, dataset], element)

    def take(self, count: TensorLike, name: str | None = None) -> Dataset:
        """Return the first elements.

        Args:
          count: how many, an integer scalar; -1 for all.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).take(2)]
          [0, 1]
        """
        return self._like("TakeDataset", _int64(count))

    def skip(self, count: TensorLike, name: str | None = None) -> Dataset:
        """Return the elements after the first ones.

        Args:
          count: how many are left out, an integer scalar; -1 for all.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).skip(3)]
          [3, 4]
        """
        return self._like("SkipDataset", _int64(count))

    def shard(self, num_shards: TensorLike, index: TensorLike, name: str | None = None) -> Dataset:
        """Return every n-th element.

        Args:
          num_shards: n, an integer scalar.
          index: the place of the first one, an integer scalar in [0, num_shards).
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: InvalidArgumentError for an index outside the range.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).shard(2, 1)]
          [1, 3]
        """
        return self._like("ShardDataset", _int64(num_shards), _int64(index))

    def repeat(self, count: TensorLike | None = None, name: str | None = None) -> Dataset:
        """Return the elements several times.

        Args:
          count: how many times, an integer scalar; None or -1 for without end.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).repeat(2)]
          [0, 1, 0, 1]
        """
        return self._like("RepeatDataset", _int64(-1 if count is None else count))

    def prefetch(self, buffer_size: TensorLike, name: str | None = None) -> Dataset:
        """Return the elements, some of them made ahead in the background.

        Args:
          buffer_size: how many, an integer scalar; -1 (tf.data.AUTOTUNE) leaves it to the runtime.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).prefetch(2)]
          [0, 1, 2, 3, 4]
        """
        return self._like("PrefetchDataset", _int64(buffer_size))

    def cache(self, filename: TensorLike = "", name: str | None = None) -> Dataset:
        """Return the elements, kept once they were made.

        The first complete walk fills the cache; later ones read it.

        Args:
          filename: the prefix of files to keep them in, a string scalar; "" for memory.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).cache().repeat(2)]
          [0, 1, 0, 1]
        """
        return self._like("CacheDataset", convert_to_tensor(filename, dtypes.string))

    def shuffle(
        self,
        buffer_size: TensorLike,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """Return the elements in random order, drawn from a buffer.

        Args:
          buffer_size: how many elements the buffer holds, an integer scalar; for a uniform order at
            least
            the number of elements.
          seed: an integer, for the same order in each run of the program.
          reshuffle_each_iteration: whether each walk has an order of its own.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> sorted([int(x) for x in tf.data.Dataset.range(5).shuffle(5, seed=1)])
          [0, 1, 2, 3, 4]
        """
        first, second = (0 if one is None else one for one in get_seed(seed))
        if seed is not None and not (first or second):
            second = 2**31 - 1
        return self._like(
            "ShuffleDataset",
            _int64(buffer_size),
            _int64(first),
            _int64(second),
            reshuffle_each_iteration=reshuffle_each_iteration is not False,
        )

    def batch(
        self,
        batch_size: TensorLike,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return batches of elements.

        Args:
          batch_size: how many elements a batch has, an integer scalar.
          drop_remainder: whether a last batch that is smaller is left out.
          num_parallel_calls: how many calls run at once; -1 (tf.data.AUTOTUNE) for as many as
            serve, None for
            one after the other.
          deterministic: whether the order of elements is kept with parallel calls; None for yes.
          name: accepted for programs that give it.
        Returns: a dataset whose elements have one dimension more, the first.
        Raises: InvalidArgumentError, when walked over, for elements of different shapes.
        Example:
          >>> [x.tolist() for x in tf.data.Dataset.range(5).batch(2).as_numpy_iterator()]
          [[0, 1], [2, 3], [4]]
        """
        known = batch_size if drop_remainder and isinstance(batch_size, int) else None
        element = nest.map_structure(
            lambda leaf: Spec(leaf.dtype, None if leaf.dims is None else (known, *leaf.dims)),
            self._element,
        )
        inputs: list[Any] = [self, _int64(batch_size)]
        remainder = convert_to_tensor(drop_remainder)
        if num_parallel_calls is None:
            return self._make("BatchDatasetV2", [*inputs, remainder], element)
        inputs += [_int64(num_parallel_calls), remainder]
        order = _deterministic(deterministic)
        return self._make("ParallelBatchDataset", inputs, element, deterministic=order)

    def unbatch(self, name: str | None = None) -> Dataset:
        """Return the rows of each element.

        Args:
          name: accepted for programs that give it.
        Returns: a dataset whose elements lack the first dimension.
        Example:
          >>> [int(x) for x in tf.data.Dataset.from_tensors([1, 2]).unbatch()]
          [1, 2]
        """
        element = nest.map_structure(
            lambda leaf: Spec(leaf.dtype, None if leaf.dims is None else leaf.dims[1:]),
            self._element,
        )
        return self._make("UnbatchDataset", [self], element)

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Return pairs of a number and an element.

        Args:
          start: the first number.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [(int(i), int(x)) for i, x in tf.data.Dataset.range(7, 9).enumerate()]
          [(0, 7), (1, 8)]
        """
        return self.zip((self.range(start, np.iinfo(np.int64).max), self))

    # ---- with functions

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return what a function makes of each element.

        Args:
          map_func: called with the parts of an element while it is traced; gives a structure of
            tensors.
          num_parallel_calls: how many calls run at once; -1 (tf.data.AUTOTUNE) for as many as
            serve, None for
            one after the other.
          deterministic: whether the order of elements is kept with parallel calls; None for yes.
          synchronous, use_unbounded_threadpool: accepted; they change no element.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(3).map(lambda x: x * x)]
          [0, 1, 4]
        """
        traced = Traced(map_func, self._element, "Dataset_map")
        attrs: dict[str, Any] = {"f": traced.ref, "preserve_cardinality": True}
        inputs: list[Any] = [self, traced.captured]
        op = "MapDataset"
        if num_parallel_calls is not None:
            op = "ParallelMapDatasetV2"
            inputs.append(_int64(num_parallel_calls))
            attrs["deterministic"] = _deterministic(deterministic)
        return self._make(op, inputs, traced.element, **attrs)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Return the elements for which a function gives true.

        Args:
          predicate: called with the parts of an element; gives a bool scalar.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).filter(lambda x: x > 2)]
          [3, 4]
        """
        traced = Traced(predicate, self._element, "Dataset_filter")
        return self._like("FilterDataset", traced.captured, predicate=traced.ref)

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """Return the elements of the datasets that a function makes, one after the other.

        Args:
          map_func: called with the parts of an element; gives a dataset.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for a function that gives no dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(3).flat_map(tf.data.Dataset.range)]
          [0, 0, 1]
        """
        traced, element = self._nested(map_func)
        inputs = [self, traced.captured]
        return self._make("FlatMapDataset", inputs, element, f=traced.ref)

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return the elements of the datasets that a function makes, which take turns.

        Args:
          map_func: called with the parts of an element; gives a dataset.
          cycle_length: how many datasets take turns at once; None leaves it to the runtime.
          block_length: how many elements each gives in a turn; 1 by default.
          num_parallel_calls: how many calls run at once; -1 (tf.data.AUTOTUNE) for as many as
            serve, None for
            one after the other.
          deterministic: whether the order of elements is kept with parallel calls; None for yes.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for a function that gives no dataset.
        Example:
          >>> pair = lambda x: tf.data.Dataset.from_tensors(x).repeat(2)
          >>> [int(x) for x in tf.data.Dataset.range(2).interleave(pair, cycle_length=2)]
          [0, 1, 0, 1]
        """
        traced, element = self._nested(map_func)
        lengths = [-1 if cycle_length is None else cycle_length, block_length or 1]
        inputs: list[Any] = [self, traced.captured, *map(_int64, lengths)]
        attrs: dict[str, Any] = {"f": traced.ref}
        if num_parallel_calls is None:
            return self._make("InterleaveDataset", inputs, element, **attrs)
        # How much is buffered is left to the runtime.
        inputs += [_int64(-1), _int64(-1), _int64(num_parallel_calls)]
        attrs["deterministic"] = _deterministic(deterministic)
        return self._make("ParallelInterleaveDatasetV4", inputs, element, **attrs)

    def _nested(self, function: Callable[..., Any]) -> tuple[Traced, Any]:
        traced = Traced(function, self._element, "Dataset_nested")
        if traced.dataset is None:
            raise TypeError(f"the function must return a Dataset; it gave {traced.result!r}")
        return traced, traced.dataset._element

    def reduce(
        self, initial_state: object, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """Return the last state that a function makes of the state before and an element.

        Args:
          initial_state: a structure of tensors.
          reduce_func: called with the state and the element; gives the next state, of the same
            types.
          name: accepted for programs that give it.
        Returns: the state, a structure of tensors.
        Example:
          >>> add = lambda total, x: total + x
          >>> int(tf.data.Dataset.range(5).reduce(tf.constant(0, tf.int64), add))
          10
        """
        state = nest.map_structure(convert_to_tensor, initial_state)
        specs = nest.map_structure(lambda tensor: Spec(tensor.dtype, tensor.dims), state)
        traced = Traced(reduce_func, (specs, self._element), "Dataset_reduce")
        flat = nest.flatten(state)
        op = _apply(
            "ReduceDataset",
            [self._variant, flat, traced.captured],
            f=traced.ref,
            output_types=[tensor.dtype for tensor in flat],
            output_shapes=[TensorShape(tensor.dims) for tensor in flat],
        )
        return nest.pack_sequence_as(state, op.outputs)


@export("data.experimental.to_variant")
def to_variant(dataset: Dataset) -> Tensor:
    """Return a dataset as a tensor, for ops that take one.

    Args:
      dataset: the dataset.
    Returns: a variant scalar.
    Example:
      >>> tf.data.experimental.to_variant(tf.data.Dataset.range(3)).dtype.name
      'variant'
    """
    return dataset._variant


def _variant_of(leaf: object) -> Any:
    return leaf._variant if isinstance(leaf, Dataset) else leaf


def _deterministic(value: bool | None) -> str:
    return "default" if value is None else "true" if value else "false"
