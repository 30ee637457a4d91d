"""Neural networks: convolutions, pools, normalisation, activations, losses, embeddings, layers."""

from __future__ import annotations

from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.depthwise import depthwise_conv2d
from tideflow.ops.nn.weighted_losses import Reduction, compute_weighted_loss

__all__ = [
    "Reduction",
    "compute_weighted_loss",
    "depthwise_conv2d",
    "wide",
]
