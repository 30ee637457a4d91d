"""The TF1-shaped front door: `import tideflow.v1 as tf`.

Graph by default, as TensorFlow's `compat.v1`.  The names below `tf` are those under which
functions and classes were exported (tideflow.ops.export); each namespace is a module: `tf.nn`,
`tf.train` and so on.
"""

# What is imported here has an underscore: everything else in this module is a name of the API.
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from tideflow.v1 import api as _api

__version__ = _api.VERSION

_api.open_door(__name__)


if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...
