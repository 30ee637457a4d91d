"""Datasets that are kept once they were read.

A cache is complete once an iterator has come to its input's end; later iterators read the cache.

Source: tensorflow/core/kernels/data/cache_dataset_ops.cc, cache_ops.cc.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.file_cache import FileCached
from tideflow.ops.data.iterators import Deleter
from tideflow.ops.data.sources import Listed
from tideflow.ops.data.values import Dataset, Element, Iterator, owned
from tideflow.ops.node_resources import add_anonymous


class MemoryCache:
    """The elements of a dataset, once an iterator has read them all."""

    type_name: ClassVar[str] = "tensorflow::data::MemoryCacheManager"

    def __init__(self) -> None:
        self.elements: list[Element] | None = None


class _Cached:
    __slots__ = ("_cache", "_dataset", "_read", "_source")

    def __init__(self, dataset: Dataset, cache: MemoryCache) -> None:
        self._dataset = dataset
        self._cache = cache
        self._source: Iterator | None = None
        self._read: list[Element] | None = None

    async def next(self) -> Element | None:
        if self._source is None:
            if self._cache.elements is not None:
                self._source = Listed(iter(self._cache.elements))
            else:
                self._source, self._read = self._dataset.iterator(), []
        element = await self._source.next()
        if self._read is not None:
            if element is not None:
                # A row of a batch would keep the whole batch.
                element = tuple(owned(value) for value in element)
                self._read.append(element)
            else:
                if self._cache.elements is None:
                    self._cache.elements = self._read
                self._read, self._source = None, Listed(iter(()))
        return element


@dataset_op("CacheDataset(input_dataset: variant, filename: string)", same_elements=True)
@dataset_op(
    "CacheDatasetV2(input_dataset: variant, filename: string, cache: resource)",
    same_elements=True,
    stateful=True,
)
def cache_dataset(
    ctx: KernelContext, input_dataset: Dataset, filename: bytes, cache: Any = None
) -> Elements:
    """Return the elements; they are made once and kept.

    filename: where they are kept; empty for memory.
    cache: a handle that may name the memory.
    """
    if filename:
        path = filename.decode("utf-8", "surrogateescape")
        return Elements(lambda: FileCached(input_dataset, path))
    found = None
    if cache is not None:
        handle = cache.item() if isinstance(cache, np.ndarray) else cache
        found = ctx.resources.find(handle.container, handle.name, MemoryCache)
    memory = found or MemoryCache()
    return Elements(lambda: _Cached(input_dataset, memory))


@op(
    """
    AnonymousMemoryCache() -> handle: resource, deleter: variant
    """,
    shape=scalar_shape,
    stateful=True,
)
def anonymous_memory_cache(ctx: KernelContext) -> Any:
    """Return the handle of a cache, and what deletes it."""
    handle = add_anonymous(ctx, MemoryCache, MemoryCache())
    return handle, Deleter(handle)


@op(
    """
    DummyMemoryCache() -> handle: resource
    """,
    shape=scalar_shape,
    stateful=True,
)
def dummy_memory_cache(ctx: KernelContext) -> Any:
    """Return a handle that names no cache: each dataset has its own."""
    return ctx.resources.anonymous_handle(MemoryCache)


@op(
    """
    DeleteMemoryCache(handle: resource, deleter: variant)
    """,
    shape=no_outputs,
    stateful=True,
)
def delete_memory_cache(ctx: KernelContext, handle: object, deleter: object) -> None:
    """Drop a cache."""
    ctx.resources.delete(handle, MemoryCache)
