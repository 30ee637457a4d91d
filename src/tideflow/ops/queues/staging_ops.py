"""The ops of staging areas: Stage and Unstage, MapStage and MapUnstage, and what goes with them.

An area is known by its name: shared_name, or that of the node.  The first op to ask makes it.

Source: tensorflow/core/ops/data_flow_ops.cc.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar, unknown
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.ops.node_resources import check_names
from tideflow.ops.queues.staging import MapStagingArea, StagingArea
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


def _attrs(types: str, more: str = "") -> str:
    return f"""
    capacity: int >= 0 = 0
    memory_limit: int >= 0 = 0
    dtypes: list(type){types}{more}
    container: string = ''
    shared_name: string = ''
    """


_TYPES = _attrs(" >= 1")
_ANY_TYPES = _attrs("")
_FAKE_TYPES = _attrs("", "\n    fake_dtypes: list(type) >= 1")


def _area(ctx: KernelContext, kind: Any, make: Any, named: dict[str, Any]) -> Any:
    """Return the area that a node's attrs name, made if it is not there."""
    container, shared_name = named["container"], named["shared_name"]
    check_names(container, shared_name)
    name = shared_name or ctx.node.name
    limits = named["capacity"], named["memory_limit"]
    return ctx.resources.lookup_or_create(
        container, name, kind, functools.partial(make, name, *limits)
    )


def _stage(ctx: KernelContext, named: dict[str, Any]) -> StagingArea:
    found: StagingArea = _area(ctx, StagingArea, StagingArea, named)
    return found


def _number(value: Any, what: str) -> int:
    check_scalar(value, what)
    return int(np.asarray(value).item())


def _checked(values: list[Any], types: list[DType]) -> list[Any]:
    """Return values that are taken.  Raises: InvalidArgumentError for another number of them."""
    if len(values) != len(types):
        raise errors.InvalidArgumentError(
            f"Mismatch stage/unstage: {len(values)} vs. {len(types)} tensors"
        )
    return values


@op("Stage(values: *dtypes)" + _TYPES, shape=no_outputs, stateful=True)
async def stage(
    ctx: KernelContext,
    values: list[Any],
    *,
    capacity: int,
    memory_limit: int,
    container: str,
    shared_name: str,
) -> None:
    """Put a tuple; waits for room."""
    named = {"capacity": capacity, "memory_limit": memory_limit}
    area = _stage(ctx, {**named, "container": container, "shared_name": shared_name})
    await area.put(list(values))


def _named(ctx: KernelContext) -> dict[str, Any]:
    """Return the attrs of a node that name its area."""
    return {
        name: ctx.node.attrs[name]
        for name in ("capacity", "memory_limit", "container", "shared_name")
    }


@op("Unstage() -> values: *dtypes" + _TYPES, shape=unknown, stateful=True)
async def unstage(ctx: KernelContext, *, dtypes: list[DType]) -> Any:
    """Take the first tuple; waits for it."""
    return _checked(await _stage(ctx, _named(ctx)).take(), dtypes)


@op("StagePeek(index: int32) -> values: *dtypes" + _TYPES, shape=unknown, stateful=True)
async def stage_peek(ctx: KernelContext, index: Array, *, dtypes: list[DType]) -> Any:
    """Return the tuple at an index, and keep it; waits for it."""
    at = _number(index, "index")
    if at < 0:
        raise errors.InvalidArgumentError(f"index must not be negative; found {at}")
    return _checked(await _stage(ctx, _named(ctx)).peek(at), dtypes)


@op("StageSize() -> size: int32" + _ANY_TYPES, shape=scalar, stateful=True)
async def stage_size(ctx: KernelContext) -> Any:
    """Return how many tuples there are."""
    return np.int32(len(_stage(ctx, _named(ctx))))


@op("StageClear()" + _ANY_TYPES, shape=no_outputs, stateful=True)
async def stage_clear(ctx: KernelContext) -> None:
    """Drop all tuples."""
    _stage(ctx, _named(ctx)).clear()


# ---- by keys


def _keyed_shape(c: ShapeContext) -> list[Dims]:
    return [(), *[None] * (len(c.node.output_types) - 1)]


def _indices(value: Any) -> list[int]:
    return [int(index) for index in np.asarray(value).reshape(-1)]


def _define(prefix: str, is_ordered: bool) -> None:
    """Define the ops of a kind of map."""
    kind = type(f"{prefix}StagingArea", (MapStagingArea,), {})
    make = functools.partial(kind, is_ordered=is_ordered)

    def area_of(ctx: KernelContext) -> MapStagingArea:
        found: MapStagingArea = _area(ctx, kind, make, _named(ctx))
        return found

    @op(
        f"{prefix}Stage(key: int64, indices: int32, values: *fake_dtypes)" + _FAKE_TYPES,
        shape=no_outputs,
        stateful=True,
    )
    async def map_stage(
        ctx: KernelContext, key: Array, indices: Array, values: list[Any], *, dtypes: list[DType]
    ) -> None:
        found = _indices(indices)
        if len(found) != len(values):
            raise errors.InvalidArgumentError(
                f"{len(found)} indices were given for {len(values)} values"
            )
        await area_of(ctx).put(_number(key, "key"), found, list(values), len(dtypes))

    @op(
        f"{prefix}Peek(key: int64, indices: int32) -> values: *dtypes" + _TYPES,
        shape=unknown,
        stateful=True,
    )
    async def map_peek(
        ctx: KernelContext, key: Array, indices: Array, *, dtypes: list[DType]
    ) -> Any:
        values = await area_of(ctx).peek(_number(key, "key"), _indices(indices))
        return _checked(values, dtypes)

    @op(
        f"{prefix}Unstage(key: int64, indices: int32) -> values: *dtypes" + _TYPES,
        shape=unknown,
        stateful=True,
    )
    async def map_unstage(
        ctx: KernelContext, key: Array, indices: Array, *, dtypes: list[DType]
    ) -> Any:
        values = await area_of(ctx).take(_number(key, "key"), _indices(indices))
        return _checked(values, dtypes)

    @op(
        f"{prefix}UnstageNoKey(indices: int32) -> key: int64, values: *dtypes" + _TYPES,
        shape=_keyed_shape,
        stateful=True,
    )
    async def map_unstage_no_key(ctx: KernelContext, indices: Array, *, dtypes: list[DType]) -> Any:
        key, values = await area_of(ctx).take_any(_indices(indices))
        return np.int64(key), _checked(values, dtypes)

    @op(f"{prefix}Size() -> size: int32" + _ANY_TYPES, shape=scalar, stateful=True)
    async def map_size(ctx: KernelContext) -> Any:
        return np.int32(len(area_of(ctx)))

    @op(f"{prefix}IncompleteSize() -> size: int32" + _ANY_TYPES, shape=scalar, stateful=True)
    async def map_incomplete_size(ctx: KernelContext) -> Any:
        return np.int32(area_of(ctx).incomplete_size)

    @op(f"{prefix}Clear()" + _ANY_TYPES, shape=no_outputs, stateful=True)
    async def map_clear(ctx: KernelContext) -> None:
        area_of(ctx).clear()

    parts = ("Stage", "Peek", "Unstage", "UnstageNoKey", "Size", "IncompleteSize", "Clear")
    not_differentiable(*[prefix + part for part in parts])


_define("Map", is_ordered=False)
_define("OrderedMap", is_ordered=True)
not_differentiable("Stage", "Unstage", "StagePeek", "StageSize", "StageClear")
