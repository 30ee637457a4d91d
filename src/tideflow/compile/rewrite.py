"""The passes that change what a graph computes in between, but not what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideflow.compile.fold import fold_constants
from tideflow.compile.merge import merge_equal
from tideflow.graph.node import Node
from tideflow.wire import messages as pb


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Which passes may change what a graph computes in between.

    Attributes:
      merges: whether equal nodes become one.
      folds: whether pure nodes of constants become constants.
    """

    merges: bool = True
    folds: bool = True

    @classmethod
    def asked(cls, options: pb.GraphOptions) -> Rewrites:
        """Return what a session's options ask for: all, unless one of them says otherwise.

        As in TensorFlow, `opt_level` decides also where the meta-optimizer is off.
        """
        level, rewriter = options.optimizer_options, options.rewrite_options
        by_default = level.opt_level != pb.OptimizerOptions.L0
        off = pb.RewriterConfig.OFF
        return cls(
            merges=(by_default or level.do_common_subexpression_elimination)
            and rewriter.common_subgraph_elimination != off,
            folds=(by_default or level.do_constant_folding) and rewriter.constant_folding != off,
        )


ALL_REWRITES = Rewrites()


def rewrite(nodes: Sequence[Node], rewrites: Rewrites = ALL_REWRITES) -> list[Node]:
    """Return the nodes that are left; see the passes."""
    left = list(nodes)
    # Merging first leaves less to fold.
    if rewrites.merges:
        left = merge_equal(left)
    if rewrites.folds:
        left = fold_constants(left)
    return left
