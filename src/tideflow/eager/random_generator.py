"""tf.random.Generator: random numbers from a state that the program holds.

The state is a counter of 128 bits and a key, as Philox has them; it is a variable, so functions and
checkpoints take it along.

Source: tensorflow/python/ops/stateful_random_ops.py; core/ops/stateful_random_ops.cc.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.eager.tracking import AutoTrackable
from tideflow.graph.behavior import behavior
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export_v2
from tideflow.ops.framework import shape_argument
from tideflow.ops.state import init_scope
from tideflow.ops.state.base import Variable
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import UnimplementedError

# How far the counter goes on for each number drawn: what the greediest distribution needs.
_COUNTS_PER_NUMBER = 256


@export_v2("random.Algorithm")
class Algorithm(enum.Enum):
    """How the bits are made.  Only Philox (1) draws here, as on TensorFlow's CPUs and GPUs."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


class _Replicas:
    """How generators of strategies tell replicas apart.

    Attributes:
      number: gives whether a strategy is in scope, and the number of the replica that runs (None
        across replicas).
    """

    def __init__(self) -> None:
        self.number: Callable[[], tuple[bool, int | None]] = lambda: (False, None)


_replicas = _Replicas()


def distinguish_replicas(by: Callable[[], tuple[bool, int | None]]) -> None:
    """Give each replica numbers of its own from generators that are made in a strategy's scope."""
    _replicas.number = by


_NAMED = {"philox": 1, "threefry": 2, "auto_select": 3}


def _algorithm(alg: Any) -> int:
    """Return the number of an algorithm; Philox's for none.  Raises: ValueError."""
    if isinstance(alg, Algorithm):
        alg = alg.value
    found = _NAMED.get(alg, alg) if isinstance(alg, str) else 1 if alg is None else alg
    if found not in _NAMED.values():
        raise ValueError(f"there is no algorithm {alg!r}; one of {sorted(_NAMED)} is wanted")
    return 1 if found == 3 else int(found)


def _signed(values: Sequence[int]) -> Any:
    return np.array([value % 2**64 for value in values], np.uint64).view(np.int64)


@export_v2("random.create_rng_state")
def create_rng_state(seed: TensorLike, alg: Any = "philox") -> Any:
    """Return the state that follows from a seed: [counter, counter, key]; for threefry two numbers.

    seed: at most as many integers.
    Raises: ValueError for another algorithm or too long a seed.
    """
    size = 3 if _algorithm(alg) == Algorithm.PHILOX.value else 2
    numbers = np.asarray(seed).reshape(-1).tolist()
    if len(numbers) > size:
        raise ValueError(f"a seed has at most {size} numbers; found {len(numbers)}")
    return convert_to_tensor(_signed([*numbers, 0, 0][:size]))


