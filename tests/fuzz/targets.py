"""What reads bytes of others: for each, samples of what it reads, and how it is given bytes.

Whatever the bytes are, a target either takes them or raises an OpError.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import random
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError, Message

import tideflow.v1 as tf
from fuzz.mutations import fill
from tideflow.cluster.server_config import ServerOptions, make_server_def
from tideflow.cluster.services import MasterService, WorkerService
from tideflow.cluster.task_server import TaskServer
from tideflow.formats import (
    BundleReader,
    BundleWriter,
    FileRecords,
    SliceFiles,
    encode_png,
    framed,
    tf_records,
)
from tideflow.formats.png import decode_png
from tideflow.platform.settings import NO_FILES, process_settings, using
from tideflow.runtime.loop import run_sync
from tideflow.transport.answer import answer
from tideflow.transport.h2 import frames
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.messages import Assembler, Parser
from tideflow.transport.service import Binding, bind
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor
from transport.raw_peer import HELLO, call_block, data, frame, headers, message, whole_call

_CALL_S = 20.0


@dataclass(frozen=True)
class Target:
    """A reader of bytes.

    Attributes:
      samples: what it reads.
      give: gives it bytes.  Raises: OpError, for what it does not take.
    """

    samples: list[bytes]
    give: Callable[[bytes], None]


def _with_file(read: Callable[[str], None], suffix: str = "") -> Callable[[bytes], None]:
    def give(given: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"file{suffix}")
            path.write_bytes(given)
            read(str(path.with_suffix("") if suffix else path))

    return give


# ---- the wire


def _frames() -> Target:
    def give(given: bytes) -> None:
        core = Connection(is_client=False)
        core.receive(given)
        while core.has_more:
            core.receive(b"")
        core.take_output()

    controls = b"".join(
        (
            frame(frames.PING, 0, 0, bytes(8)),
            frames.settings_frame({4: 100, 5: 20000, 3: 7}),
            frames.window_update_frame(0, 100),
            frame(frames.PRIORITY, 0, 1, bytes(5)),
            frames.reset_frame(1, 8),
            frames.goaway_frame(0, 0, "why"),
        )
    )
    block = call_block("Echo", (b"x-more", b"y" * 50))
    cut = headers(3, block[:20], flags=0)[:4] + b"\0" + headers(3, block[:20])[5:]
    calls = (
        whole_call(1, b"abc") + headers(3) + data(3, message(b"x" * 40)) + data(3, b"", end=True)
    )
    return Target(
        [HELLO + calls, HELLO + headers(1) + controls, HELLO + cut + frame(9, 4, 3, block[20:])],
        give,
    )


def _client_frames() -> Target:
    def give(given: bytes) -> None:
        core = Connection(is_client=True)
        stream = core.open_stream()
        core.send_headers(stream, call_block(), end_stream=True)
        core.receive(given)
        core.take_output()

    hello = frames.settings_frame({3: 100})
    answered = headers(1, b"\x88") + data(1, message(b"abc")) + headers(1, b"\x88", end=True)
    return Target([hello + answered, hello + frames.goaway_frame(1, 0) + answered], give)


def _messages() -> Target:
    def give(given: bytes) -> None:
        assembler = Assembler(Parser(pb.RunStepRequest), 1 << 20)
        assembler.encoding = ("gzip", "deflate", "identity")[len(given) % 3]
        for piece in (given[: len(given) // 2], given[len(given) // 2 :]):
            for found in assembler.feed(piece):
                with contextlib.suppress(DecodeError):
                    Parser(pb.RunStepRequest).parse(found)

    request = pb.RunStepRequest(session_handle="s", fetch=["a:0"]).SerializeToString()
    packed = [message(gzip.compress(request), compressed=True)]
    packed.append(message(zlib.compress(bytes(5000)), compressed=True))
    return Target([message(request) * 3, *packed, message(bytes(70_000))], give)


def _tensors() -> Target:
    def give(given: bytes) -> None:
        with contextlib.suppress(DecodeError):
            decode_tensor(pb.TensorProto.FromString(given))

    values = [np.zeros(3, np.float32), np.array([b"a", b"bc"], object), np.array(True)]
    made = [encode_tensor(value).SerializeToString() for value in values]
    few = pb.TensorProto(dtype=1, float_val=[1.0])
    few.tensor_shape.dim.add(size=5)
    return Target([*made, few.SerializeToString()], give)


# ---- graphs


def _graph() -> bytes:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", [2, 3], use_resource=True)
        tf.reduce_sum(tf.nn.relu(tf.matmul(x, w)), name="y")
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
        tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))
        return graph.as_graph_def().SerializeToString()


def _graphs() -> Target:
    def give(given: bytes) -> None:
        try:
            graph_pb = pb.GraphDef.FromString(given)
        except DecodeError:
            return
        with tf.Graph().as_default():
            # Its Python callers are told of bad arguments by ValueError, as in TensorFlow.
            with contextlib.suppress(ValueError, TypeError):
                tf.import_graph_def(graph_pb, name="")

    return Target([_graph()], give)


# ---- files


def _records() -> Target:
    def read(path: str) -> None:
        for compression in ("", "GZIP", "SNAPPY"):
            with contextlib.suppress(errors.OpError):
                for record in FileRecords([path], compression, tf_records):
                    with contextlib.suppress(DecodeError):
                        pb.Event.FromString(record)

    plain = framed(pb.Event(step=1, file_version="brain.Event:2").SerializeToString()) * 3
    return Target([plain, gzip.compress(plain), zlib.compress(plain)], _with_file(read))


def _bundle(which: str) -> Target:
    values = {"a": np.arange(6, dtype=np.float32), "b": np.array([b"x", b"yz"], object)}
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder, "ck"))
        with BundleWriter(prefix) as writer:
            for name, value in values.items():
                writer.add(name, value, as_dtype(value.dtype))
        files = {path.name.partition("ck")[2]: path.read_bytes() for path in Path(folder).iterdir()}

    def give(given: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for suffix, content in files.items():
                Path(folder, f"ck{suffix}").write_bytes(given if suffix == which else content)
            with BundleReader(str(Path(folder, "ck"))) as reader:
                for name in values:
                    reader.read(name)

    return Target([files[which]], give)


def _slices() -> Target:
    def read(path: str) -> None:
        SliceFiles(path)

    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
        path = str(Path(folder, "ck"))
        given = [tf.constant([1.0, 2.0]), tf.constant("x")]
        session.run(tf.raw_ops.Save(filename=path, tensor_names=["a", "b"], data=given))
        sample = Path(path).read_bytes()
    return Target([sample], _with_file(read))


def _png() -> Target:
    def give(given: bytes) -> None:
        with contextlib.suppress(ValueError, zlib.error):
            decode_png(given)

    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    return Target([encode_png(pixels), encode_png(pixels[..., :1].astype(np.uint16))], give)


# ---- calls


class _Served:
    """The services of a task, without a connection."""

    def __init__(self) -> None:
        self._settings = process_settings().replace(file_roots=NO_FILES)
        self._server_pb = make_server_def({"local": ["127.0.0.1:0"]}, "local", 0, None, None)
        self.paths = sorted(bind(self._services(self._task())))

    def _task(self) -> TaskServer:
        return TaskServer(self._server_pb, ServerOptions(False, 0.0, self._settings))

    @staticmethod
    def _services(task: TaskServer) -> list[MasterService | WorkerService]:
        return [task.master, task.worker, task.eager, task.coordinator]  # type: ignore[list-item]

    def samples(self) -> list[bytes]:
        """Return calls: the number of a method, and a request of it."""
        rng = random.Random(0)
        found = []
        methods = bind(self._services(self._task()))
        for number, path in enumerate(self.paths):
            for _ in range(3):
                request = methods[path].spec.request_type()
                fill(rng, request)
                found.append(bytes([number]) + request.SerializeToString())
        graph = pb.CreateSessionRequest(graph_def=pb.GraphDef.FromString(_graph()))
        create = self.paths.index("/tensorflow.MasterService/CreateSession")
        return [*found, *[bytes([create]) + graph.SerializeToString()] * 20]

    def give(self, given: bytes) -> None:
        """Make one call of a task of its own."""
        if not given:
            return
        run_sync(self._call(self.paths[given[0] % len(self.paths)], given[1:]), timeout_s=60)

    async def _call(self, path: str, given: bytes) -> None:
        with using(self._settings):
            task = self._task()
            try:
                method = bind(self._services(task))[path]
                if method.spec.streaming:
                    return
                try:
                    request = method.spec.request_type.FromString(given)
                except DecodeError:
                    return
                await self._answered(method, request)
            finally:
                await task.stop()

    @staticmethod
    async def _answered(method: Binding, request: Message) -> None:
        # Some wait for others by what they are told; that ends with the call.
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_CALL_S if "RunStep" in method.spec.path else 0.2):
                await answer(method, request)


def _calls() -> Target:
    served = _Served()
    return Target(served.samples(), served.give)


TARGETS: dict[str, Callable[[], Target]] = {
    "frames": _frames,
    "client_frames": _client_frames,
    "messages": _messages,
    "tensors": _tensors,
    "graphs": _graphs,
    "records": _records,
    "bundle_index": functools.partial(_bundle, ".index"),
    "bundle_data": functools.partial(_bundle, ".data-00000-of-00001"),
    "slices": _slices,
    "png": _png,
    "calls": _calls,
}


def made(names: list[str]) -> Iterator[tuple[str, Target]]:
    """Give targets by their names."""
    for name in names or list(TARGETS):
        yield name, TARGETS[name]()
