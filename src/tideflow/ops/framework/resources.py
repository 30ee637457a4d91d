"""What models hold besides variables: resources that are made anew where one is loaded, and files.

Source: tensorflow/python/trackable/resource.py, trackable/asset.py.
"""

from __future__ import annotations

import os
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.functions import STAYS_OUTSIDE
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export
from tideflow.ops.framework.trackable import Trackable
from tideflow.wire import dtypes


@export("saved_model.experimental.TrackableResource")
class CapturableResource(Trackable):
    """A resource that a saved model makes and fills anew when it is loaded, such as a table.

    A subclass says in `_create_resource` how it is made and in `_initialize` how it is filled;
    both are traced when it is saved.

    Attributes: resource_handle, what functions capture.
    """

    _resource_device = ""

    def __init__(self, device: str = "") -> None:
        self._resource_device = device
        self._made: Any = None

    def _create_resource(self) -> Any:
        """Return the handle of a new resource.  Raises: NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its resource is made")

    def _initialize(self) -> Any:
        """Fill the resource: nothing to do."""

    def _destroy_resource(self) -> Any:
        """End the resource: it goes with its last handle."""

    @property
    def resource_handle(self) -> Any:
        """The handle; the resource is made when it is first asked for."""
        if self._made is None:
            self._made = self._create_resource()
        return self._made


@export("saved_model.Asset")
class Asset(Trackable):
    """A file that a saved model keeps a copy of.

    Attributes: asset_path, a scalar string: where the file is, in a loaded model that of the copy.

    Args:
      path: of the file.
    """

    def __init__(self, path: Any) -> None:
        given = path if isinstance(path, (str, bytes, Tensor)) else os.fspath(path)
        self._path: Tensor = convert_to_tensor(given, dtypes.string, name="asset_filepath")
        if self._path.graph.is_eager:
            # A loaded model has its own path in the place of this one.
            self._path.op.attrs[STAYS_OUTSIDE] = True

    @property
    def asset_path(self) -> Tensor:
        """Where the file is."""
        return self._path