@export_v2("random.Generator", "random.experimental.Generator")
class Generator(AutoTrackable):
    """Draws random numbers and goes on; made by the from_... functions.

    Example:
      generator = tf.random.Generator.from_seed(1)
      generator.normal([2, 3])
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None):
        self._alg = copy_from.algorithm if copy_from is not None else _algorithm(alg)
        self._is_distributed = _replicas.number()[0]
        first = copy_from.state.read_value() if copy_from is not None else state
        with init_scope():
            self._state_var: Any = Variable(
                convert_to_tensor(first, dtypes.int64), trainable=False, name="StateVar"
            )

    # ---- made of what

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        """Return a generator in a state: [counter, counter, key]."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: TensorLike, alg: Any = None) -> Generator:
        """Return a generator that follows from a seed."""
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Return a generator that nobody can foretell.

        Raises: RuntimeError where each run of the program shall give the same.
        """
        if behavior.is_deterministic:
            raise RuntimeError("from_non_deterministic_state: determinism is enabled; give a seed")
        return cls(state=_signed([secrets.randbits(64) for _ in range(3)]), alg=alg)

    @classmethod
    def from_key_counter(cls, key: TensorLike, counter: TensorLike, alg: Any) -> Generator:
        """Return a generator with a key and a counter of two numbers."""
        numbers = [*np.asarray(counter).reshape(-1).tolist(), int(np.asarray(key))]
        return cls(state=_signed(numbers), alg=alg)

    def reset(self, state: Any) -> None:
        """Go on from a state."""
        self._state_var.assign(convert_to_tensor(state, dtypes.int64))

    def reset_from_seed(self, seed: TensorLike) -> None:
        """Go on from a seed."""
        self.reset(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: TensorLike, counter: TensorLike) -> None:
        """Go on from a key and a counter."""
        numbers = [*np.asarray(counter).reshape(-1).tolist(), int(np.asarray(key))]
        self.reset(_signed(numbers))

    # ---- what it is

    @property
    def state(self) -> Any:
        """The variable that holds [counter, counter, key]."""
        return self._state_var

    @property
    def key(self) -> Any:
        """The key."""
        return apply_op("GatherV2", self._state_var.read_value(), 2, 0)

    @property
    def algorithm(self) -> int:
        """The number of the algorithm."""
        return self._alg

    # ---- drawing

    def skip(self, delta: TensorLike) -> Any:
        """Go on as if so many numbers had been drawn; returns the state before."""
        if self._alg != Algorithm.PHILOX.value:
            raise UnimplementedError("numbers are drawn by Philox alone; use alg='philox'")
        before = self._state_var.read_value()
        step = apply_op("Cast", convert_to_tensor(delta), DstT=dtypes.uint64)
        step = apply_op("Mul", step, np.uint64(_COUNTS_PER_NUMBER))
        counts = apply_op("Bitcast", before, type=dtypes.uint64)
        low, high, key = (apply_op("GatherV2", counts, i, 0) for i in range(3))
        moved = apply_op("AddV2", low, step)
        carry = apply_op("Cast", apply_op("Less", moved, low), DstT=dtypes.uint64)
        after = apply_op("Pack", [moved, apply_op("AddV2", high, carry), key])
        self._state_var.assign(apply_op("Bitcast", after, type=dtypes.int64))
        return before

    def _inputs(self, shape: ShapeLike) -> list[Any]:
        dims = convert_to_tensor(shape, dtypes.int32) if shape != [] else np.zeros(0, np.int32)
        before = self.skip(apply_op("Prod", dims, [0]))
        counts = apply_op("Bitcast", before, type=dtypes.uint64)
        key = apply_op("Slice", counts, [2], [1])
        replica = _replicas.number()[1] if self._is_distributed else None
        if replica is not None:
            at = np.array([replica, 0], np.uint64)
            algorithm = np.int32(Algorithm.PHILOX.value)
            key = apply_op(
                "StatelessRandomUniformFullIntV2", [1], key, at, algorithm, dtype=dtypes.uint64
            )
        counter = apply_op("Slice", counts, [0], [2])
        return [dims, key, counter, np.int32(Algorithm.PHILOX.value)]

    def _scaled(
        self, op_name: str, shape: ShapeLike, mean: TensorLike, stddev: TensorLike, dtype: DTypeLike
    ) -> Tensor:
        wanted = as_dtype(dtype)
        drawn = apply_op(op_name, *self._inputs(shape), dtype=wanted)
        wide = apply_op("Mul", drawn, convert_to_tensor(stddev, wanted))
        made: Tensor = apply_op("AddV2", wide, convert_to_tensor(mean, wanted))
        return made

    def normal(
        self,
        shape: ShapeLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """Return normally distributed numbers."""
        return self._scaled("StatelessRandomNormalV2", shape, mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: ShapeLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """Return normally distributed numbers within two standard deviations of the mean."""
        return self._scaled("StatelessTruncatedNormalV2", shape, mean, stddev, dtype)

    def uniform(
        self,
        shape: ShapeLike,
        minval: Any = 0,
        maxval: Any = None,
        dtype: DTypeLike = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """Return numbers spread evenly over [minval, maxval).

        Raises: ValueError for integers without maxval.
        """
        wanted = as_dtype(dtype)
        if not wanted.is_integer:
            span = convert_to_tensor(1 if maxval is None else maxval, wanted)
            low = convert_to_tensor(minval, wanted)
            width = apply_op("Sub", span, low)
            return self._scaled("StatelessRandomUniformV2", shape, low, width, wanted)
        if minval is None and maxval is None:
            return self.uniform_full_int(shape, wanted)
        if maxval is None:
            raise ValueError("Must specify maxval for integer dtype")
        bounds = [convert_to_tensor(bound, wanted) for bound in (minval, maxval)]
        made: Tensor = apply_op("StatelessRandomUniformIntV2", *self._inputs(shape), *bounds)
        return made

    def uniform_full_int(
        self, shape: ShapeLike, dtype: DTypeLike = dtypes.uint64, name: str | None = None
    ) -> Tensor:
        """Return integers over the whole range of the type."""
        made: Tensor = apply_op(
            "StatelessRandomUniformFullIntV2", *self._inputs(shape), dtype=as_dtype(dtype)
        )
        return made

    def binomial(
        self,
        shape: ShapeLike,
        counts: TensorLike,
        probs: TensorLike,
        dtype: DTypeLike = dtypes.int32,
        name: str | None = None,
    ) -> Tensor:
        """Return numbers of successes.

        Args:
          counts: of trials; probs: of success in each.
          shape: of the result; it ends in that of counts and probs together.
        """
        made: Tensor = apply_op(
            "StatefulRandomBinomial",
            self._state_var.handle,
            np.int64(self._alg),
            convert_to_tensor(shape_argument(shape)),
            convert_to_tensor(counts),
            convert_to_tensor(probs),
            dtype=as_dtype(dtype),
            name=name,
        )
        return made

    def make_seeds(self, count: int = 1) -> Tensor:
        """Return seeds for stateless functions: [2, count]."""
        keys = self.uniform_full_int([count], dtypes.int64)
        made: Tensor = apply_op("Pack", [keys, apply_op("ZerosLike", keys)])
        return made

    def split(self, count: int = 1) -> list[Generator]:
        """Return generators that share no numbers with this one or each other."""
        keys = self.uniform_full_int([count], dtypes.int64)
        zeros = np.zeros(2, np.int64)
        return [
            Generator(state=apply_op("ConcatV2", [zeros, apply_op("Slice", keys, [i], [1])], 0))
            for i in range(count)
        ]


_global: list[Generator] = []


@export_v2("random.get_global_generator", "random.experimental.get_global_generator")
def get_global_generator() -> Generator:
    """Return the program's generator; made with a state of chance on first use."""
    if not _global:
        _global.append(Generator.from_non_deterministic_state())
    return _global[0]


@export_v2("random.set_global_generator", "random.experimental.set_global_generator")
def set_global_generator(generator: Generator) -> None:
    """Have get_global_generator return another one."""
    _global[:] = [generator]
