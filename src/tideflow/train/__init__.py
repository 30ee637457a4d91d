"""Training: optimizers, checkpoints, sessions that last, hooks, placement of replicas.

Importing the package brings in all of it but `v2`, which only the TF2 front door imports.
"""

from __future__ import annotations

from tideflow.ops.later import import_modules

import_modules(__name__, __path__, leave_out=f"{__name__}.v2.")
