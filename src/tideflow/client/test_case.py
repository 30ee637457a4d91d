# ruff: noqa: PT009 - a TestCase is made of asserts of unittest.
"""tf.test: a TestCase with sessions, and asserts for arrays and messages.

Source: tensorflow/python/framework/test_util.py, python/platform/test.py for names and defaults.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import tempfile
import unittest
import unittest.mock
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import Message

from tideflow.client.session import Session
from tideflow.graph.graph import (
    Graph,
    Tensor,
    get_default_graph,
    get_default_session,
)
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_value
from tideflow.ops.framework import nest
from tideflow.ops.framework.seeds import DEFAULT_GRAPH_SEED, set_random_seed
from tideflow.wire import errors
from tideflow.wire import messages as pb


@export("test.TestCase")
class TensorFlowTestCase(unittest.TestCase):
    """A test whose graph is new for each method, with sessions and asserts for tensors."""

    # What pytest and unittest find by name in modules that import it is not to be run itself.
    __test__ = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__test__ = True

    def setUp(self) -> None:
        """Begin with an empty default graph, and the same random numbers before each method."""
        super().setUp()
        random.seed(DEFAULT_GRAPH_SEED)
        np.random.seed(DEFAULT_GRAPH_SEED)
        self._cached: Any = None
        self._folder: str | None = None
        if not get_default_graph().is_eager:
            self.enterContext(Graph().as_default())
        set_random_seed(DEFAULT_GRAPH_SEED)

    def tearDown(self) -> None:
        """Close the session that was kept, and delete the temporary folder."""
        if self._cached is not None:
            self._cached.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        super().tearDown()

    def get_temp_dir(self) -> str:
        """Return a folder of this test alone, which goes with it."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="test-")
        return self._folder

    # ---- sessions

    @contextlib.contextmanager
    def session(
        self,
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Any]:
        """Open a session of a graph (the default one) as the default session."""
        with contextlib.ExitStack() as stack:
            if graph is not None:
                stack.enter_context(graph.as_default())
            yield stack.enter_context(Session(graph=graph, config=config))

    @contextlib.contextmanager
    def cached_session(
        self,
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Any]:
        """Use the one session of this test, which stays open, as the default session."""
        if self._cached is None:
            self._cached = Session(graph=graph, config=config)
        with self._cached.graph.as_default(), self._cached.as_default():
            yield self._cached

    def test_session(
        self,
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Any:
        """Return cached_session, or session for a graph of its own."""
        if graph is None:
            return self.cached_session(graph, config, use_gpu, force_gpu)
        return self.session(graph, config, use_gpu, force_gpu)

    # unittest takes it for a test by its name.
    test_session.__unittest_skip__ = True  # type: ignore[attr-defined]
    test_session.__unittest_skip_why__ = "it is no test"  # type: ignore[attr-defined]

    def evaluate(self, tensors: Any) -> Any:
        """Return the values of a structure of tensors: eager ones, or by the default session."""
        graphs = [getattr(leaf, "graph", None) for leaf in nest.flatten(tensors)]
        if all(graph is None or graph.is_eager for graph in graphs):
            return nest.map_structure(_value, tensors)
        session = get_default_session()
        if session is None:
            with self.test_session() as opened:
                return opened.run(tensors)
        return session.run(tensors)

    def _GetNdArray(self, value: object) -> Any:
        if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
            value = self.evaluate(value)
        return np.asarray(value)

    # ---- asserts of arrays

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Fail unless two arrays have one shape and equal elements (NaN equals NaN)."""
        one, other = self._GetNdArray(a), self._GetNdArray(b)
        if not np.size(b) and not np.size(a) and one.shape == other.shape:
            return
        self.assertEqual(one.shape, other.shape, msg or f"shapes {one.shape} and {other.shape}")
        same = one == other
        if one.dtype.kind in "fc" and other.dtype.kind in "fc":
            same = np.logical_or(same, np.logical_and(np.isnan(one), np.isnan(other)))
        if not np.all(same):
            places = np.argwhere(np.logical_not(same))[:10].tolist()
            self.fail(f"{msg or 'not equal'} at {places}:\n{one}\n{other}")

    def assertNotAllEqual(self, a: TensorLike, b: TensorLike, msg: str | None = None) -> None:
        """Fail where two arrays are equal."""
        self._fails(lambda: self.assertAllEqual(a, b), msg or "the two are equal at all elements")

    def assertAllClose(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        msg: str | None = None,
    ) -> None:
        """Fail unless structures of arrays differ by at most atol + rtol * abs(b)."""
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            self.assertEqual(set(a), set(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, f"{msg or ''} [{key}]")
        elif isinstance(a, (list, tuple)) and not self._is_array(a, b):
            self.assertEqual(len(a), len(b), msg or "lengths")
            for place, (one, other) in enumerate(zip(a, b)):
                self.assertAllClose(one, other, rtol, atol, f"{msg or ''} [{place}]")
        else:
            self._assert_arrays_close(self._GetNdArray(a), self._GetNdArray(b), rtol, atol, msg)

    def _is_array(self, *values: Any) -> bool:
        """Whether all values are arrays, and no sequences of arrays of several shapes."""
        try:
            return all(self._GetNdArray(value).dtype.kind != "O" for value in values)
        except (ValueError, TypeError):
            return False

    def _assert_arrays_close(
        self, one: Any, other: Any, rtol: float, atol: float, msg: str | None
    ) -> None:
        self.assertEqual(one.shape, other.shape, msg or f"shapes {one.shape} and {other.shape}")
        if not np.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True):
            self.fail(f"{msg or 'not close'} (rtol={rtol}, atol={atol}):\n{one}\n{other}")

    def assertNotAllClose(
        self,
        a: TensorLike,
        b: TensorLike,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        msg: str | None = None,
    ) -> None:
        """Fail where two structures of arrays are close."""
        self._fails(lambda: self.assertAllClose(a, b, rtol, atol), msg or "the two are close")

    def assertAllCloseAccordingToType(
        self,
        a: TensorLike,
        b: TensorLike,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Fail unless two arrays are as close as their element types let expect."""
        kinds = {self._GetNdArray(a).dtype.name, self._GetNdArray(b).dtype.name}
        for kind, least in (
            ("float32", (float_rtol, float_atol)),
            ("complex64", (float_rtol, float_atol)),
            ("float16", (half_rtol, half_atol)),
            ("bfloat16", (bfloat16_rtol, bfloat16_atol)),
        ):
            if kind in kinds:
                rtol, atol = max(rtol, least[0]), max(atol, least[1])
        self.assertAllClose(a, b, rtol, atol, msg)

    def _all(self, a: TensorLike, holds: Callable[[Any], Any], what: str) -> None:
        array = self._GetNdArray(a)
        if not np.all(holds(array)):
            self.fail(f"not all elements are {what}:\n{array}")

    def assertAllGreater(self, a: TensorLike, comparison_target: float | Array) -> None:
        """Fail unless all elements are above a number."""
        self._all(a, lambda x: x > comparison_target, f"> {comparison_target}")

    def assertAllGreaterEqual(self, a: TensorLike, comparison_target: float | Array) -> None:
        """Fail where an element is below a number."""
        self._all(a, lambda x: x >= comparison_target, f">= {comparison_target}")

    def assertAllLess(self, a: TensorLike, comparison_target: float | Array) -> None:
        """Fail unless all elements are below a number."""
        self._all(a, lambda x: x < comparison_target, f"< {comparison_target}")

    def assertAllLessEqual(self, a: TensorLike, comparison_target: float | Array) -> None:
        """Fail where an element is above a number."""
        self._all(a, lambda x: x <= comparison_target, f"<= {comparison_target}")

    def assertAllInRange(
        self,
        target: TensorLike,
        lower_bound: float | Array,
        upper_bound: float | Array,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Fail where an element is outside of a range, whose ends belong to it unless open."""
        self._all(
            target,
            lambda x: np.logical_and(
                x > lower_bound if open_lower_bound else x >= lower_bound,
                x < upper_bound if open_upper_bound else x <= upper_bound,
            ),
            f"in the range from {lower_bound} to {upper_bound}",
        )

    def assertAllInSet(self, target: TensorLike, expected_set: Any) -> None:
        """Fail where an element is not in a set."""
        self._all(target, lambda x: np.isin(x, list(expected_set)), f"in {expected_set}")

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Fail where two numbers differ by more than err."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, msg or f"{f1} and {f2} differ")

    def assertArrayNear(
        self, farray1: Sequence[float], farray2: Sequence[float], err: float, msg: str | None = None
    ) -> None:
        """Fail where elements of two sequences differ by more than err."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for one, other in zip(farray1, farray2):
            self.assertNear(float(one), float(other), err, msg)

    def assertNDArrayNear(
        self, ndarray1: Array, ndarray2: Array, err: float, msg: str | None = None
    ) -> None:
        """Fail where two arrays are further apart than err, by the norm of their difference."""
        distance = np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2))
        self.assertTrue(distance < err, msg or f"the distance is {distance}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Fail unless two arrays or tensors have one shape."""
        shapes = [
            tuple(np.shape(x)) if isinstance(x, np.ndarray) else tuple(x.shape.as_list())
            for x in (input_a, input_b)
        ]
        self.assertEqual(shapes[0], shapes[1], msg)

    def assertDTypeEqual(self, target: TensorLike, expected_dtype: Any) -> None:
        """Fail unless an array or tensor has an element type."""
        wanted = getattr(expected_dtype, "as_numpy_dtype", expected_dtype)
        self.assertEqual(self._GetNdArray(target).dtype, np.dtype(wanted))

    def _fails(self, check: Callable[[], None], msg: str) -> None:
        try:
            check()
        except AssertionError:
            return
        self.fail(msg)

    # ---- asserts of other things

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Fail unless a text starts with another."""
        if not actual.startswith(expected_start):
            self.fail(msg or f"{actual!r} does not start with {expected_start!r}")

    def assertEmpty(self, container: Sized, msg: str | None = None) -> None:
        """Fail where there is something in a container."""
        self.assertEqual(len(container), 0, msg)

    def assertNotEmpty(self, container: Sized, msg: str | None = None) -> None:
        """Fail where there is nothing in a container."""
        self.assertNotEqual(len(container), 0, msg)

    def assertLen(self, container: Sized, expected_len: int, msg: str | None = None) -> None:
        """Fail unless a container has so many items."""
        self.assertEqual(len(container), expected_len, msg)

    def assertItemsEqual(
        self, expected_seq: Sequence[object], actual_seq: Sequence[object], msg: str | None = None
    ) -> None:
        """Fail unless two sequences have the same items, in any order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertProtoEquals(
        self, expected_message_maybe_ascii: str | Message, message: Message, msg: str | None = None
    ) -> None:
        """Fail unless two messages are equal; the first one may be text."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, str):
            expected = text_format.Parse(expected, type(message)())
        self.assertEqual(expected, message, msg)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: type[BaseException], expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """Fail unless an error is raised whose text fits a pattern, or that a function accepts."""
        given = expected_err_re_or_predicate
        try:
            yield
        except exception_type as error:
            text = getattr(error, "message", None) or str(error)
            holds = given(error) if callable(given) else re.search(given, text)
            if not holds:
                raise AssertionError(f"{given!r} does not fit the error {error!r}") from error
            return
        self.fail(f"{exception_type} was not raised")

    def assertRaisesIncompatibleShapesError(
        self, exception_type: Any = errors.InvalidArgumentError
    ) -> Any:
        """Fail unless an error is raised whose text says that shapes do not fit together."""
        said = r"Incompatible shapes|Dimensions must be equal|required broadcastable shapes"
        return self.assertRaisesWithPredicateMatch(exception_type, said)

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """Fail unless an OpError is raised whose text fits a pattern."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)


def _value(leaf: object) -> Any:
    return leaf.numpy() if hasattr(leaf, "numpy") else leaf


_FOLDERS: list[str] = []


@export("test.get_temp_dir")
def get_temp_dir() -> str:
    """Return a folder for the tests of this process; TEST_TMPDIR names where."""
    if not _FOLDERS:
        _FOLDERS.append(os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp(prefix="tests-"))
    return _FOLDERS[0]


@export("test.main")
def main(argv: Any = None) -> Any:
    """Run the tests of the program, as unittest.main."""
    return unittest.main(argv=argv)


@export("test.is_gpu_available")
def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether sessions of this process place operations on a GPU."""
    return bool(gpu_device_name())


@export("test.gpu_device_name")
def gpu_device_name() -> str:
    """Return the name of the first GPU, "" where there is none."""
    with Session(graph=Graph()) as session:
        names = [one.name for one in session.list_devices() if one.device_type == "GPU"]
    return names[0] if names else ""


@export("test.is_built_with_cuda")
def is_built_with_cuda() -> bool:
    """Return False: accelerators are used through XLA."""
    return False


export_value("test.mock", unittest.mock)
