"""`tf.data` in the TF2 shape: datasets that a program walks over itself.

The transformations are those of graphs; walking pulls elements from an iterator of the context.

Source: tensorflow/python/data/ops/dataset_ops.py, iterator_ops.py.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tideflow.eager.context import context
from tideflow.eager.tensor import EagerTensor
from tideflow.graph.building import apply_op, convert_to_tensor, to_array
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.control_flow import register_function
from tideflow.ops.data import (
    Dataset,
    IteratorResource,
    Spec,
    Traced,
    as_dataset,
    drive,
    end_of_sequence,
)
from tideflow.ops.data.values import Dataset as RuntimeDataset
from tideflow.ops.export import export_v2, export_value_v2
from tideflow.ops.framework import nest
from tideflow.runtime.loop import on_loop, run_sync
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2
export_value_v2("data.INFINITE_CARDINALITY", INFINITE_CARDINALITY)
export_value_v2("data.UNKNOWN_CARDINALITY", UNKNOWN_CARDINALITY)


@export_v2("data.Dataset")
class DatasetV2(Dataset):
    """Elements to come, each a structure of tensors, which `for` gives one by one.

    Args:
      variant: a variant scalar that holds the dataset.
      element: the types and shapes of an element.
    Datasets are made by the class methods and by transformations of other datasets, never by the
    constructor.  Nothing is read or computed before somebody walks over them.

    Source: tensorflow/python/data/ops/dataset_ops.py for names and defaults.
    Example:
      >>> dataset = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0).map(lambda x: x * x)
      >>> [int(x) for x in dataset]
      [0, 4, 16, 36, 64]
    """

    # ---- where elements come from

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = (),
        output_signature: Any = None,
        name: str | None = None,
    ) -> DatasetV2:
        """Return a dataset of what a Python generator yields; it begins anew for each walk.

        Args:
          generator: called with args, as NumPy arrays; gives an iterable.
          output_types, output_shapes: the types and shapes of an element; or give output_signature.
          args: tensors.
          output_signature: a structure of TensorSpecs for an element.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for something that cannot be called, without a signature, or (when walked
          over) for an element of another shape.
        Example:
          >>> def squares():
          ...     yield from (0, 1, 4)
          >>> spec = tf.TensorSpec([], tf.int32)
          >>> [int(x) for x in tf.data.Dataset.from_generator(squares, output_signature=spec)]
          [0, 1, 4]
        """
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable")
        specs = _signature(output_types, output_shapes, output_signature)
        flat = nest.flatten(specs)
        types = [spec.dtype for spec in flat]
        running: dict[int, Iterator[Any]] = {}
        keys = itertools.count()

        def begin(*values: Any) -> Any:
            key = next(keys)
            running[key] = iter(generator(*values))
            return np.int64(key)

        def proceed(key: Any) -> list[Any]:
            parts = _parts(specs, next(running[int(key)]))
            return [_as_specified(value, spec) for value, spec in zip(parts, flat)]

        def end(key: Any) -> Any:
            running.pop(int(key), None)
            return np.int64(0)

        given = [convert_to_tensor(arg) for arg in args]
        int64 = [dtypes.int64]
        key_spec = Spec(dtypes.int64, ())
        start = Traced(lambda *ignored: _py_call(begin, given, int64), (), "generator_init")
        proceeding = Traced(lambda k: tuple(_py_call(proceed, [k], types)), key_spec, "generator")
        ending = Traced(lambda k: _py_call(end, [k], int64), key_spec, "generator_end")
        made: DatasetV2 = cls._make(  # type: ignore[assignment]
            "GeneratorDataset",
            [start.captured, proceeding.captured, ending.captured],
            nest.map_structure(lambda spec: Spec(spec.dtype, spec.dims), specs),
            init_func=start.ref,
            next_func=proceeding.ref,
            finalize_func=ending.ref,
        )
        return made

    @classmethod
    def list_files(
        cls,
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> DatasetV2:
        """Return a dataset of the names of files that match patterns.

        Args:
          file_pattern: glob patterns, a string scalar or vector.
          shuffle: whether the names come in random order; None for yes.
          seed: an integer, for the same order in each run of the program.
          name: accepted for programs that give it.
        Returns: a dataset of string scalars.
        Example:
          >>> [x for x in tf.data.Dataset.list_files("/nowhere/*.txt")]
          []
        """
        names = apply_op("MatchingFiles", file_pattern)
        made: DatasetV2 = cls.from_tensor_slices(names)  # type: ignore[assignment]
        if shuffle is None or shuffle:
            count = max(1, int(names.shape.as_list()[0] or 1))
            return made.shuffle(count, seed)  # type: ignore[return-value]
        return made

    # ---- walking

    def __iter__(self) -> OwnedIterator:
        if not get_default_graph().is_eager:
            raise RuntimeError(
                "a dataset is walked over eagerly; in a tf.function write `for x in dataset` under "
                "AutoGraph, or use dataset.reduce()"
            )
        return OwnedIterator(self)

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Give the elements as NumPy arrays.

        Returns: an iterator over structures of arrays.
        Example:
          >>> [x.item() for x in tf.data.Dataset.range(2).as_numpy_iterator()]
          [0, 1]
        """
        for element in self:
            yield nest.map_structure(lambda tensor: tensor.numpy(), element)

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the only element.

        Args:
          name: accepted for programs that give it.
        Returns: a structure of tensors.
        Raises: InvalidArgumentError for none or several.
        Example:
          >>> int(tf.data.Dataset.from_tensors(7).get_single_element())
          7
        """
        found = [element for element, _ in zip(self, range(2))]
        if len(found) != 1:
            raise errors.InvalidArgumentError(
                f"the dataset has {'no' if not found else 'more than one'} element; one is wanted"
            )
        return found[0]

    @property
    def element_spec(self) -> Any:
        """The structure of TensorSpecs of an element.

        Example:
          >>> tf.data.Dataset.range(3).element_spec.dtype.name
          'int64'
        """
        return nest.map_structure(lambda leaf: TensorSpec(leaf.dims, leaf.dtype), self._element)

    def cardinality(self) -> Tensor:
        """Return how many elements there are.

        Returns: an int64 scalar; -1 for no end, -2 where that is not known.
        Example:
          >>> int(tf.data.Dataset.range(3).cardinality())
          3
        """
        found: Tensor = apply_op("DatasetCardinality", self._variant)
        return found

    def __len__(self) -> int:
        count: int = int(self.cardinality())  # type: ignore[call-overload]
        if count == INFINITE_CARDINALITY:
            raise TypeError("The dataset is infinite.")
        if count == UNKNOWN_CARDINALITY:
            raise TypeError("The dataset length is unknown.")
        return count

    def __bool__(self) -> bool:
        return True

    # ---- more transformations

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """Return what a function makes of the dataset.

        Args:
          transformation_func: called with the dataset.
        Returns: what the function gives.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).apply(lambda dataset: dataset.take(2))]
          [0, 1]
        """
        return transformation_func(self)

    def with_options(self, options: Any, name: str | None = None) -> DatasetV2:
        """Return the dataset; options have no meaning here.

        Args:
          options: tf.data.Options.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).with_options(tf.data.Options())]
          [0, 1]
        """
        del options, name
        return self

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Any:
        """Return the elements before the first one for which a function gives false.

        Args:
          predicate: called with the parts of an element; gives a bool scalar.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).take_while(lambda x: x < 2)]
          [0, 1]
        """
        traced = Traced(predicate, self._element, "Dataset_take_while")
        return self._like("TakeWhileDataset", traced.captured, predicate=traced.ref)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Any:
        """Return batches of elements, padded to one shape.

        Args:
          batch_size: how many elements a batch has, an integer scalar.
          padded_shapes: a structure of shapes for an element's parts; None in a shape for the
            largest size
            in the batch, and for all of it by default.
          padding_values: a structure of scalars; 0 and "" by default.
          drop_remainder: whether a last batch that is smaller is left out.
          name: accepted for programs that give it.
        Returns: a dataset whose elements have one dimension more, the first.
        Raises: DataLossError or InvalidArgumentError, when walked over, for an element larger than
          its padded shape.
        Example:
          >>> ones = tf.data.Dataset.range(1, 3).map(lambda n: tf.fill([n], 1))
          >>> [x.tolist() for x in ones.padded_batch(2).as_numpy_iterator()]
          [[[1, 0], [1, 1]]]
        """
        leaves = nest.flatten(self._element)
        if padded_shapes is None:
            shapes = [leaf.dims or () for leaf in leaves]
        else:
            shapes = [TensorShape(s).dims or () for s in _flat_shapes(padded_shapes, len(leaves))]
        values = [None] * len(leaves) if padding_values is None else nest.flatten(padding_values)
        values = values * len(leaves) if len(values) == 1 else values
        sizes = [
            convert_to_tensor([-1 if size is None else size for size in dims], dtypes.int64)
            for dims in shapes
        ]
        paddings = [_padding(value, leaf.dtype) for value, leaf in zip(values, leaves)]
        known = batch_size if drop_remainder and isinstance(batch_size, int) else None
        element = nest.pack_sequence_as(
            self._element,
            [Spec(leaf.dtype, (known, *dims)) for leaf, dims in zip(leaves, shapes)],
        )
        inputs = [
            self,
            convert_to_tensor(batch_size, dtypes.int64),
            sizes,
            paddings,
            convert_to_tensor(drop_remainder),
        ]
        return self._make("PaddedBatchDatasetV2", inputs, element, "Toutput_types")

    def __repr__(self) -> str:
        return f"<Dataset element_spec={self.element_spec}>"


@export_v2("data.experimental.from_variant")
def from_variant(variant: Tensor, structure: Any) -> DatasetV2:
    """Return the dataset that a variant tensor holds.

    Args:
      variant: a variant scalar.
      structure: the TensorSpecs of an element, as `Dataset.element_spec` gives them.
    Returns: a dataset.
    Example:
      >>> given = tf.data.Dataset.range(2)
      >>> variant = tf.data.experimental.to_variant(given)
      >>> [int(x) for x in tf.data.experimental.from_variant(variant, given.element_spec)]
      [0, 1]
    """
    return DatasetV2(variant, nest.map_structure(lambda s: Spec(s.dtype, s.dims), structure))


class OwnedIterator:
    """A walk over a dataset; its state goes with it."""

    def __init__(self, dataset: DatasetV2) -> None:
        self._element = dataset._element
        leaves = nest.flatten(self._element)
        self._attrs: dict[str, Any] = {
            "output_types": [leaf.dtype for leaf in leaves],
            "output_shapes": [TensorShape(leaf.dims) for leaf in leaves],
        }
        self._resource_handle: Tensor = apply_op("AnonymousIteratorV3", **self._attrs)
        # The functions of the dataset live as long as the walk.
        self._dataset = dataset
        apply_op("MakeIterator", dataset._variant, self._resource_handle)
        self._types: list[DType] = self._attrs["output_types"]
        self._shapes = [leaf.dims for leaf in leaves]
        self._turn = threading.Lock()
        # Functions keep their state, such as that of random numbers, in the walk's own context.
        self._scope = contextvars.copy_context()
        self._direct = _direct_iterator(dataset._variant, self._resource_handle)

    @property
    def _handle(self) -> Tensor:
        """The iterator's handle; from now on others may use it, on the loop."""
        with self._turn:
            self._direct = None
        return self._resource_handle

    @property
    def element_spec(self) -> Any:
        """The TensorSpecs of an element."""
        return self._dataset.element_spec

    def __iter__(self) -> OwnedIterator:
        return self

    def __next__(self) -> Any:
        try:
            return self.get_next()
        except errors.OutOfRangeError:
            raise StopIteration from None

    def get_next(self) -> Any:
        """Return the next element.  Raises: OutOfRangeError at the end."""
        is_eager = get_default_graph().is_eager
        if self._direct is not None and is_eager and not on_loop():
            with self._turn:
                if self._direct is not None:
                    return self._next_here(self._direct)
        handle = self._resource_handle if is_eager else self._handle
        found = apply_op("IteratorGetNext", handle, **self._attrs)
        flat = [found] if isinstance(found, Tensor) else list(found)
        return nest.pack_sequence_as(self._element, flat)

    def _next_here(self, iterator: IteratorResource) -> Any:
        """Return the next element, made in the calling thread."""
        element = self._scope.run(drive, iterator.next(self._types, self._shapes), run_sync)
        if element is None:
            raise end_of_sequence()
        tensors = [EagerTensor(value, dtype) for value, dtype in zip(element, self._types)]
        if not nest.is_nested(self._element):
            return tensors[0]
        return nest.pack_sequence_as(self._element, tensors)


