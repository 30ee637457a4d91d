"""Session: runs parts of a graph, in this process or through a master.

with tf.Session() as session:                    # this process
with tf.Session("grpc://localhost:2222") as s:   # the master of that server
"""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tideflow.client.backend import Backend
from tideflow.client.fetches import Fetches, parts_of_feed, values_of_parts
from tideflow.client.local import LocalBackend
from tideflow.client.tensor_handles import (
    SessionHandles,
    TensorHandle,
    delete_dropped,
    moved,
)
from tideflow.compile.prune import Signature
from tideflow.graph.array_values import to_array
from tideflow.graph.graph import Graph, Operation, Tensor, default_sessions, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.shapes import compatible, format_dims
from tideflow.ops.export import export
from tideflow.ops.state import kept_type, read_type
from tideflow.platform import threads
from tideflow.platform.settings import Settings, process_settings
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb

_MOST_CACHED_CALLS = 512
_VARIABLE_KEYS = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)

RemoteFactory = Callable[[str, pb.ConfigProto, Settings], Backend]
RemoteReset = Callable[[str, "list[str] | None", "pb.ConfigProto | None"], None]
_remote_factories: dict[str, tuple[RemoteFactory, RemoteReset]] = {}


def register_remote(scheme: str, factory: RemoteFactory, reset: RemoteReset) -> None:
    """Say how sessions reach, and reset, the masters of a scheme, such as "grpc"."""
    _remote_factories[scheme] = factory, reset


def _find_remote(target: str) -> tuple[RemoteFactory, RemoteReset]:
    scheme, separator, _ = target.partition("://")
    found = _remote_factories.get(scheme) if separator else None
    if found is None:
        known = ", ".join(f"{name}://host:port" for name in sorted(_remote_factories))
        raise errors.NotFoundError(
            f"no way to reach the session target {target!r}; write {known}, or '' for a session "
            "in this process"
        )
    return found


