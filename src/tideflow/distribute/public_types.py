"""tf.types.experimental.distributed: what values of several replicas are.

Source: tensorflow/python/types/distribute.py.
"""

from __future__ import annotations

import abc

from tideflow.distribute.values import PerReplica
from tideflow.distribute.variables import MirroredVariable
from tideflow.ops.export import export_v2, export_value_v2

export_value_v2("types.experimental.distributed.PerReplica", PerReplica)


@export_v2("types.experimental.distributed.Mirrored")
class Mirrored(abc.ABC):  # noqa: B024 (a kind to ask for)
    """A value that is the same on all replicas, as a variable of a MirroredStrategy is."""


Mirrored.register(MirroredVariable)
