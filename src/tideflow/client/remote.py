"""Sessions whose steps a master runs: `Session("grpc://host:port")`.

The session at the master is made by the first step, from the graph so far; later steps first send
what the graph has gained.  The master of a server in this process is called directly.
Source: grpc_session.cc and grpc_remote_master.cc of TensorFlow 2.21; runtime facts on its client.
"""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from tideflow.client.backend import step_timeout_s
from tideflow.client.local import give_away, lent
from tideflow.client.master_channel import MasterChannel
from tideflow.client.session import register_remote
from tideflow.cluster.master import Master
from tideflow.compile.prune import Signature
from tideflow.graph.graph import Graph
from tideflow.graph.graph_def import nodes_to_graph_def
from tideflow.ops.state import SessionTensors
from tideflow.platform.settings import Settings, process_settings
from tideflow.runtime.loop import run_sync
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.fields import Buffer
from tideflow.wire.graph_contents import GraphContents
from tideflow.wire.ids import new_request_id
from tideflow.wire.parted import MaybeParted, take_apart, with_graphs, with_tensors
from tideflow.wire.status import error_from_body
from tideflow.wire.tensor_codec import decode_for_owner

M = TypeVar("M", bound=Message)

# Well below the five seconds that a user is promised.
_CLOSE_TIMEOUT_S = 3.0
_NODE_IN_TEXT = re.compile(r"\[\[\{\{node ([^}\s]+)\}\}\]\]")


