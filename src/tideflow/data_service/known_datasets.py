"""The datasets that a dispatcher knows by their ids."""

from __future__ import annotations

from collections.abc import Iterable

from tideflow.data_service.changes import Changes
from tideflow.data_service.jobs import RegisteredDataset
from tideflow.wire import errors
from tideflow.wire import messages as pb


class Datasets:
    """The datasets by id."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._known: dict[str, RegisteredDataset] = {}
        changes.made_by(register_dataset=self._on_register)

    def register(self, request: pb.GetOrRegisterDatasetRequest) -> RegisteredDataset:
        """Return the dataset of a request: a new one, or that which has the id.

        Raises: InvalidArgumentError for one of another structure under the same id.
        """
        known = self._known.get(request.dataset_id)
        if known is not None:
            _check_same(known, request.metadata)
            return known
        name = request.dataset_id or str(self._changes.new_id())
        self._changes.recorder.keep(name, request.dataset)
        self._changes.make(
            register_dataset=pb.RegisterDatasetUpdate(
                dataset_id=name,
                dedupe_by_dataset_id=bool(request.dataset_id),
                metadata=request.metadata,
            )
        )
        self._known[name].definition = request.dataset
        return self._known[name]

    def _on_register(self, update: pb.RegisterDatasetUpdate) -> None:
        name = update.dataset_id
        if name.isdecimal():
            self._changes.seen(int(name))
        self._known[name] = RegisteredDataset(name, pb.DatasetDef(), update.metadata)

    def all(self) -> Iterable[RegisteredDataset]:
        """Return all datasets."""
        return self._known.values()

    def by_id(self, dataset_id: str) -> RegisteredDataset:
        """Return a dataset.  Raises: NotFoundError."""
        found = self._known.get(dataset_id)
        if found is None:
            raise errors.NotFoundError(f"Dataset id {dataset_id} not found")
        return found


def _check_same(known: RegisteredDataset, given: pb.DataServiceMetadata) -> None:
    for what in ("element_spec", "compression"):
        old, new = getattr(known.metadata, what), getattr(given, what)
        if old != new and (what == "compression" or (old and new)):
            raise errors.InvalidArgumentError(
                f"Datasets with the same ID should have the same structure: dataset "
                f"{known.id!r} is registered with another {what}"
            )
