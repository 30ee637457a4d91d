"""Tensors that have a value.

An EagerTensor is a Tensor whose graph is the calling thread's eager graph, so whatever is written
for tensors of a graph (public functions, gradients) serves for it.  To those it looks like the
output of a constant, or of a placeholder where it is a handle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from tideflow.graph.defaults import eager_graph
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.op_def import get_op_def
from tideflow.graph.operation import OperationGraph, TensorReference
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import ShapeLike
from tideflow.runtime.jit_memory import aligned
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle

_HANDLES = (dtypes.resource, dtypes.variant)


class EagerTensor(Tensor):
    """A tensor with its value.

    The value lies in this process, as NumPy holds it: an array or a scalar, bytes in an object
    array for strings, a bare object for a handle.  Nothing changes it.
    """

    __slots__ = ("_copies", "_device", "_dtype", "_leaf", "_part_of", "_value")

    # For a part of a variable: the variable, and the key.
    _part_of: Any

    def __init__(self, value: Any, dtype: DType, device: str = "") -> None:
        self._value = value
        self._dtype = dtype
        self._device = device
        self._leaf: Operation | None = None

    def aligned_value(self) -> Any:
        """Return the value, from now on where compiled code takes it without a copy."""
        self._value = aligned(self._value)
        return self._value

    # ---- what it is

    @property
    def value_index(self) -> int:  # type: ignore[override]
        """Which output of `op` it is: the only one."""
        return 0

    @property
    def name(self) -> str:
        """There is none.  Raises: AttributeError."""
        raise AttributeError("Tensor.name is undefined when eager execution is enabled.")

    @property
    def shown_name(self) -> str:
        """A name for texts."""
        return "EagerTensor:0"

    @property
    def op(self) -> Operation:  # type: ignore[override]
        """The constant (or, for a handle, the placeholder) that it looks like to graph code."""
        if self._leaf is None:
            self._leaf = Leaf(self)
        return self._leaf

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def dims(self) -> Dims:
        """The shape as a plain tuple."""
        return tuple(getattr(self._value, "shape", ()))

    @property
    def shape(self) -> TensorShape:
        """The shape, always fully known."""
        return TensorShape(self.dims)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dims or ())

    @property
    def graph(self) -> Graph:
        """The calling thread's eager graph."""
        return eager_home()

    @property
    def device(self) -> str:
        """Full name of the device that holds it."""
        return self._device or eager_home().default_device  # type: ignore[attr-defined]

    backing_device = device

    @property
    def copies(self) -> dict[str, Any]:
        """Copies of it on other tasks, by device: they stay as long as it does."""
        try:
            return self._copies
        except AttributeError:
            self._copies: dict[str, Any] = {}
            return self._copies

    @property
    def consumers_list(self) -> list[Operation]:  # type: ignore[override]
        """An empty list: who uses a value is not kept."""
        return []

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Check a shape.  Raises: ValueError when the tensor has another."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"the tensor has shape {self.shape}, not {TensorShape(shape)}")

    def ref(self) -> TensorReference:
        """Return a hashable stand-in."""
        return TensorReference(self)

    # ---- its value

    @property
    def is_here(self) -> bool:
        """Whether the value lies in this process."""
        return True

    @property
    def handle_data(self) -> tuple[DType, Dims] | None:
        """What a handle stands for, its element type and shape, as far as that is known."""
        value = self._value
        if isinstance(value, ResourceHandle) and value.dtypes_and_shapes:
            return value.dtypes_and_shapes[0]
        return None

    @property
    def held(self) -> Any:
        """The value as the runtime holds it; not to be changed."""
        return self._value

    def numpy(self) -> Any:
        """Return the value as an array (a scalar for shape []) that belongs to the caller."""
        value = self._value
        if self._dtype in _HANDLES:
            raise ValueError(f"a tensor of type {self._dtype.name} has no value for NumPy")
        if isinstance(value, np.ndarray):
            if value.ndim == 0:
                return value[()]
            return value.copy()
        return value

    def cpu(self) -> EagerTensor:
        """Return the tensor on this process's first CPU."""
        return EagerTensor(self._value, self._dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._dtype in _HANDLES:
            raise ValueError(f"a tensor of type {self._dtype.name} has no value for NumPy")
        array = np.asarray(self._value)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        if copy:
            return array.copy()
        view = array.view()
        view.flags.writeable = False  # nothing changes a tensor
        return view

    def __dlpack__(self, **kwargs: Any) -> Any:
        """Return a capsule over the value (a copy, since the protocol cannot say "read only")."""
        return np.array(self._value).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bool__(self) -> bool:
        return bool(self._scalar("a truth value"))

    def __int__(self) -> int:
        return int(self._number("an int"))

    def __float__(self) -> float:
        return float(self._number("a float"))

    def __complex__(self) -> complex:
        return complex(self._number("a complex number"))

    def __index__(self) -> int:
        found = np.asarray(self._number("an index"))
        if found.ndim == 0 and found.dtype.kind not in "iu":
            # As TensorFlow, which asks NumPy's scalar, of which only integers can tell.
            raise AttributeError(f"{found.dtype.name} has no attribute '__index__'")
        return int(found.__index__())

    def __format__(self, spec: str) -> str:
        # As TensorFlow: formatted, a tensor shows its value alone.
        shown = self.numpy()
        return format(shown.item() if spec and self.dims == () else shown, spec)

    def _number(self, what: str) -> Any:
        array = np.asarray(self._value)
        if array.ndim:
            raise TypeError(
                f"{what} is wanted of a tensor of shape {list(array.shape)}; only a scalar is one"
            )
        return array[()]

    def _scalar(self, what: str) -> Any:
        array = np.asarray(self._value)
        if array.size == 0:
            return False
        if array.size != 1:
            raise ValueError(
                f"{what} is wanted of a tensor of shape {list(array.shape)}; only one element has "
                "one (tf.reduce_any and tf.reduce_all decide for many)"
            )
        return array.reshape(())[()]

    def __len__(self) -> int:
        dims = self.dims or ()
        if not dims:
            raise TypeError("a scalar tensor has no len()")
        return int(dims[0] or 0)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.dims:
            raise TypeError("a scalar tensor cannot be iterated")
        return (self[i] for i in range(len(self)))

    def __hash__(self) -> int:
        raise TypeError("a tensor is unhashable; use tensor.ref() as the key")

    def __reduce__(self) -> Any:
        return (_restored, (np.asarray(self._value), self._dtype.name))

    def __copy__(self) -> EagerTensor:
        return self

    def __deepcopy__(self, memo: Any) -> EagerTensor:
        return self

    def eval(self, feed_dict: Any = None, session: Any = None) -> NoReturn:
        """Refuse: there is no session.  `numpy()` gives the value."""
        raise NotImplementedError("an eager tensor is not evaluated in a session; use numpy()")

    def __str__(self) -> str:
        shown = self._show()
        gap = "\n" if "\n" in shown else ""
        return f"tf.Tensor({gap}{shown}, shape={_shown(self.dims)}, dtype={self._dtype.name})"

    def __repr__(self) -> str:
        shown = self._show(repr)
        gap = "\n" if "\n" in shown else ""
        return (
            f"<tf.Tensor: shape={_shown(self.dims)}, dtype={self._dtype.name}, numpy={gap}{shown}>"
        )

    def _show(self, show: Any = str) -> str:
        if self._dtype in _HANDLES:
            return f"<{self._dtype.name}>"
        value = self._value
        if getattr(value, "shape", None) != ():
            return str(show(value))
        # A scalar shows as its number, in either form; in that of `repr` as the widest type does.
        if show is repr and self._dtype.is_floating:
            return str(float(value))
        if show is repr and self._dtype.is_complex:
            return str(complex(value))
        return str(value)


class Leaf(Operation):
    """What an eager tensor looks like to code written for graphs: an op without inputs."""

    __slots__ = ()

    def __init__(self, tensor: EagerTensor) -> None:
        attrs: dict[str, Any] = {"dtype": tensor.dtype}
        if tensor.dtype in _HANDLES or not tensor.is_here:
            op_def = get_op_def("Placeholder")
            attrs["shape"] = TensorShape(tensor.dims)
            if tensor.handle_data is not None:
                attrs["_handle_dtypes"] = [tensor.handle_data[0]]
                attrs["_handle_shapes"] = [TensorShape(tensor.handle_data[1])]
        else:
            op_def = get_op_def("Const")
            attrs["value"] = np.asarray(tensor.held)
        fill_operation(self, eager_home(), op_def, attrs, tensor.device)
        self.outputs = [tensor]
        self.edges = []


def fill_operation(
    op: Operation, graph: OperationGraph, op_def: Any, attrs: dict[str, Any], device: str
) -> None:
    """Set the fields of an Operation that no graph holds."""
    op.name = op_def.name
    op.op_def = op_def
    op.attrs = attrs
    op.device = device
    op.controls = []
    op._output_types = None
    op.graph = graph
    op.index = 0
    op.frames = ()
    op.control_flow_context = None
    op.static_values = {}


def eager_home() -> Graph:
    """Return the calling thread's eager graph.  Raises: InternalError where nothing is eager."""
    found: Graph | None = eager_graph()
    if found is None:
        raise errors.InternalError("an eager tensor is used, but eager execution is off")
    return found


def _restored(array: Any, dtype_name: str) -> EagerTensor:
    return EagerTensor(array, dtypes.as_dtype(dtype_name))


def _shown(dims: Dims) -> str:
    return str(tuple(dims or ()))
