"""The TF2-shaped front door, behind `import tideflow as tf`: eager by default.

Its names are those of `api.py`.  Importing it makes operations eager in every thread that builds no
graph.
"""

# What is imported here has an underscore: everything else in this module is a name of the API.
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from tideflow.v2 import api as _api

__version__ = _api.VERSION

_api.open_door(__name__)

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...
