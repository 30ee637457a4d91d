"""Sessions that last: scaffolds, session managers, monitored sessions, supervisors."""

from __future__ import annotations

from tideflow.train.sessions.session_manager import check_ready

__all__ = [
    "check_ready",
]
