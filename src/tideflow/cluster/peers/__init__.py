"""Streams between tideflow servers: steps, tensors and ends in frames, beside TensorFlow's RPCs."""

from __future__ import annotations

from tideflow.cluster.peers.line import PeerHost, PeerLine
from tideflow.cluster.peers.link import PeerLink, PeerLinks, PushWait
from tideflow.cluster.peers.service import VERSION, PeerService

__all__ = [
    "VERSION",
    "PeerHost",
    "PeerLine",
    "PeerLink",
    "PeerLinks",
    "PeerService",
    "PushWait",
]
