"""Segments: lent, viewed, given back, never more than the limit, and nothing believed of a peer."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tideflow.transport.h2 import shared_memory, shared_memory_views
from tideflow.transport.h2.shared_memory import (
    ALIGNMENT,
    CONTROL_BYTES,
    Descriptor,
    Segment,
    SegmentPool,
)
from tideflow.transport.h2.shared_memory_limit import (
    is_possible,
    most_shared_bytes,
    usable_bytes,
)
from tideflow.transport.h2.shared_memory_views import PeerSegments
from tideflow.wire import errors

pytestmark = pytest.mark.skipif(not is_possible(), reason="shared memory is for Linux")

MIB = 1 << 20
MOST = 1 << 40


@pytest.fixture
def pool() -> Iterator[SegmentPool]:
    made = SegmentPool(16 * MIB)
    yield made
    made.close()


@pytest.fixture
def views() -> Iterator[PeerSegments]:
    """What this process, as a peer of itself, has opened."""
    made = PeerSegments(os.getpid())
    yield made
    made.close()


def lend(pool: SegmentPool, *parts: bytes) -> tuple[Segment, Descriptor]:
    segment = pool.lend(sum(map(len, parts)))
    assert segment is not None
    return segment, segment.fill(list(parts))


def open_inodes() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one of the listing itself
            found.add(os.fstat(int(name)).st_ino)
    return found


def finish_helpers() -> None:
    """Wait until all is done that was left to other threads."""
    shared_memory.helpers.wait()


# ---- lending


def test_a_message_arrives_with_its_largest_part_aligned(
    pool: SegmentPool, views: PeerSegments
) -> None:
    body = bytes(range(256)) * 1024
    _, descriptor = lend(pool, b"head", body, b"", b"tail")
    message = views.view(descriptor.pack(), MOST)
    assert bytes(message) == b"head" + body + b"tail"
    assert message.readonly
    elements = np.frombuffer(message[4 : 4 + len(body)], np.uint8)
    assert elements.ctypes.data % ALIGNMENT == 0


def test_a_segment_is_used_again_once_nothing_views_its_message(
    pool: SegmentPool, views: PeerSegments
) -> None:
    first, descriptor = lend(pool, b"a" * MIB)
    array = np.frombuffer(views.view(descriptor.pack(), MOST), np.uint8)[5:]
    second, _ = lend(pool, b"b" * MIB)
    assert second is not first
    assert bytes(array[:3]) == b"aaa"
    del array
    third, _ = lend(pool, b"c" * MIB)
    assert third is first


def test_at_the_limit_nothing_is_lent_and_what_is_free_makes_room(
    pool: SegmentPool, views: PeerSegments
) -> None:
    kept = []
    while (segment := pool.lend(3 * MIB)) is not None:
        kept.append(segment)
    assert 2 <= len(kept) <= 5
    assert pool.held_bytes <= 16 * MIB
    inodes = {os.fstat(segment.fd).st_ino for segment in kept}
    for segment in kept:
        pool.take_back(segment, segment.number)
    del segment
    kept.clear()
    assert pool.lend(15 * MIB) is not None
    assert pool.held_bytes <= 16 * MIB
    finish_helpers()
    assert not inodes & open_inodes()


def test_no_message_over_the_limit_is_lent(pool: SegmentPool) -> None:
    assert pool.lend(17 * MIB) is None


def test_what_an_owner_adopts_counts_for_as_long_as_it_is_kept(
    pool: SegmentPool, views: PeerSegments
) -> None:
    adopted = []
    while (segment := pool.lend(3 * MIB)) is not None:
        descriptor = segment.fill([b"v" * (3 * MIB)])
        adopted.append(views.view(descriptor.pack(), MOST))
    count = len(adopted)
    assert pool.lent_count == count
    adopted.pop()
    assert pool.lent_count == count - 1
    assert pool.lend(3 * MIB) is not None
    assert {view[0] for view in adopted} == {ord("v")}


def test_dropping_leaves_the_message_to_who_views_it(
    pool: SegmentPool, views: PeerSegments
) -> None:
    segment, descriptor = lend(pool, b"x" * MIB)
    message = views.view(descriptor.pack(), MOST)
    pool.drop(segment, segment.number)
    assert pool.held_bytes == 0
    views.trim()
    assert bytes(message[-2:]) == b"xx"


def test_a_loan_that_is_over_is_not_taken_back_again(pool: SegmentPool) -> None:
    segment, _ = lend(pool, b"x" * MIB)
    number = segment.number
    pool.take_back(segment, number)
    again, _ = lend(pool, b"y" * MIB)
    assert again is segment
    pool.take_back(segment, number)
    pool.drop(segment, number)
    assert pool.lent_count == 1
    assert os.fstat(segment.fd).st_ino in open_inodes()


def test_what_was_not_used_for_long_is_let_go(pool: SegmentPool) -> None:
    segment, _ = lend(pool, b"x" * MIB)
    pool.take_back(segment, segment.number)
    pool.trim()
    assert pool.held_bytes > 0
    pool.trim(unused_s=0.0)
    assert pool.held_bytes == 0


@pytest.mark.parametrize("size", [MIB, 8 * MIB])
def test_the_memory_of_a_segment_is_free_though_a_peer_has_it_open(
    size: int, pool: SegmentPool, views: PeerSegments
) -> None:
    segment, descriptor = lend(pool, b"x" * size)
    views.view(descriptor.pack(), MOST)  # and nothing holds the view
    fd = os.dup(segment.fd)
    assert os.fstat(fd).st_blocks * 512 > size
    pool.trim(unused_s=0.0)
    finish_helpers()
    assert os.fstat(fd).st_blocks * 512 <= CONTROL_BYTES
    os.close(fd)


_EIGHT_AT_ONCE = """
import threading
from concurrent.futures import ThreadPoolExecutor
from tideflow.transport.h2.shared_memory import pool

