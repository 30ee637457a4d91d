"""Synchronous training: the gradients of several replicas become one update.

Each gradient goes into an accumulator beside its variable, with the step that its worker last saw;
one that comes late, for a step that is over, is dropped.  A thread of the chief takes the mean of
`replicas_to_aggregate` gradients, applies it, and puts one token, the new step, for each replica
into a queue.  A worker takes a token before its next step.  With fewer gradients to a step than
replicas, the slowest are not waited for.

Source: tensorflow/python/training/sync_replicas_optimizer.py for names and the order of events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import group
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, fill, no_op
from tideflow.ops.queues import (
    ConditionalAccumulator,
    ConditionalAccumulatorBase,
    FIFOQueue,
    SparseConditionalAccumulator,
)
from tideflow.ops.state import Variable, assign, global_variables, report_uninitialized_variables
from tideflow.train.hooks import SessionRunHook
from tideflow.train.optimizers.optimizer import Optimizer
from tideflow.train.sessions import check_ready
from tideflow.train.threads import Coordinator, QueueRunner


@export("train.SyncReplicasOptimizer")
class SyncReplicasOptimizer(Optimizer):
    """Makes another optimizer synchronous.

    Example:
      optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=workers)
      train_op = optimizer.minimize(loss, global_step=global_step)
      hooks = [optimizer.make_session_run_hook(is_chief)]

    Args:
      opt: the optimizer that applies the gradients.
      replicas_to_aggregate: how many gradients make a step.
      total_num_replicas: how many replicas there are; the same number if left out.  More of them
        are backups: the gradients of the slowest are dropped.  Fewer give several each.
      variable_averages, variables_to_average: an ExponentialMovingAverage and what it follows.
    Attributes, after apply_gradients:
      chief_init_op, local_step_init_op: to be run by the chief and the others in a new session.
      ready_for_local_init_op: gives the names of what these need and has no value.
    """

    chief_init_op: Operation
    local_step_init_op: Any
    ready_for_local_init_op: Tensor

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        if total_num_replicas is None:
            total_num_replicas = replicas_to_aggregate
        super().__init__(use_locking, name)
        logging.info(
            "SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s",
            replicas_to_aggregate,
            total_num_replicas,
        )
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = total_num_replicas
        self._tokens_per_step = max(total_num_replicas, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._global_step: Any = None
        self._token_queue: FIFOQueue | None = None
        self._chief_queue_runner: QueueRunner | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return pairs (gradient or None, variable), as the other optimizer does."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: TensorLike | None = None,
        name: str | None = None,
    ) -> Any:
        """Return what a worker runs: it hands in its gradients, and waits for the next step.

        Raises: ValueError for no variables or no global step, or something that is no gradient.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        local_step = self._make_local_step(global_step)
        self.local_step_init_op = assign(local_step, _read(global_step))
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        graph = get_default_graph()
        with graph.name_scope(None), graph.name_scope(self._name):
            accumulators: list[tuple[ConditionalAccumulatorBase, str]] = []
            handed_in: list[Operation] = []
            means: list[tuple[Any, Any]] = []
            for grad, var in pairs:
                with graph.device(var.device):
                    mean = None
                    if grad is not None:
                        accumulator, given, mean = self._accumulate(grad, var, local_step)
                        accumulators.append((accumulator, var.device))
                        handed_in.append(given)
                    means.append((mean, var))
            train_op = self._make_step(means, handed_in, local_step)
            chief_init_ops = [self.local_step_init_op]
            for accumulator, device in accumulators:
                with graph.device(device):
                    step = _read(global_step)
                    chief_init_ops.append(accumulator.set_global_step(step, name="SetGlobalStep"))
            self.chief_init_op = group(*chief_init_ops)
        return train_op

    def _make_local_step(self, global_step: Any) -> Variable:
        """Return the variable that holds the step which this replica works on, on its own task."""
        graph = get_default_graph()
        with graph.colocate_with(no_op(), ignore_existing=True):
            return Variable(
                0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )

    def _accumulate(
        self, grad: Any, var: Any, local_step: Variable
    ) -> tuple[ConditionalAccumulatorBase, Operation, Any]:
        """Return an accumulator, the op that adds a gradient to it, and the mean taken from it."""
        shared_name = f"{var.name}/grad_accum"
        wanted = self._replicas_to_aggregate
        if isinstance(grad, Tensor):
            dense = ConditionalAccumulator(grad.dtype, var.shape, shared_name)
            return dense, dense.apply_grad(grad, local_step), dense.take_grad(wanted)
        if not isinstance(grad, IndexedSlices):
            raise ValueError(f"Unknown grad type! {grad!r} is neither a tensor nor IndexedSlices")
        sparse = SparseConditionalAccumulator(grad.dtype, (), shared_name)
        given = sparse.apply_indexed_slices_grad(grad, local_step)
        return sparse, given, sparse.take_indexed_slices_grad(wanted)

    def _make_step(
        self, means: list[tuple[Any, Any]], handed_in: list[Operation], local_step: Variable
    ) -> Any:
        """Build what the chief's thread runs, and return what a worker runs."""
        graph, global_step = get_default_graph(), self._global_step
        with graph.device(global_step.device), graph.name_scope(None):
            update = self._opt.apply_gradients(means, global_step)
            self._token_queue = queue = FIFOQueue(
                -1,
                global_step.dtype.base_dtype,
                shapes=[[]],
                name="sync_token_q",
                shared_name="sync_token_q",
            )
            with graph.control_dependencies(handed_in):
                token = queue.dequeue()
            train_op = assign(local_step, token)
            with graph.control_dependencies([update]):
                tokens = fill([self._tokens_per_step], _read(global_step))
                finish = queue.enqueue_many((tokens,))
            if self._variable_averages is not None:
                with graph.control_dependencies([finish]):
                    finish = self._variable_averages.apply(self._variables_to_average)
            self._chief_queue_runner = QueueRunner(queue, [finish])
        return train_op

    def get_chief_queue_runner(self) -> QueueRunner:
        """Return the runner whose thread, at the chief, makes the steps.

        Raises: ValueError before apply_gradients.
        """
        if self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """Return what puts the first tokens into the queue; the chief runs it once.

        num_tokens: replicas_to_aggregate if left out.
        Raises: ValueError before apply_gradients, or for too few tokens to finish the first step.
        """
        if self._token_queue is None:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} "
                "(needed)"
            )
        if num_tokens <= 0:
            return no_op(name="no_init_tokens")
        graph = get_default_graph()
        with graph.device(self._global_step.device), graph.name_scope(None):
            return self._token_queue.enqueue_many((fill([num_tokens], _read(self._global_step)),))

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """Return the hook that initializes, and at the chief runs, the synchronization."""
        return _SyncReplicasHook(self, is_chief, num_tokens)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the other optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the slot names of the other optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        """Return the other optimizer's variables."""
        return self._opt.variables()


