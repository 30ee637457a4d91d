"""Which worker runs what: a module's tests run in one worker, and what takes longest comes first.

Many modules start servers, or run programs in a process, once for all their tests: were these dealt
out one by one, each worker would do so.  A run ends when its last worker does, so what has a mark
that allows it more time than other tests begins before them.

A plugin of pytest, for runs with `--dist loadgroup --no-loadscope-reorder`.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist import is_xdist_worker
from xdist.scheduler import LoadGroupScheduling


class ModuleScheduling(LoadGroupScheduling):
    """Gives workers a module at a time, or the tests that share an `xdist_group`."""

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ModuleScheduling | None:
    return ModuleScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Sort tests by the time that their `timeout` marks allow them; the rest stay in order."""
    if is_xdist_worker(session):
        items.sort(key=_allowed_s, reverse=True)


def _allowed_s(item: pytest.Item) -> float:
    usual_s = float(item.config.getini("timeout"))
    mark = item.get_closest_marker("timeout")
    return max(usual_s, float(mark.args[0])) if mark is not None else usual_s
