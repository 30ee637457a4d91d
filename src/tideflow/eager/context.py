"""The context: what eager operations run on, and under which rules.

There is one in a process.  It takes the place of a session and a master: it knows the devices, the
functions and the state that kernels keep.  What it costs to make (devices, above all accelerators)
is spent when the first operation needs it (`ensure_initialized`).
"""

from __future__ import annotations

import atexit
import itertools
import random
import sys
import threading
import weakref

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.coordination_agent import CoordinationAgent, coordinate
from tideflow.cluster.server_config import ServerOptions
from tideflow.cluster.task_server import TaskServer
from tideflow.eager.device_policy import DevicePolicy
from tideflow.eager.remote import Cluster
from tideflow.graph import defaults
from tideflow.graph.graph import get_default_graph
from tideflow.graph.trace_library import TraceLibrary
from tideflow.platform.settings import process_settings
from tideflow.runtime.context import KernelState
from tideflow.runtime.device import Device, DeviceManager, make_devices
from tideflow.runtime.functions import FunctionRuntime
from tideflow.runtime.jit_mode import jit_mode
from tideflow.runtime.loop import run_sync
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import matches, parse_device_name, worker_name

_MOST_SEED = 2**31 - 1
# Devices of which a program may ask for more than there are.
_KNOWN_TYPES = frozenset(("CPU", "GPU", "TPU"))