def _read(variable: Any) -> Any:
    """Return the variable's value as it is after what is in force now has run."""
    read = getattr(variable, "read_value", None)
    return convert_to_tensor(variable) if read is None else read()


class _SyncReplicasHook(SessionRunHook):
    """Begins synchronous training in each new session."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

    def begin(self) -> None:
        """Find, or make, what is run in a new session."""
        optimizer = self._optimizer
        if optimizer._token_queue is None:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook."
            )
        self._init_tokens_op: Operation | None = None
        self._queue_runner: QueueRunner | None = None
        self._local_init_op = optimizer.local_step_init_op
        if self._is_chief:
            self._local_init_op = optimizer.chief_init_op
            self._init_tokens_op = optimizer.get_init_tokens_op(self._num_tokens)
            # The queue outlives this session.  Were it closed with a session that is lost, or
            # with a chief that starts again, no other session could go on with it.
            runner = optimizer.get_chief_queue_runner()
            keep_open = no_op(name="keep_sync_token_q")
            self._queue_runner = QueueRunner(
                runner.queue, runner.enqueue_ops, close_op=keep_open, cancel_op=keep_open
            )
            self._close_op = runner.close_op

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Set the steps; at the chief also put tokens, and start the thread that makes steps."""
        label = "Model is not ready for SyncReplicasOptimizer local init."
        missing = check_ready(self._optimizer.ready_for_local_init_op, session, label)
        if missing is not None:
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. "
                f"Init op: {self._local_init_op.name}, error: {missing}"
            )
        session.run(self._local_init_op)
        if self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        if self._queue_runner is not None:
            self._queue_runner.create_threads(session, coord=coord, daemon=True, start=True)

    def end(self, session: Session) -> None:
        """Have the other replicas find that the tokens, and so the training, have ended."""
        if self._is_chief:
            session.run(self._close_op)
