"""How the ops of the tf.data service reach it."""

from __future__ import annotations

from tideflow.data_service.calls import check_version, until_reached
from tideflow.data_service.local_workers import hold_functions
from tideflow.data_service.reader import ServiceIterator
from tideflow.data_service.services import DispatcherService
from tideflow.ops.data import Reading, provide_data_service
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import messages as pb


class ServiceClient:
    """The way to dispatchers and workers over the network."""

    async def register(self, address: str, request: pb.GetOrRegisterDatasetRequest) -> str:
        """Register a dataset with a dispatcher, once it is there; return its id."""
        channel = make_channel(address)
        try:
            dispatcher = stub(DispatcherService, channel)
            await check_version(dispatcher, address)
            reply = await until_reached(lambda: dispatcher.GetOrRegisterDataset(request))
            hold_functions(address, reply.dataset_id, request.dataset.graph)
            return reply.dataset_id
        finally:
            await channel.close()

    def metadata(self, address: str, dataset_id: str) -> pb.DataServiceMetadata:
        """Return what a dispatcher knows of a dataset.  Raises: NotFoundError."""
        return run_sync(self._metadata(address, dataset_id))

    async def _metadata(self, address: str, dataset_id: str) -> pb.DataServiceMetadata:
        channel = make_channel(address)
        try:
            dispatcher = stub(DispatcherService, channel)
            request = pb.GetDataServiceMetadataRequest(dataset_id=dataset_id)
            reply = await until_reached(lambda: dispatcher.GetDataServiceMetadata(request))
            return reply.metadata
        finally:
            await channel.close()

    async def save(self, address: str, request: pb.SnapshotRequest) -> None:
        """Have a dispatcher's workers write a dataset to a directory, once it is there."""
        channel = make_channel(address)
        try:
            dispatcher = stub(DispatcherService, channel)
            await check_version(dispatcher, address)
            await until_reached(lambda: dispatcher.Snapshot(request))
            hold_functions(address, request.path, request.dataset.graph)
        finally:
            await channel.close()

    def iterator(self, reading: Reading, repetition: int) -> ServiceIterator:
        """Return an iterator over the elements of one repetition of a job."""
        return ServiceIterator(reading, repetition)


provide_data_service(ServiceClient())