class RemoteBackend:
    """Runs the steps of one session through a master (see tideflow.client.backend.Backend).

    Args:
      target: the master's address, `grpc://host:port`.
      config: sent to the master; operation_timeout_in_ms is the deadline of all calls.
      settings: of the connection, and of how long the master is waited for.
    """

    is_remote = True
    session_tensors: SessionTensors | None = None

    def __init__(self, target: str, config: pb.ConfigProto, settings: Settings) -> None:
        self._target = target
        self._config = config
        self._channel = MasterChannel(target, settings)
        self._graph_lock = threading.Lock()
        self._handle = ""
        self._version = 0
        self._sent_nodes = 0
        self._sent_functions: set[str] = set()
        self._closed = threading.Event()

    # ---- steps

    def run(
        self,
        graph: Graph,
        signature: Signature,
        feeds: list[Any],
        options: pb.RunOptions | None,
        metadata: pb.RunMetadata | None,
    ) -> list[Any]:
        """Run one step at the master."""
        self._bring_up_to_date(graph)
        timeout_s = step_timeout_s(self._config, options)
        local = self._channel.local
        try:
            if isinstance(local, Master):
                step = local.run_step(self._handle, signature, lent(feeds), options)
                values, found_pb = run_sync(self._channel.await_local(step, timeout_s))
                give_away(values)
            else:
                request = self._step_request(signature, feeds, options)
                values, found_pb = self._run_step(request, signature.fetches, timeout_s)
        except errors.OpError as error:
            raise self._explained(error) from None
        if metadata is not None:
            metadata.CopyFrom(found_pb)
        return values

    def _step_request(
        self,
        signature: Signature,
        feeds: list[Any],
        options: pb.RunOptions | None,
        partial_run_handle: str = "",
    ) -> MaybeParted[pb.RunStepRequest]:
        request = pb.RunStepRequest(
            session_handle=self._handle,
            partial_run_handle=partial_run_handle,
            fetch=signature.fetches,
            target=signature.targets,
            options=options if options is not None else pb.RunOptions(),
            store_errors_in_response_body=True,
            request_id=new_request_id(),
        )
        return with_tensors(request, zip(signature.feeds, feeds))

    def _run_step(
        self,
        request: MaybeParted[pb.RunStepRequest],
        fetches: tuple[str, ...],
        timeout_s: float | None,
    ) -> tuple[list[Any], pb.RunMetadata]:
        # What stands for a message passes for one.
        sent = cast("Message", request)
        answer = self._channel.call_blocking("RunStep", sent, timeout_s)
        response, contents = take_apart(answer)
        assert isinstance(response, pb.RunStepResponse)
        error = error_from_body(response.status_code, response.status_error_message)
        if error is not None:
            raise error
        found = {
            named.name: (named.tensor, contents.get(position))
            for position, named in enumerate(response.tensor)
        }
        if found.keys() != set(fetches):
            raise errors.InternalError(
                f"the master at {self._target} answered a step that fetches "
                f"{', '.join(fetches) or 'nothing'} with {', '.join(found) or 'nothing'}"
            )
        return [decode_for_owner(*found[name]) for name in fetches], response.metadata

    def _explained(self, error: errors.OpError) -> errors.OpError:
        """Return a step's error with the node that its text names, as it travels."""
        if self._closed.is_set() and not isinstance(error, errors.CancelledError):
            # The step met the end of its session, at whatever point.
            return errors.CancelledError(
                f"Session::Close: the session was closed ({error.message})"
            )
        if error.node is None:
            found = _NODE_IN_TEXT.search(error.message)
            if found is not None:
                error.node = found[1]
        return error

    # ---- partial runs

    def partial_run_setup(self, graph: Graph, signature: Signature) -> str:
        """Begin a partial run at the master."""
        self._bring_up_to_date(graph)
        request = pb.PartialRunSetupRequest(
            session_handle=self._handle,
            feed=signature.feeds,
            fetch=signature.fetches,
            target=signature.targets,
            request_id=new_request_id(),
        )
        response = self._call("PartialRunSetup", request, pb.PartialRunSetupResponse)
        return response.partial_run_handle

    def partial_run(self, handle: str, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
        """Go on with a partial run."""
        signature = Signature(tuple(feeds), tuple(fetches))
        request = self._step_request(signature, list(feeds.values()), None, handle)
        try:
            values, _ = self._run_step(
                request, signature.fetches, step_timeout_s(self._config, None)
            )
        except errors.OpError as error:
            raise self._explained(error) from None
        return values

    # ---- the graph at the master

    def _bring_up_to_date(self, graph: Graph) -> None:
        """Make the session, or send it what the graph has gained.

        What was refused is sent again the next time.
        """
        if self._handle and self._sent_nodes == len(graph.operations_by_name):
            return
        with self._graph_lock:
            if self._closed.is_set():
                raise errors.CancelledError("the session was closed while it was being made")
            with graph.lock:
                count = len(graph.operations_by_name)
                functions = [n for n in graph.functions if n not in self._sent_functions]
                if self._handle and count == self._sent_nodes:
                    return
                contents: dict[bytes, Buffer] = {}
                graph_pb = self._new_part(graph, functions, contents)
            if self._handle:
                self._extend(graph_pb, contents)
            else:
                self._create(graph_pb, contents)
            self._sent_nodes = count
            self._sent_functions.update(functions)

    def _new_part(
        self, graph: Graph, functions: list[str], contents: dict[bytes, Buffer]
    ) -> pb.GraphDef:
        operations = graph.get_operations()[self._sent_nodes :]
        found = [graph.functions[name] for name in functions]
        return nodes_to_graph_def(operations, found, contents=contents)

    def _create(self, graph_pb: pb.GraphDef, contents: GraphContents) -> None:
        request = pb.CreateSessionRequest(
            graph_def=graph_pb, config=self._config, target=self._target
        )
        # What stands for a message passes for one.
        sent = cast("Message", with_graphs(request, contents))
        response = self._call("CreateSession", sent, pb.CreateSessionResponse, patiently=True)
        self._handle, self._version = response.session_handle, response.graph_version

    def _extend(self, graph_pb: pb.GraphDef, contents: GraphContents) -> None:
        request = pb.ExtendSessionRequest(
            session_handle=self._handle,
            graph_def=graph_pb,
            current_graph_version=self._version,
        )
        sent = cast("Message", with_graphs(request, contents))
        response = self._call("ExtendSession", sent, pb.ExtendSessionResponse)
        self._version = response.new_graph_version

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """Return the devices of the session; one without a graph is made if there is none yet."""
        with self._graph_lock:
            if not self._handle:
                self._create(pb.GraphDef(), {})
        request = pb.ListDevicesRequest(session_handle=self._handle)
        response = self._call("ListDevices", request, pb.ListDevicesResponse)
        return [*response.local_device, *response.remote_device]

    # ---- calls and life

    def _call(
        self,
        method: str,
        request: Message,
        response_type: type[M],
        timeout_s: float | None = None,
        *,
        patiently: bool = False,
    ) -> M:
        if timeout_s is None:
            timeout_s = step_timeout_s(self._config, None)
        if patiently:
            response = run_sync(self._channel.call(method, request, timeout_s, patiently))
        else:
            response = self._channel.call_blocking(method, request, timeout_s)
        assert isinstance(response, response_type)
        return response

    def close(self) -> None:
        """End the session at the master; ends within five seconds whatever the master does."""
        if not self._closed.is_set():
            self._closed.set()
            run_sync(self._close())

    async def _close(self) -> None:
        self._channel.give_up_waiting()
        if self._handle:
            request = pb.CloseSessionRequest(session_handle=self._handle)
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._channel.call("CloseSession", request, _CLOSE_TIMEOUT_S, False, 0)
            except (errors.OpError, TimeoutError):
                pass  # a master that does not answer has nothing left to end
        await self._channel.close()


def reset(
    target: str, containers: list[str] | None = None, config: pb.ConfigProto | None = None
) -> None:
    """Close all sessions of a master and drop containers on its workers, with all they hold.

    Args:
      containers: names; None or none at all means the default container.
      config: device_filters and operation_timeout_in_ms have a meaning.
    Raises: OpError when the master cannot be reached, or a worker cannot be cleaned.
    """
    request = pb.ResetRequest(container=containers or ())
    timeout_ms = 0
    if config is not None:
        request.device_filters.extend(config.device_filters)
        timeout_ms = config.operation_timeout_in_ms

    async def call() -> None:
        channel = MasterChannel(target, process_settings())
        try:
            await channel.call("Reset", request, timeout_ms / 1000 if timeout_ms else None, True)
        finally:
            await channel.close()

    run_sync(call())


register_remote("grpc", RemoteBackend, reset)
