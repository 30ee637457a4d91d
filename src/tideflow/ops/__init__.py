"""The ops, a package for each family: definition, kernel, gradient and public functions together.

Importing this package registers them all, but for modules that are loaded later (`later.txt`); a
new module of a family is a new file in its folder.
"""

from __future__ import annotations

from tideflow.ops.later import import_modules

import_modules(__name__, __path__)
