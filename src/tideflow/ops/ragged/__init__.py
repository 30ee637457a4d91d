"""Ragged tensors: tensors whose rows have lengths of their own.

`kernels` has the ops, `tensor` the class, the others what is done with ragged tensors.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
