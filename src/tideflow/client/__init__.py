"""Clients: sessions that run steps here or through a master."""

from __future__ import annotations

from tideflow.client.remote import RemoteBackend
from tideflow.client.session import InteractiveSession, Session
from tideflow.client.test_case import TensorFlowTestCase

__all__ = ["InteractiveSession", "RemoteBackend", "Session", "TensorFlowTestCase"]
