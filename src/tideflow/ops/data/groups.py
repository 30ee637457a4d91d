"""Datasets of groups of elements that have the same key.

Source: tensorflow/core/kernels/data/experimental/{group_by_window,group_by_reducer}_dataset_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.blocking import Turns
from tideflow.graph.op_def import declare_like
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, Function
from tideflow.ops.data.values import Dataset, Element, Iterator, as_dataset, fail
from tideflow.ops.data.window import of_elements
from tideflow.wire import errors


def _key(found: Sequence[Any], what: str) -> int:
    if len(found) != 1 or np.size(found[0]) != 1 or np.asarray(found[0]).dtype != np.int64:
        raise fail(f"`{what}` must return a scalar int64.")
    return int(np.asarray(found[0]).item())


class _Windows:
    """Collects elements by key, and gives what a function makes of each full group."""

    __slots__ = ("_current", "_groups", "_key", "_like", "_reduce", "_size", "_sizes", "_source",
                 "_turns")  # fmt: skip

    def __init__(self, dataset: Dataset, key: Function, reduce: Function, size: Function) -> None:
        self._source: Iterator | None = dataset.iterator()
        self._like = dataset
        self._key = key
        self._reduce = reduce
        self._size = size
        self._sizes: dict[int, int] = {}
        self._groups: dict[int, list[Element]] = {}
        self._current: Iterator | None = None
        self._turns = Turns()

    async def next(self) -> Element | None:
        while True:
            if self._current is not None:
                element = await self._current.next()
                if element is not None:
                    return element
                self._current = None
            group = await self._next_group()
            if group is None:
                return None
            key, elements = group
            self._current = (await self._made(key, elements)).iterator()

    async def _made(self, key: int, elements: list[Element]) -> Dataset:
        """Return what the function makes of a group.  Raises: InternalError where it fails."""
        window = of_elements(elements, self._like)
        try:
            found = await self._reduce(np.int64(key), window)
        except errors.OpError as error:
            # A group that nothing is made of is no end of the dataset, whatever the error says.
            raise errors.InternalError(
                f"reduce_func failed for key {key}: {type(error).__name__}: {error.message}",
                node=error.node,
            ) from error
        if len(found) != 1:
            raise fail("`reduce_func` must return a single scalar of dtype DT_VARIANT.")
        return as_dataset(found[0])

    async def _next_group(self) -> tuple[int, list[Element]] | None:
        """Return the next full group; once input has ended, the others by their keys."""
        while self._source is not None:
            element = await self._source.next()
            if element is None:
                self._source = None
                break
            key = _key(await self._key(*element), "key_func")
            if key not in self._sizes:
                self._sizes[key] = await self._window_size(key)
            group = self._groups.setdefault(key, [])
            group.append(element)
            if len(group) == self._sizes[key]:
                return key, self._groups.pop(key)
            await self._turns.pause()
        if not self._groups:
            return None
        key = min(self._groups)
        return key, self._groups.pop(key)

    async def _window_size(self, key: int) -> int:
        size = _key(await self._size(np.int64(key)), "window_size_func")
        if size <= 0:
            raise fail(f"Window size must be greater than zero, but got {size}.")
        return size


@dataset_op(
    """
    GroupByWindowDataset(
        input_dataset: variant, key_func_other_arguments: *Tkey_func_other_arguments,
        reduce_func_other_arguments: *Treduce_func_other_arguments,
        window_size_func_other_arguments: *Twindow_size_func_other_arguments
    )
    key_func: func
    reduce_func: func
    window_size_func: func
    """
)
def group_by_window_dataset(
    input_dataset: Dataset,
    key_func: CapturedFunction,
    reduce_func: CapturedFunction,
    window_size_func: CapturedFunction,
) -> Elements:
    """Return what a function makes of groups of elements that have the same key."""
    return Elements(
        lambda: _Windows(
            input_dataset,
            key_func.instantiate(),
            reduce_func.instantiate(),
            window_size_func.instantiate(),
        )
    )


declare_like("ExperimentalGroupByWindowDataset", "GroupByWindowDataset", without=("metadata",))


class _Reduced:
    """Reduces the elements of each key, and gives the results by key."""

    __slots__ = ("_finalize", "_init", "_key", "_reduce", "_source", "_states", "_turns")

    def __init__(
        self, source: Iterator, key: Function, init: Function, reduce: Function, final: Function
    ) -> None:
        self._source: Iterator | None = source
        self._key = key
        self._init = init
        self._reduce = reduce
        self._finalize = final
        self._states: dict[int, list[Any]] = {}
        self._turns = Turns()

    async def next(self) -> Element | None:
        while self._source is not None:
            element = await self._source.next()
            if element is None:
                self._source = None
                break
            found = await self._key(*element)
            key = _key(found, "key_func")
            if key not in self._states:
                self._states[key] = await self._init(*found)
            self._states[key] = await self._reduce(*self._states[key], *element)
            await self._turns.pause()
        if not self._states:
            return None
        return tuple(await self._finalize(*self._states.pop(min(self._states))))


@dataset_op(
    """
    GroupByReducerDataset(
        input_dataset: variant, key_func_other_arguments: *Tkey_func_other_arguments,
        init_func_other_arguments: *Tinit_func_other_arguments,
        reduce_func_other_arguments: *Treduce_func_other_arguments,
        finalize_func_other_arguments: *Tfinalize_func_other_arguments
    )
    key_func: func
    init_func: func
    reduce_func: func
    finalize_func: func
    """,
    metadata=False,
    stateful=True,
)
def group_by_reducer_dataset(
    input_dataset: Dataset,
    key_func: CapturedFunction,
    init_func: CapturedFunction,
    reduce_func: CapturedFunction,
    finalize_func: CapturedFunction,
) -> Elements:
    """Return for each key what functions reduce its elements to."""
    return Elements(
        lambda: _Reduced(
            input_dataset.iterator(),
            key_func.instantiate(),
            init_func.instantiate(),
            reduce_func.instantiate(),
            finalize_func.instantiate(),
        )
    )


declare_like("ExperimentalGroupByReducerDataset", "GroupByReducerDataset")
