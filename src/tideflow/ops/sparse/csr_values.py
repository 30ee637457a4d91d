"""Sparse matrices by compressed rows, as elements of variant tensors.

Source: tensorflow/core/kernels/sparse/sparse_matrix.h for what travels.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.types import Array
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

_TYPE_NAME = "tensorflow::CSRSparseMatrix"
# Whether it was checked, and the number of the element type.
_METADATA = struct.Struct("<?3xi")


class CsrMatrix:
    """A sparse matrix, or a batch of them.

    Attributes:
      shape: its sizes, two or three.
      rows: the row of each value, in the order of batches and rows; cols: its column.
      batches: the matrix of each value.
      values: what is there, zeros among it.
    """

    __slots__ = ("batches", "cols", "rows", "shape", "values")

    def __init__(
        self, shape: Sequence[int], batches: Array, rows: Array, cols: Array, values: Array
    ) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.batches, self.rows, self.cols, self.values = batches, rows, cols, values

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return self.shape[0] if len(self.shape) == 3 else 1

    @classmethod
    def at(cls, shape: Sequence[int], indices: Array, values: Array) -> CsrMatrix:
        """Return the matrix of values at indices [n, rank], which go by batches and rows."""
        none = np.zeros(len(indices), np.int64)
        batches = indices[:, 0] if len(shape) == 3 else none
        return cls(shape, batches, indices[:, -2], indices[:, -1], values)

    def indices(self) -> Any:
        """Return where values are, [n, rank]."""
        parts = [self.rows, self.cols]
        if len(self.shape) == 3:
            parts.insert(0, self.batches)
        return np.stack(parts, axis=1).astype(np.int64)

    def dense(self) -> Any:
        """Return the matrix with zeros between the values."""
        made = np.zeros(self.shape, self.values.dtype)
        made[tuple(self.indices().T)] = self.values
        return made

    def one(self, batch: int) -> CsrMatrix:
        """Return one matrix of a batch."""
        chosen = self.batches == batch
        parts = (self.batches[chosen] * 0, self.rows[chosen], self.cols[chosen])
        return CsrMatrix(self.shape[-2:], *parts, self.values[chosen])

    def pointers(self) -> Any:
        """Return where each row of one matrix begins among its values, and where the last ends."""
        counts = np.bincount(self.rows, minlength=self.shape[-2])
        return np.cumsum([0, *counts]).astype(np.int32)

    def turned(self, is_conjugate: bool) -> CsrMatrix:
        """Return the transpose, or its conjugate."""
        order = np.lexsort((self.rows, self.cols, self.batches))
        values = np.conj(self.values) if is_conjugate else self.values
        shape = (*self.shape[:-2], self.shape[-1], self.shape[-2])
        return CsrMatrix(
            shape, self.batches[order], self.cols[order], self.rows[order], values[order]
        )

    def times(self, other: CsrMatrix) -> CsrMatrix:
        """Return the product, with a value wherever terms meet, even if they cancel out."""
        parts = [self._product(self.one(i), other.one(i)) for i in range(self.count)]
        batches = np.repeat(np.arange(self.count), [len(rows) for rows, _, _ in parts])
        rows, cols, values = (np.concatenate([part[i] for part in parts]) for i in range(3))
        shape = (*self.shape[:-1], other.shape[-1])
        return CsrMatrix(shape, batches, rows, cols, values.astype(self.values.dtype))

    @staticmethod
    def _product(a: CsrMatrix, b: CsrMatrix) -> tuple[Any, Any, Any]:
        # Only who multiplies pays for importing it.
        csr_array = importlib.import_module("scipy.sparse").csr_array
        pair = [csr_array((m.values, m.cols, m.pointers()), shape=m.shape) for m in (a, b)]
        ones = [
            csr_array((np.ones(len(m.values)), m.cols, m.pointers()), shape=m.shape) for m in (a, b)
        ]
        pattern, found = ((x @ y).tocoo() for x, y in (ones, pair))
        order = np.lexsort((pattern.col, pattern.row))
        rows, cols = pattern.row[order].astype(np.int64), pattern.col[order].astype(np.int64)
        width = b.shape[1]
        values = np.zeros(len(rows), a.values.dtype)
        # What cancels out may be missing in the product.
        places = np.searchsorted(
            rows * width + cols, found.row.astype(np.int64) * width + found.col
        )
        values[places] = found.data
        return rows, cols, values

    # ---- what ZerosLike and AddN ask of a variant

    def zeros_like(self) -> CsrMatrix:
        """Return a matrix without values."""
        none = np.zeros(0, np.int64)
        return CsrMatrix(self.shape, none, none, none, self.values[:0])

    def __add__(self, other: CsrMatrix) -> CsrMatrix:
        """Return the sum.  Raises: InvalidArgumentError for other shapes and types."""
        if not isinstance(other, CsrMatrix):
            return NotImplemented
        if self.shape != other.shape or self.values.dtype != other.values.dtype:
            raise InvalidArgumentError(f"shapes {self.shape} and {other.shape} do not add up")
        places, back = np.unique(
            np.concatenate([self.indices(), other.indices()]), axis=0, return_inverse=True
        )
        values = np.zeros(len(places), self.values.dtype)
        np.add.at(values, back.reshape(-1), np.concatenate([self.values, other.values]))
        return CsrMatrix.at(self.shape, places, values)

    # ---- travelling

    def to_variant(self) -> Variant:
        """Return the form in which it travels: shape, pointers, columns and values."""
        each = [self.one(i) for i in range(self.count)]
        ends = np.cumsum([0, *(len(m.values) for m in each)]).astype(np.int32)
        pointers = np.concatenate([m.pointers() for m in each]) if each else ends[:0]
        parts = (
            np.array(self.shape, np.int64),
            ends,
            pointers,
            self.cols.astype(np.int32),
            self.values,
        )
        metadata = _METADATA.pack(True, int(as_dtype(self.values.dtype).as_datatype_enum))
        return Variant(_TYPE_NAME, metadata, tuple(encode_tensor(part) for part in parts))

    @classmethod
    def from_variant(cls, variant: Variant) -> CsrMatrix:
        """Return what travelled.  Raises: InvalidArgumentError for parts that do not fit."""
        if len(variant.tensors) != 5:
            raise InvalidArgumentError(
                f"a variant of type {_TYPE_NAME} holds 5 tensors; found {len(variant.tensors)}"
            )
        shape, ends, pointers, cols, values = (
            np.asarray(decode_tensor(part)) for part in variant.tensors
        )
        width = int(shape[-2]) + 1 if len(shape) in (2, 3) else 0
        batches = len(ends) - 1
        if not width or len(pointers) != batches * width or len(cols) != len(values):
            raise InvalidArgumentError(f"the parts of a {_TYPE_NAME} do not fit together")
        counts = np.diff(pointers.reshape(batches, width), axis=1)
        if (counts < 0).any() or counts.sum() != len(values):
            raise InvalidArgumentError(f"the row pointers of a {_TYPE_NAME} do not fit its values")
        rows = np.repeat(np.tile(np.arange(width - 1), batches), counts.reshape(-1))
        which = np.repeat(np.arange(batches), counts.sum(axis=1))
        return cls(shape.tolist(), which, rows, cols.astype(np.int64), values)


register_variant(_TYPE_NAME, CsrMatrix.from_variant)


def as_matrix(value: object, dtype: DType | None = None) -> CsrMatrix:
    """Return the matrix that an input is.  Raises: InvalidArgumentError for another variant."""
    given = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if not isinstance(given, CsrMatrix):
        raise InvalidArgumentError("Could not retrieve Variant input: it is no CSRSparseMatrix")
    found = as_dtype(given.values.dtype)
    if dtype is not None and found is not dtype:
        raise InvalidArgumentError(
            f"Asked for a CSRSparseMatrix of type {dtype.name} but saw dtype: {found.name}"
        )
    return given
