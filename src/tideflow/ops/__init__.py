"""The ops, a package for each family: definition, kernel, gradient and public functions together.

Importing this package registers them all; a new module of a family is a new file in its folder.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
