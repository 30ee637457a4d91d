"""Training: optimizers, checkpoints, sessions that last, hooks, placement of replicas.

Importing the package brings in all of it but `v2`, which only the TF2 front door imports.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    if not _module.name.startswith(f"{__name__}.v2."):
        importlib.import_module(_module.name)