class Context:
    """The devices, functions and state of eager execution.

    Attributes:
      config: takes effect when the context is initialized.
      library: functions by name, those of traces as long as these live.
      seed: from which random operations derive theirs, or None.
      cluster: what it is connected to, or None.
      is_synchronous: what the program was told; operations on other tasks are never waited for
        before somebody looks at what they make.
      device_policy: which inputs an operation does not take from other devices than its own; None
        for taking all.
    """

    def __init__(self, config: pb.ConfigProto | None = None) -> None:
        self.config = config or pb.ConfigProto(allow_soft_placement=True)
        self.library = TraceLibrary()
        self.seed: int | None = None
        self.cluster: Cluster | None = None
        self.is_synchronous = True
        self.device_policy: DevicePolicy | None = None
        self._server: TaskServer | None = None
        self._agent: CoordinationAgent | None = None
        self._op_seeds = random.Random()
        self._last_op_seed: int | None = None
        self._function_states: weakref.WeakSet[KernelState] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._devices: DeviceManager | None = None
        # Which device stands for a name that was asked for.
        self._placed: dict[str, Device] = {}
        self._names = itertools.count()

    # ---- devices

    def ensure_initialized(self) -> None:
        """Make the devices, unless they are there."""
        if self._devices is not None:
            return
        with self._lock:
            if self._devices is None:
                self._make_devices("localhost", 0)

    def _make_devices(self, job: str, task: int) -> None:
        """Make the devices under the names of a place in a cluster."""
        self._use(
            DeviceManager(make_devices(job, task, self.config, process_settings())), KernelState()
        )

    def _use(self, devices: DeviceManager, state: KernelState) -> None:
        self.state = state
        self.functions = FunctionRuntime(
            self.library,
            devices,
            self.state,
            lambda device: device.resources,
            jit_mode(self.config.graph_options),
        )
        self._devices = devices
        self._placed.clear()

    @property
    def is_initialized(self) -> bool:
        """Whether the devices were made."""
        return self._devices is not None

    @property
    def devices(self) -> DeviceManager:
        """The devices of this process."""
        self.ensure_initialized()
        assert self._devices is not None
        return self._devices

    @property
    def default_device(self) -> Device:
        """Where an operation runs that asks for no device."""
        return self.devices.client_device

    def placed(self, wanted: str) -> Device:
        """Return the device of this task that a name stands for, in full or in part.

        With soft placement, the default one stands for those of known types that are not there.
        Raises: InvalidArgumentError for a device that is nowhere.
        """
        found = self._placed.get(wanted)
        if found is not None:
            return found
        spec = parse_device_name(wanted)
        for device in self.devices.devices:
            if matches(spec, device.name):
                self._placed[wanted] = device
                return device
        here = parse_device_name(self.default_device.name)
        is_here = all(
            asked is None or asked == own
            for (_, asked), (_, own) in zip(spec.parts()[:3], here.parts()[:3])
        )
        if is_here and self.config.allow_soft_placement and spec.device_type in _KNOWN_TYPES:
            return self.default_device
        return self.devices.get(wanted)

    # ---- the cluster

    def connect(self, spec: ClusterSpec, job: str, task: int) -> None:
        """Become a task of a cluster; operations may then be asked to run on the others.

        Of the cluster that it is in already, tasks that were replaced get a context again, and the
        others keep what they have.
        As another job than before ("localhost"), the program has other devices: variables that
        were made before stay behind.
        Raises: UnavailableError naming a task that cannot be reached.
        """
        if self.cluster is not None and self.cluster.is_of(spec, job, task):
            run_sync(self.cluster.update())
            return
        self.disconnect()
        if not self.default_device.name.startswith(f"/job:{job}/replica:0/task:{task}/"):
            self._make_devices(job, task)
        made = Cluster(spec, job, task, self.devices, self.library, self.config)
        run_sync(made.connect())
        self.cluster = made
        atexit.register(self.disconnect)

    def join_ring(self, spec: ClusterSpec, job: str, task: int) -> None:
        """Serve as a task of a cluster whose members compute collectives together, and wait until
        all of them are there.  The first chief or worker leads.

        Raises: RuntimeError once operations have run; AlreadyExistsError for a port that is taken;
        AbortedError where another process is this task already.
        """
        if self.is_initialized:
            raise RuntimeError(
                "Collective ops must be configured at program startup: make the strategy before "
                "any operation runs"
            )
        server_pb = pb.ServerDef(
            cluster=spec.as_cluster_def(), job_name=job, task_index=task, protocol="grpc"
        )
        members: dict[str, int] = {
            name: len(spec.tasks(name)) for name in ("chief", "worker") if name in spec.jobs
        }
        leader = worker_name(next(iter(members)), 0)
        server_pb.default_session_config.CopyFrom(self.config)
        coordinate(server_pb.default_session_config, leader, members)
        self._server = TaskServer(server_pb, ServerOptions())
        run_sync(self._server.start())
        agent = CoordinationAgent(self._server, leader)
        try:
            run_sync(agent.join())
        except BaseException:
            self.disconnect()
            raise
        self._agent = agent
        atexit.register(self._leave_ring)
        worker = self._server.worker
        self._use(worker.devices, KernelState(worker.legacy_session.state.collectives))

    def _leave_ring(self) -> None:
        agent, self._agent = self._agent, None
        if agent is None:
            return
        # Set where an exception ends the program: the others should not wait for it.
        failure = getattr(sys, "last_value", None)
        told = None if failure is None else errors.AbortedError(f"the program ended: {failure!r}")
        run_sync(agent.leave(told))

    def disconnect(self) -> None:
        """Leave the cluster, if there is one; what lies on its tasks is lost."""
        atexit.unregister(self.disconnect)
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            run_sync(cluster.close())
        self._leave_ring()
        server, self._server = self._server, None
        if server is not None:
            run_sync(server.stop())

    def set_seed(self, seed: int | None) -> None:
        """Set the seed from which random operations without their own derive theirs.

        Source: tensorflow/python/eager/context.py (Context._set_global_seed)
        """
        self.seed = seed
        self._op_seeds = random.Random(seed)
        if self.is_initialized:
            self.state.restart_random()
        for state in list(self._function_states):
            state.restart_random()

    def next_op_seed(self) -> int:
        """Return the seed of the next random operation that gives none of its own."""
        self._last_op_seed = self._op_seeds.randint(0, _MOST_SEED)
        return self._last_op_seed

    def is_drawn_seed(self, seed: int) -> bool:
        """Whether an operation's seed was drawn for it: no other operation has it."""
        return seed == self._last_op_seed

    def own_state(self) -> KernelState:
        """Return state for the kernels of one function, whose random ones a new seed restarts."""
        made = KernelState(self.state.collectives)
        self._function_states.add(made)
        return made

    def unique_id(self) -> int:
        """Return a number that nothing else in this context has."""
        return next(self._names)

    def clear_kernel_cache(self) -> None:
        """Forget how the calling thread's operations are called, for libraries that start anew."""
        graph = defaults.local.eager_graph
        if graph is not None:
            graph.forget_bound()


_lock = threading.Lock()
_context: Context | None = None


def context() -> Context:
    """Return the process's context, made on first use."""
    global _context
    if _context is None:
        with _lock:
            if _context is None:
                _context = Context()
    return _context


def replace_context(made: Context | None) -> None:
    """Put another context in the place of the process's; tensors and variables stay with theirs."""
    global _context
    _context = made
    defaults.local.eager_graph = None


def reset_context() -> None:
    """Let the next operation begin with a new context, whose devices may be configured."""
    replace_context(None)


# ---- which mode a thread is in


def executing_eagerly() -> bool:
    """Whether operations are called at once in this thread, rather than put into a graph."""
    return get_default_graph().is_eager


def inside_function() -> bool:
    """Whether operations go into the graph of a function that is being traced."""
    return get_default_graph().building_function