@export("Session")
class Session:
    """Runs operations and evaluates tensors of a graph.

    Args:
      target: "" for this process, or a master's address, grpc://host:port.
      graph: the graph whose parts are run; the default graph if left out.
      config: a ConfigProto; see docs for the fields that have a meaning here.
      settings: see `tideflow settings`; None for the process's.  A server has its own.
      tls: short for settings that differ in `tls` alone: a folder of certificates, or three files.

    Attributes:
      backend: what runs the steps, for tools that look into it (see tideflow.client.backend).
      handles: what the session knows of handles to tensors that it keeps.

    `run` may be called from many threads.  Use it as a context manager: the session is then the
    default one and is closed at the end.
    """

    def __init__(
        self,
        target: str | bytes = "",
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        *,
        settings: Settings | None = None,
        tls: str | None = None,
    ) -> None:
        if not isinstance(target, (str, bytes)):
            raise TypeError(f"target must be a str such as 'grpc://host:port', not {target!r}")
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, not {type(graph).__name__}")
        if config is not None and not isinstance(config, pb.ConfigProto):
            raise TypeError(f"config must be a tf.ConfigProto, not {type(config).__name__}")
        self._target = target.decode() if isinstance(target, bytes) else target
        self._graph = graph if graph is not None else get_default_graph()
        self._config = config if config is not None else pb.ConfigProto()
        settings = settings or process_settings()
        self.backend = self._connect(settings if tls is None else settings.replace(tls=tls))
        self.handles = SessionHandles(self._graph)
        # A session that is dropped ends as one that is closed does.
        self._dropped = weakref.finalize(self, _close_aside, self.backend)
        self._dropped.atexit = False
        self._closed = False
        self._calls: dict[Any, _Call] = {}
        self._lock = threading.Lock()
        self._contexts: list[Any] = []

    def _connect(self, settings: Settings) -> Backend:
        if not self._target:
            return LocalBackend(self._config, settings)
        factory, _ = _find_remote(self._target)
        return factory(self._target, self._config, settings)

    @staticmethod
    def reset(
        target: str, containers: list[str] | None = None, config: pb.ConfigProto | None = None
    ) -> None:
        """Close all sessions of a master, and drop containers with the state that they hold.

        Args:
          target: the master's address; sessions in this process have nothing to reset.
          containers: names; None means the default container.
          config: device_filters limits which tasks are reset.
        Raises: NotFoundError for a target that is no master's address; OpError.
        """
        _, reset = _find_remote(target)
        reset(target, containers, config)

    # ---- facts

    @property
    def graph(self) -> Graph:
        """The graph whose parts are run."""
        return self._graph

    @property
    def graph_def(self) -> pb.GraphDef:
        """The graph as a message."""
        found: pb.GraphDef = self._graph.as_graph_def()
        return found

    @property
    def sess_str(self) -> str:
        """The target, as given."""
        return self._target

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """Return the devices that the session may use."""
        self._check_open()
        return self.backend.list_devices()

    # ---- running

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: pb.RunOptions | None = None,
        run_metadata: pb.RunMetadata | None = None,
    ) -> Any:
        """Run one step and return the values of the fetches.

        Args:
          fetches: a tensor, operation, name or variable, or any nesting of these.
          feed_dict: values in the place of tensors; keys are tensors, variables or names.
          options: timeout_in_ms, trace_level and so on.
          run_metadata: filled with what options ask for.
        Raises: RuntimeError when closed; ValueError or TypeError for bad fetches or feeds; OpError
        for what goes wrong in the step.
        """
        self._check_open()
        call, given = self._prepare(fetches, feed_dict)
        return self._step(call, given, options, run_metadata)

    def _step(
        self,
        call: _Call,
        given: list[Any],
        options: pb.RunOptions | None,
        metadata: pb.RunMetadata | None,
    ) -> Any:
        feeds = call.feed_values(given)
        if call.is_empty:
            return call.finish([], given)
        try:
            found = self.backend.run(self._graph, call.signature, feeds, options, metadata)
        except errors.OpError as error:
            raise self._located(error) from None
        return call.finish(found, given)

    def _prepare(
        self, fetches: Any, feed_dict: Mapping[Any, Any] | None
    ) -> tuple[_Call, list[Any]]:
        """Return the prepared call, and what is fed as the caller gives it."""
        if not feed_dict:
            return self._call(fetches, ()), []
        if type(feed_dict) is not dict and not isinstance(feed_dict, Mapping):
            raise TypeError(f"feed_dict must be a dict, not {type(feed_dict).__name__}")
        fed: list[Tensor] = []
        given: list[Any] = []
        for key, value in feed_dict.items():
            self._feed(key, value, fed, given)
        return self._call(fetches, tuple(fed)), given

    def _feed(self, key: Any, value: Any, fed: list[Tensor], given: list[Any]) -> None:
        if isinstance(key, tuple):
            value = value if isinstance(value, (tuple, list)) else [value]
            if len(key) != len(value):
                raise ValueError(f"the feed {key!r} needs as many values as it has tensors")
            for part, part_value in zip(key, value):
                self._feed(part, part_value, fed, given)
            return
        parts = parts_of_feed(key)
        if parts is not None:
            for part, part_value in zip(parts, values_of_parts(key, value)):
                self._feed(part, part_value, fed, given)
            return
        fed.append(self._feed_tensor(key))
        given.append(value)

    def _feed_tensor(self, key: Any) -> Tensor:
        if isinstance(key, Tensor) and key.graph is self._graph:
            found: Any = key
        else:
            try:
                found = self._graph.as_graph_element(key, allow_operation=False)
            except (KeyError, ValueError, TypeError) as error:
                raise TypeError(f"cannot feed {key!r}: {error.args[0]}") from None
        if not self._graph.is_feedable(found):
            raise ValueError(f"Tensor {found.name} may not be fed.")
        tensor: Tensor = found
        return tensor

    def _call(self, fetches: Any, fed: tuple[Tensor, ...]) -> _Call:
        """Return the prepared call for fetches and feeds, cached by the identity of simple ones."""
        key = _call_key(fetches, fed)
        if key is not None:
            found = self._calls.get(key)
            if found is not None:
                return found
        if not self._graph.operations_by_name:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )
        made = _Call(Fetches(self._graph, fetches), fetches, fed, self)
        if key is not None:
            with self._lock:
                if len(self._calls) >= _MOST_CACHED_CALLS:
                    self._calls.clear()
                self._calls[key] = made
        return made

    def _located(self, error: errors.OpError) -> errors.OpError:
        """Add the user's line that made the failing operation, and the initializer to run."""
        op = self._graph.operations_by_name.get(error.node or "")
        if op is None or error.op is op:
            return error
        file, line = op.made_at
        message = f"{error.message}\nMade at {file}:{line}."
        if error.error_code in (errors.FAILED_PRECONDITION, errors.NOT_FOUND):
            message += _initializer_hint(self._graph, error.message)
        located = error.with_message(message)
        located.op = op
        return located

    def make_callable(
        self, fetches: Any, feed_list: list[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """Return a function that runs a step with the feeds of feed_list as its arguments.

        With accept_options it also takes `options` and `run_metadata`.
        """
        self._check_open()
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError(f"feed_list must be a list or tuple, not {feed_list!r:.60}")
        keys = tuple(feed_list or ())
        plain = all(isinstance(key, Tensor) for key in keys)
        fed = tuple(self._feed_tensor(key) for key in keys) if plain else ()
        call = self._call(fetches, fed) if plain else None

        def run(*args: Any, **kwargs: Any) -> Any:
            self._check_open()
            if kwargs and not (accept_options or keys):
                raise TypeError("make_callable(..., accept_options=True) takes options")
            options, metadata = kwargs.get("options"), kwargs.get("run_metadata")
            if call is None or len(args) != len(fed):
                # As in TensorFlow: what is not given is not fed, and the step says what it lacks.
                return self.run(fetches, dict(zip(keys, args)), options, metadata)
            return self._step(call, list(args), options, metadata)

        return run

    def partial_run_setup(self, fetches: Any, feeds: list[Any] | None = None) -> str:
        """Begin a step that is fed and fetched in pieces; return its handle for partial_run."""
        self._check_open()
        parsed = Fetches(self._graph, fetches)
        signature = Signature(
            tuple(self._feed_tensor(key).name for key in feeds or ()),
            tuple(tensor.name for tensor in parsed.tensors),
            tuple(op.name for op in parsed.targets),
        )
        return self.backend.partial_run_setup(self._graph, signature)

    def partial_run(
        self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None
    ) -> Any:
        """Go on with a partial run: feed some more, fetch some more."""
        self._check_open()
        call, given = self._prepare(fetches, feed_dict)
        feeds = dict(zip(call.signature.feeds, call.feed_values(given)))
        try:
            found = self.backend.partial_run(handle, feeds, list(call.signature.fetches))
        except errors.OpError as error:
            raise self._located(error) from None
        return call.finish(found, given)

    # ---- life

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")

    def close(self) -> None:
        """End the session.  Running steps fail with CancelledError; closing twice does nothing."""
        if not self._closed:
            self._closed = True
            self._dropped.detach()
            self.backend.close()

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Session]:
        """Make this the calling thread's default session (not its default graph)."""
        stack = default_sessions()
        stack.append(self)
        try:
            yield self
        finally:
            stack.remove(self)

    def __enter__(self) -> Session:
        if self._contexts:
            raise RuntimeError("Session context managers are not re-entrant.")
        entered = contextlib.ExitStack()
        entered.enter_context(self._graph.as_default())
        entered.enter_context(self.as_default())
        self._contexts.append(entered)
        return self

    def __exit__(self, *args: Any) -> None:
        self._contexts.pop().close()
        if not self._contexts:
            self.close()


@export("InteractiveSession")
class InteractiveSession(Session):
    """A Session that is the default one from when it is made until it is closed."""

    def __init__(
        self, target: str = "", graph: Graph | None = None, config: pb.ConfigProto | None = None
    ) -> None:
        super().__init__(target, graph, config)
        self.__enter__()

    def close(self) -> None:
        """End the session and the default that it is."""
        while self._contexts:
            self._contexts.pop().close()
        super().close()


class _Call:
    """Fetches and feeds, prepared: what the backend is asked, and how to read its answer."""

    __slots__ = (
        "_backend",
        "_fed",
        "_fed_fetches",
        "_fetches",
        "_gives_quantized",
        "_handle_feeds",
        "_handles",
        "_quantized_feeds",
        "_session",
        "held",
        "is_empty",
        "order",
        "signature",
    )

    def __init__(
        self, fetches: Fetches, given: Any, fed: tuple[Tensor, ...], session: Session
    ) -> None:
        feed_index = {id(tensor): i for i, tensor in enumerate(fed)}
        self._fetches = fetches
        self._fed = fed
        # Sessions keep calls, and one that is dropped ends at once.
        self._session = weakref.ref(session)
        self._backend = session.backend
        # Objects whose identities are the cache key stay alive with the entry.
        self.held = (given, fed)
        # A fetch that is fed needs no step.
        self._fed_fetches = {
            i: feed_index[id(t)] for i, t in enumerate(fetches.tensors) if id(t) in feed_index
        }
        asked = [t for i, t in enumerate(fetches.tensors) if i not in self._fed_fetches]
        self.signature = Signature(
            tuple(t.name for t in fed),
            tuple(t.name for t in asked),
            tuple(op.name for op in fetches.targets),
        )
        self.is_empty = not asked and not fetches.targets
        # On the way to other tasks numbers of quantised types tell their type themselves.
        is_remote = self._backend.is_remote
        quantized = [is_remote and t.dtype.base_dtype.is_quantized for t in (*fed, *asked)]
        self._quantized_feeds = [i for i in range(len(fed)) if quantized[i]]
        self._gives_quantized = any(quantized[len(fed) :])
        kept = {i: kept_type(t) for i, t in enumerate(asked)}
        self._handles = {i: dtype for i, dtype in kept.items() if dtype is not None}
        read = {i: read_type(t) for i, t in enumerate(fed) if t.dtype is dtypes.string}
        self._handle_feeds = {i: dtype for i, dtype in read.items() if dtype is not None}

    def feed_values(self, given: list[Any]) -> list[Any]:
        """Return what is fed as arrays of the tensors' types (see feed_value)."""
        backend = self._backend
        values = [feed_value(tensor, value, backend) for tensor, value in zip(self._fed, given)]
        for i in self._quantized_feeds:
            values[i] = dtypes.with_field(values[i], self._fed[i].dtype.base_dtype)
        if self._handle_feeds:
            self._move(values, given)
        return values

    def _move(self, values: list[Any], given: list[Any]) -> None:
        """Feed handles to tensors where they are read, copied there if need be."""
        session = self._session()
        assert session is not None
        for i, dtype in self._handle_feeds.items():
            handle = values[i].item()
            if not isinstance(handle, bytes):
                continue
            copy = moved(session, self._fed[i], handle.decode(errors="replace"), dtype)
            if copy is not None:
                values[i] = to_array(copy.handle, dtypes.string)
                given.append(copy)  # held until the step has ended

    def finish(self, found: list[Any], given: list[Any]) -> Any:
        """Return the step's values in the shape of the fetches; what was fed as it was given."""
        if self._gives_quantized:
            found = [dtypes.without_field(v) if _has_field(v) else v for v in found]
        found = [v[()] if type(v) is np.ndarray and not v.ndim else v for v in found]
        if self._handles:
            self._take_handles(found)
        if self._fed_fetches:
            rest = iter(found)
            found = [
                self._fed_value(self._fed_fetches[i], given)
                if i in self._fed_fetches
                else next(rest)
                for i in range(len(self._fetches.tensors))
            ]
        return self._fetches.build(found)

    def _take_handles(self, found: list[Any]) -> None:
        """Put TensorHandles in the place of what names kept tensors."""
        session = self._session()
        assert session is not None
        for i, dtype in self._handles.items():
            name = found[i].decode() if isinstance(found[i], bytes) else found[i].name
            found[i] = TensorHandle(name, dtype, session)
        delete_dropped(session)

    def _fed_value(self, at: int, given: list[Any]) -> Any:
        if isinstance(given[at], TensorHandle):
            return given[at].eval()
        dtype = self._fed[at].dtype.base_dtype
        if dtype in (dtypes.resource, dtypes.variant):
            return given[at]
        return np.asarray(given[at], dtype=dtype.as_numpy_dtype)


def _initializer_hint(graph: Graph, message: str) -> str:
    """Name the initializer of the first variable that a message quotes; "" if it quotes none."""
    variables = {v.op.name: v for key in _VARIABLE_KEYS for v in graph.get_collection(key)}
    for name in re.findall(r"'([^']+)'", message):
        initializer = getattr(variables.get(name), "initializer", None)
        if initializer is not None:
            return (
                f"\nThe initializer of variable {name!r} is operation {initializer.name!r}: "
                f"session.run({initializer.name!r})."
            )
    return ""


def _close_aside(backend: Backend) -> None:
    """Close what a dropped session leaves, without waiting: any thread may collect garbage."""
    threads.start(backend.close, name="tideflow-close")


def _call_key(fetches: Any, fed: tuple[Tensor, ...]) -> Any:
    """Return a key for fetches that are one element or a flat list of them, else None."""
    if isinstance(fetches, (Tensor, Operation)):
        return id(fetches), fed
    if type(fetches) is list or type(fetches) is tuple:
        if all(isinstance(f, (Tensor, Operation)) for f in fetches):
            return type(fetches), tuple(map(id, fetches)), fed
        return None
    return (fetches, fed) if isinstance(fetches, str) else None


def _has_field(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.names is not None


def feed_value(tensor: Tensor, value: Any, backend: Backend) -> Any:
    """Return a fed value as an array of the tensor's type.

    A handle gives the tensor that the backend's session keeps, whatever its shape.

    Raises: TypeError for a tensor, or a value that does not fit the type; ValueError for a shape
    that the tensor cannot have; InvalidArgumentError for a handle of another type, or to nothing.
    """
    if isinstance(value, Tensor):
        raise TypeError(
            f"The value of a feed cannot be a tf.Tensor object: {tensor.name!r} was fed "
            f"{value.shown_name!r}. Feed its value, as session.run gives it."
        )
    dtype = tensor.dtype.base_dtype
    wanted = dtype.as_numpy_dtype
    if dtype in (dtypes.resource, dtypes.variant):
        return value
    if type(value) is not np.ndarray or value.dtype != wanted or wanted is object:
        if isinstance(value, TensorHandle):
            return value.value_for(tensor, backend)
        value = _convert(tensor, value, dtype)
    if not value.ndim:
        # Arithmetic on NumPy's scalars is several times faster than on arrays without dimensions.
        value = value[()] if wanted is not object else value
    dims = tensor.dims
    if dims is not None and not compatible(dims, value.shape):
        raise ValueError(
            f"Cannot feed value of shape {value.shape} for Tensor {tensor.name}, which has shape "
            f"{tensor.shape}"
        )
    return value


def _convert(tensor: Tensor, value: Any, dtype: dtypes.DType) -> Any:
    if dtype is dtypes.string:
        return to_array(value, dtype)
    if isinstance(value, int) and dtype.is_integer and not dtype.min <= value <= dtype.max:
        raise TypeError(f"{value} does not fit {dtype.name}, the type of {tensor.name!r}")
    try:
        return np.asarray(value, dtype=dtype.as_numpy_dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"cannot feed {tensor.name!r} ({dtype.name}, shape {format_dims(tensor.dims)}): {error}"
        ) from None
