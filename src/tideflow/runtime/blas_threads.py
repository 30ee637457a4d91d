"""Keep short kernels off the threads of NumPy's linear algebra library.

OpenBLAS splits products from about 64x64x64 on, and its threads wait for each other by spinning.
Where several processes share the cores, a product of 20 us then takes tens of milliseconds.
This looks once for the library's own switch, which then takes 0.25 us; threadpoolctl, which does
the same, takes 24 us each time (70 us as `limit`), and a whole small step takes 30 us.

Source: interface/gemm.c and driver/others/blas_server.c of OpenBLAS.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# As builds of OpenBLAS spell it, NumPy's own first.
_SPELLINGS = (
    ("scipy_openblas", "64_"),
    ("scipy_openblas", ""),
    ("openblas", "64_"),
    ("openblas", ""),
)


class _Library(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], object]


@functools.cache
def _library() -> _Library | None:
    """Return the library's own switch; None where NumPy uses another library."""
    try:
        # What NumPy's module is linked with is found through it.
        module = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None
    for prefix, suffix in _SPELLINGS:
        try:
            get = getattr(module, f"{prefix}_get_num_threads{suffix}")
            return _Library(get, getattr(module, f"{prefix}_set_num_threads{suffix}"))
        except AttributeError:
            continue
    return None


def take_one() -> int:
    """Use one thread from now on; return how many were used, for `give_back`."""
    library = _library()
    if library is None:
        return 1
    count = library.get()
    if count > 1:
        library.set(1)
    return count


def give_back(count: int) -> None:
    """Use so many threads again, of which `take_one` has told."""
    library = _library()
    if library is not None and count > 1:
        library.set(count)
