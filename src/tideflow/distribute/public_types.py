"""tf.types.experimental.distributed: what values of several replicas are.

Source: tensorflow/python/types/distribute.py.
"""

from __future__ import annotations

import abc

from tideflow.distribute import values
from tideflow.distribute.variables import MirroredVariable
from tideflow.ops.export import export_v2


@export_v2("types.experimental.distributed.PerReplica")
class PerReplica(abc.ABC):  # noqa: B024 (a kind to ask for)
    """A value that differs from replica to replica."""


@export_v2("types.experimental.distributed.Mirrored")
class Mirrored(abc.ABC):  # noqa: B024 (a kind to ask for)
    """A value that is the same on all replicas, as a variable of a MirroredStrategy is."""


PerReplica.register(values.PerReplica)
Mirrored.register(MirroredVariable)