# Those whose iterators need no event loop.  The others work ahead, or wait for files or time.
_LOOPLESS = frozenset(
    (
        *("Batch", "Concatenate", "Filter", "FlatMap", "Map", "Options", "PaddedBatch", "Range"),
        *("Repeat", "Shard", "Shuffle", "ShuffleAndRepeat", "Skip", "Take", "TakeWhile"),
        *("Tensor", "TensorSlice", "Unbatch", "Window", "Zip"),
    )
)


def _direct_iterator(variant: Any, handle: Any) -> IteratorResource | None:
    """Return the iterator if its elements can be made in the calling thread."""
    if not (
        isinstance(variant, EagerTensor) and variant.is_here and isinstance(handle, EagerTensor)
    ):
        return None
    if not _is_loopless(as_dataset(variant.held)):
        return None
    device = context().devices.get(handle.held.device)
    found: IteratorResource = device.resources.lookup(handle.held, IteratorResource)
    return found


def _is_loopless(dataset: RuntimeDataset) -> bool:
    return dataset.kind in _LOOPLESS and all(map(_is_loopless, dataset.inputs))


@export_v2("data.Options")
class Options:
    """Options of datasets: accepted for programs that set them; they have no meaning here.

    Example:
      >>> options = tf.data.Options()
      >>> options.deterministic = False
    """

    def __init__(self) -> None:
        self.autotune = _Anything()
        self.distribute = _Anything()
        self.experimental_optimization = _Anything()
        self.threading = _Anything()
        self.deterministic: bool | None = None
        self.experimental_distribute = self.distribute


