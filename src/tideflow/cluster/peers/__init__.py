"""Streams between tideflow servers: steps, tensors and ends in frames, beside TensorFlow's RPCs."""

from __future__ import annotations

from tideflow.cluster.peers.peer import KnownPeer, PeerTable, PushWait
from tideflow.cluster.peers.service import VERSION, PeerService
from tideflow.cluster.peers.stream import PeerHost, PeerStream

__all__ = [
    "VERSION",
    "KnownPeer",
    "PeerHost",
    "PeerService",
    "PeerStream",
    "PeerTable",
    "PushWait",
]
