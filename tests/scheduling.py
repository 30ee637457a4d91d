"""Which worker runs what: a module's tests run in one worker, and what takes longest comes first.

Many modules start servers, or run programs in a process, once for all their tests: were these dealt
out one by one, each worker would do so.  A run ends when its last worker does, so what has a mark
that allows it more time than other tests begins before them.

When a worker crashes, xdist starts another one and gives out again whatever the first had, also
what is done, and the test that it crashed in: a worker with nothing to do is never spoken to again,
and the run hangs; or the next worker crashes as well.  Here the test fails, and the rest goes on.

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

    def remove_node(self, node: Any) -> str | None:
        """Take back the work of a worker that has ended; return the test that it crashed in."""
        work = self.assigned_work[node]
        crashed: str | None = None
        for unit, tests in list(work.items()):
            waiting = [test for test, is_done in tests.items() if not is_done]
            if waiting and crashed is None:
                crashed = waiting.pop(0)
                tests[crashed] = True
            if not waiting:
                del work[unit]
        super().remove_node(node)
        return crashed

    def _assign_work_unit(self, node: Any) -> None:
        super()._assign_work_unit(node)
        # A worker keeps its last test until it knows that no other one comes.
        if not self.workqueue and not node.shutting_down:
            node.shutdown()


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
