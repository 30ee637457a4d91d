"""What programs ask to run with several versions: kinds of Python's values, and dates of changes.

Source: tensorflow/python/compat/compat.py and python/util/compat.py of TensorFlow 2.21.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import numbers
import os
from collections.abc import Iterator

import numpy as np

from tideflow.ops.export import export, export_value

export_value("compat.bytes_or_text_types", (bytes, str))
export_value("compat.complex_types", (numbers.Complex, np.number))
export_value("compat.integral_types", (numbers.Integral, np.integer))
export_value("compat.real_types", (numbers.Real, np.integer, np.floating))

# The date of TensorFlow 2.21: what has changed since is not there.
_RELEASED = datetime.date(2026, 1, 16)
_LATER_BY_DAYS = "TF_FORWARD_COMPATIBILITY_DELTA_DAYS"
_horizons: list[datetime.date] = []


@export("compat.forward_compatible")
def forward_compatible(year: int, month: int, day: int) -> bool:
    """Return whether the program may use what came before a date."""
    if _horizons:
        horizon = _horizons[-1]
    else:
        horizon = _RELEASED + datetime.timedelta(days=int(os.environ.get(_LATER_BY_DAYS) or 0))
    return (horizon.year, horizon.month, horizon.day) > (year, month, day)


@export("compat.forward_compatibility_horizon")
@contextlib.contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Set the date that forward_compatible compares with; one before the release's is ignored."""
    wanted = datetime.date(year, month, day)
    if wanted < _RELEASED:
        logging.getLogger("tensorflow").warning("the date %s has passed; it is ignored", wanted)
        yield
        return
    _horizons.append(wanted)
    try:
        yield
    finally:
        _horizons.pop()
