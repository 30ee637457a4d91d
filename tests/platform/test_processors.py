"""How many processors a process may use."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tideflow.platform.processors import quota, usable_processors


def _tree(root: Path, groups: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, math.inf),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"sys/fs/cgroup/a/cpu.max": "50000 100000\n"}, 0.5),
        (
            "0::/a/b\n",
            {"sys/fs/cgroup/a/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 1\n"},
            4.0,
        ),
        ("0::/not/seen/inside\n", {"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        (
            "5:memory:/x\n4:cpu,cpuacct:/x\n",
            {
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            "4:cpu,cpuacct:/\n",
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            math.inf,
        ),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "nonsense\n"}, math.inf),
    ],
)
def test_the_quota_is_the_least_of_all_cgroups(
    tmp_path: Path, groups: str, files: dict[str, str], expected: float
) -> None:
    assert quota(_tree(tmp_path, groups, files)) == expected


def test_a_system_without_cgroups_has_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path) == math.inf


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_bounds_what_is_used() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "from tideflow.platform.processors import usable_processors as n; print(n())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n"


def test_at_least_one_processor_may_be_used() -> None:
    assert 1 <= usable_processors() <= (os.cpu_count() or 1)