class _Anything:
    """Takes any attribute."""


@export_v2("data.TextLineDataset")
def text_line_dataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV2:
    r"""Return a dataset of the lines of files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
    Returns: a dataset of string scalars, without the ends of lines.
    Raises: NotFoundError, when walked over, for a file that is not there.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("one", "two", sep="\n", file=file, flush=True)
      ...     [line.numpy() for line in tf.data.TextLineDataset(file.name)]
      [b'one', b'two']
    """
    files = (filenames, compression_type, buffer_size, num_parallel_reads)
    return _of_files("TextLineDataset", *files)


@export_v2("data.TFRecordDataset")
def tf_record_dataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV2:
    """Return a dataset of the records of TFRecord files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
    Returns: a dataset of string scalars.
    Raises: NotFoundError, when walked over, for a file that is not there; DataLossError for a
      record that
      was changed or cut.
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     with tf.io.TFRecordWriter(path) as writer:
      ...         writer.write(b"one")
      ...     [record.numpy() for record in tf.data.TFRecordDataset(path)]
      [b'one']
    """
    files = (filenames, compression_type, buffer_size, num_parallel_reads)
    return _of_files("TFRecordDataset", *files)


def _of_files(
    op: str, filenames: Any, compression: str | None, buffer_size: Any, at_once: int | None
) -> DatasetV2:
    made: DatasetV2

    def read(names: Any) -> DatasetV2:
        size = convert_to_tensor(0 if buffer_size is None else buffer_size, dtypes.int64)
        inputs = [names, convert_to_tensor(compression or ""), size]
        return DatasetV2._make(op, inputs, Spec(dtypes.string, ()))  # type: ignore[return-value]

    if at_once is None and not isinstance(filenames, Dataset):
        return read(convert_to_tensor(filenames, dtypes.string))
    if not isinstance(filenames, Dataset):
        names = apply_op("Reshape", convert_to_tensor(filenames, dtypes.string), [-1])
        filenames = DatasetV2.from_tensor_slices(names)
    if at_once is None:
        made = filenames.flat_map(read)
    else:
        made = filenames.interleave(read, cycle_length=at_once)
    return made