together = threading.Barrier(8)

def get(_):
    together.wait()
    return pool(1 << 20)

with ThreadPoolExecutor(8) as threads:
    print(len(set(threads.map(get, range(8)))))
"""


@pytest.mark.processes
def test_all_threads_get_one_pool() -> None:
    # In a process that has none yet.
    done = subprocess.run(
        [sys.executable, "-c", _EIGHT_AT_ONCE], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "1\n"


# ---- after a fork


def test_memory_that_a_fork_may_view_is_not_written_again(
    pool: SegmentPool, views: PeerSegments
) -> None:
    first, descriptor = lend(pool, b"a" * MIB)
    message = views.view(descriptor.pack(), MOST)
    kept = np.frombuffer(message, np.uint8)
    shared_memory_views.count_fork()
    inode = os.fstat(first.fd).st_ino
    del message
    other = kept.view()  # as it were, the child's
    del kept
    assert pool.lent_count == 1
    del other
    assert pool.lent_count == 0
    assert pool.held_bytes == 0
    assert inode not in {os.fstat(lend(pool, b"b" * MIB)[0].fd).st_ino for _ in range(3)}


def test_what_comes_after_a_fork_is_returned_as_ever(
    pool: SegmentPool, views: PeerSegments
) -> None:
    shared_memory_views.count_fork()
    segment, descriptor = lend(pool, b"a" * MIB)
    views.view(descriptor.pack(), MOST)
    assert lend(pool, b"b" * MIB)[0] is segment


# ---- how much


@pytest.mark.parametrize(("setting", "limit_bytes"), [(False, 0), (0, 0), (1, MIB), (12, 12 * MIB)])
def test_a_setting_says_the_limit(setting: bool | int, limit_bytes: int) -> None:
    assert most_shared_bytes(setting) == limit_bytes


def test_without_a_limit_it_is_a_part_of_the_memory() -> None:
    assert MIB < most_shared_bytes(True) <= 4096 * MIB


@pytest.mark.parametrize(
    ("memberships", "limits", "found_bytes"),
    [
        ("0::/\n", {"memory.max": "max"}, None),
        ("0::/\n", {"memory.max": "1048576"}, MIB),
        ("0::/a/b\n", {"a/memory.max": "2097152", "a/b/memory.max": "max"}, 2 * MIB),
        ("0::/not/seen/here\n", {"memory.max": "1048576"}, MIB),
        ("0::/../other\n", {"memory.max": "1048576"}, MIB),
        ("9:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "4096"}, 4096),
        ("9:cpu:/a\n", {"memory.max": "4096"}, None),
        ("", {}, None),
    ],
)
def test_a_control_group_limits_what_may_be_used(
    memberships: str, limits: dict[str, str], found_bytes: int | None, tmp_path: Path
) -> None:
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(limit + "\n")
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert usable_bytes(memberships, tmp_path) == (found_bytes or machine_bytes)


# ---- what a peer may say


def refused(views: PeerSegments, data: bytes) -> str:
    with pytest.raises(errors.InternalError) as caught:
        views.view(data, MOST)
    return caught.value.message


HUGE = 2**64 - 1


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        (0, 100),
        (CONTROL_BYTES - 1, 100),
        (CONTROL_BYTES, 0),
        (CONTROL_BYTES, 1 << 30),
        (CONTROL_BYTES, HUGE),
        (HUGE, 1),
        (HUGE, HUGE),
        (1 << 63, 10),
    ],
)
def test_only_bytes_of_the_segment_are_viewed(
    offset: int, size: int, pool: SegmentPool, views: PeerSegments
) -> None:
    segment, descriptor = lend(pool, b"x" * MIB)
    wrong = descriptor._replace(offset=offset, size=size).pack()
    with pytest.raises((errors.InternalError, errors.ResourceExhaustedError)):
        views.view(wrong, MOST)
    with pytest.raises(errors.InternalError):
        views.view(wrong, HUGE)
    assert not segment.is_claimed
    assert views.view(descriptor.pack(), MOST).nbytes == MIB


def test_a_message_is_received_once(pool: SegmentPool, views: PeerSegments) -> None:
    _, descriptor = lend(pool, b"x" * MIB)
    message = views.view(descriptor.pack(), MOST)
    assert "was received under 1" in refused(views, descriptor.pack())
    del message
    assert "was received under 1" in refused(views, descriptor.pack())


@pytest.mark.parametrize("number", [0, 2, HUGE])
def test_only_a_loan_that_is_out_is_viewed(
    number: int, pool: SegmentPool, views: PeerSegments
) -> None:
    _, descriptor = lend(pool, b"x" * MIB)
    assert "is lent under 1" in refused(views, descriptor._replace(number=number).pack())


def test_a_segment_is_opened_only_by_who_knows_its_key(
    pool: SegmentPool, views: PeerSegments
) -> None:
    _, descriptor = lend(pool, b"secret" * MIB)
    assert "it is another" in refused(views, descriptor._replace(key=bytes(16)).pack())
    other, _ = lend(pool, b"x" * MIB)
    assert "it is another" in refused(views, descriptor._replace(fd=other.fd).pack())


@pytest.mark.parametrize("size", [0, 1, 47, 49])
def test_a_descriptor_has_one_size(size: int, views: PeerSegments) -> None:
    assert f"sent {size} bytes" in refused(views, bytes(size))


def test_a_message_over_the_receivers_limit_is_refused(
    pool: SegmentPool, views: PeerSegments
) -> None:
    _, descriptor = lend(pool, b"x" * MIB)
    with pytest.raises(errors.ResourceExhaustedError, match="larger than max"):
        views.view(descriptor.pack(), MIB - 1)


def test_a_message_of_a_process_that_has_ended_is_unavailable(pool: SegmentPool) -> None:
    _, descriptor = lend(pool, b"x" * MIB)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        # First its parent has not taken note of its end, then it has.
        for _ in range(2):
            with pytest.raises(errors.UnavailableError, match=f"process {ended.pid} ended before"):
                PeerSegments(ended.pid).view(descriptor.pack(), MOST)
            assert not PeerSegments(ended.pid).probe(descriptor.fd, descriptor.key)
            ended.wait()


@pytest.mark.parametrize("pid", [0, 1, (1 << 22) + 1, 2**32 - 1])
def test_a_process_that_is_not_ours_to_open_is_refused(pid: int, pool: SegmentPool) -> None:
    _, descriptor = lend(pool, b"x" * MIB)
    assert refused(PeerSegments(pid), descriptor.pack())
    assert not PeerSegments(pid).probe(descriptor.fd, descriptor.key)


def named(fd: int) -> bytes:
    return Descriptor(bytes(16), fd, 1, CONTROL_BYTES, 10).pack()


def test_what_is_no_sealed_memory_is_refused(views: PeerSegments) -> None:
    assert "cannot open" in refused(views, named(2**31))
    with tempfile.TemporaryFile() as file:
        file.truncate(10_000)
        assert refused(views, named(file.fileno()))
    reading, writing = os.pipe()
    try:
        # Opening a pipe would wait for its other end.
        assert "no memory" in refused(views, named(reading))
        assert "no memory" in refused(views, named(writing))
    finally:
        os.close(reading)
        os.close(writing)
    with open("/dev/zero", "r+b", buffering=0) as device:
        assert "no memory" in refused(views, named(device.fileno()))


@pytest.mark.parametrize("missing", [fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SEAL])
def test_memory_without_a_seal_is_refused(missing: int, views: PeerSegments) -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, 10_000)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, shared_memory.seals() & ~missing)
        assert "seals" in refused(views, named(fd))
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", [0, 10, CONTROL_BYTES, CONTROL_BYTES + 1, 1 << 62])
def test_sealed_memory_that_is_no_segment_is_refused(size: int, views: PeerSegments) -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, shared_memory.seals())
        assert refused(views, named(fd))
    finally:
        os.close(fd)


def test_refusals_leave_no_descriptor_open(pool: SegmentPool, views: PeerSegments) -> None:
    _, descriptor = lend(pool, b"x" * MIB)
    views.view(descriptor.pack(), MOST)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for wrong in (descriptor._replace(key=bytes(16)), descriptor._replace(number=9)):
        for _ in range(5):
            refused(views, wrong.pack())
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_segments_that_the_peer_gave_up_are_forgotten(
    pool: SegmentPool, views: PeerSegments
) -> None:
    def mapped(segment: Segment) -> int:
        inode = f" {os.fstat(segment.fd).st_ino} "
        return sum(inode in line for line in Path("/proc/self/maps").read_text().splitlines())

    segment, descriptor = lend(pool, b"x" * MIB)
    views.view(descriptor.pack(), MOST)
    assert mapped(segment) == 2
    views.trim()
    assert mapped(segment) == 2
    inode = os.fstat(segment.fd).st_ino
    pool.drop(segment, segment.number)
    del segment
    views.trim()
    assert f" {inode} " not in Path("/proc/self/maps").read_text()