def _as_specified(value: Any, spec: Any) -> Any:
    """Return what a generator gave as an array.  Raises: TypeError for another shape or type."""
    array = to_array(value, spec.dtype)
    if not spec.shape.is_compatible_with(array.shape):
        raise TypeError(
            f"the generator gave an element of shape {list(array.shape)}, expected {spec.shape}"
        )
    return array


def _parts(specs: Any, element: Any) -> list[Any]:
    """Return an element's parts by the structure of the specs: a list may be one tensor."""
    if isinstance(specs, dict):
        return [part for key in sorted(specs) for part in _parts(specs[key], element[key])]
    if isinstance(specs, (list, tuple)):
        if len(element) != len(specs):
            raise TypeError(
                f"the generator gave an element of {len(element)} parts; {len(specs)} are declared"
            )
        return [part for spec, item in zip(specs, element) for part in _parts(spec, item)]
    return [element]


def _py_call(function: Callable[..., Any], inputs: list[Any], types: list[Any]) -> Any:
    """Return the results of a Python function, called by the graph that is being built."""
    found = apply_op("PyFunc", inputs, token=register_function(function), Tout=types)
    return found[0] if len(types) == 1 and function.__name__ != "proceed" else found


def _signature(types: Any, shapes: Any, signature: Any) -> Any:
    if signature is not None:
        return signature
    if types is None:
        raise TypeError("Either `output_types` or `output_signature` must be specified")
    if shapes is None:
        return nest.map_structure(lambda dtype: TensorSpec(None, dtype), types)
    flat = nest.flatten(types)
    specs = [TensorSpec(s, t) for s, t in zip(_flat_shapes(shapes, len(flat)), flat)]
    return nest.pack_sequence_as(types, specs)


def _flat_shapes(shapes: Any, count: int) -> list[Any]:
    """Return a structure of shapes as a list; lists of numbers are shapes."""
    if isinstance(shapes, dict):
        return [shapes[key] for key in sorted(shapes)]
    if isinstance(shapes, tuple) and len(shapes) == count and not _is_shape(shapes):
        return list(shapes)
    return [shapes] * count


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(n is None or isinstance(n, int) for n in value)


def _padding(value: Any, dtype: Any) -> Tensor:
    if value is not None:
        return convert_to_tensor(value, dtype)
    return convert_to_tensor("" if dtype is dtypes.string else 0, dtype)
