"""Fingerprints of saved models: hashes that tell whether two of them are the same.

Source: tensorflow/core/protobuf/fingerprint.proto, python/saved_model/fingerprinting.py.
"""

from __future__ import annotations

import os
import secrets
from typing import Any

from google.protobuf.message import DecodeError

from tideflow.formats import AtomicFile, file_errors, fingerprint64
from tideflow.ops.export import export_v2
from tideflow.saved_models.files import variables_path
from tideflow.wire import messages as pb

FILENAME = "fingerprint.pb"
_VERSION = 4


def write_fingerprint(export_dir: str, model_path: str) -> None:
    """Write the fingerprint of a saved model beside it."""
    with file_errors("read", model_path), open(model_path, "rb") as file:
        data = file.read()
    meta_pb = pb.SavedModel.FromString(data).meta_graphs[0]
    signatures = b"".join(
        key.encode() + meta_pb.signature_def[key].SerializeToString(deterministic=True)
        for key in sorted(meta_pb.signature_def)
    )
    found = pb.FingerprintDef(
        saved_model_checksum=_hash(data),
        graph_def_program_hash=_hash(meta_pb.graph_def.SerializeToString(deterministic=True)),
        signature_def_hash=_hash(signatures),
        saved_object_graph_hash=_hash(
            meta_pb.object_graph_def.SerializeToString(deterministic=True)
        ),
        checkpoint_hash=_hash(_read_if_there(f"{variables_path(export_dir)}.index")),
        version=pb.VersionDef(producer=_VERSION),
        uuid=str(secrets.randbits(63)),
    )
    with AtomicFile(os.path.join(export_dir, FILENAME)) as file:
        file.write(found.SerializeToString(deterministic=True))


def _hash(data: bytes) -> int:
    return fingerprint64()(data)


def _read_if_there(path: str) -> bytes:
    if not os.path.exists(path):
        return b""
    with file_errors("read", path), open(path, "rb") as file:
        return file.read()


@export_v2("saved_model.experimental.Fingerprint")
class Fingerprint:
    """The fingerprint of a saved model.

    Attributes: the hashes, those that are not known are None; version, how they were made.
    """

    def __init__(
        self,
        saved_model_checksum: int | None = None,
        graph_def_program_hash: int | None = None,
        signature_def_hash: int | None = None,
        saved_object_graph_hash: int | None = None,
        checkpoint_hash: int | None = None,
        version: int | None = None,
    ) -> None:
        self.saved_model_checksum = saved_model_checksum
        self.graph_def_program_hash = graph_def_program_hash
        self.signature_def_hash = signature_def_hash
        self.saved_object_graph_hash = saved_object_graph_hash
        self.checkpoint_hash = checkpoint_hash
        self.version = version

    @classmethod
    def from_proto(cls, proto: Any) -> Fingerprint:
        """Return the fingerprint of a message.  Raises: ValueError for another message."""
        try:
            found = pb.FingerprintDef.FromString(proto.SerializeToString())
        except (AttributeError, DecodeError) as error:
            raise ValueError(f"{proto!r:.80} is no message of a fingerprint") from error
        return cls(
            found.saved_model_checksum,
            found.graph_def_program_hash,
            found.signature_def_hash,
            found.saved_object_graph_hash,
            found.checkpoint_hash,
            found.version.producer,
        )

    def _hashes(self) -> tuple[int | None, ...]:
        return (
            self.graph_def_program_hash,
            self.signature_def_hash,
            self.saved_object_graph_hash,
            self.checkpoint_hash,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._hashes() == other._hashes()

    def __hash__(self) -> int:
        return hash(self._hashes())

    def __str__(self) -> str:
        hashes = (f"  {name}: {value}" for name, value in vars(self).items())
        return "\n".join(["SavedModel Fingerprint", *hashes])

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"Fingerprint({named})"

    def singleprint(self) -> str:
        """Return text that is equal for models that do the same with the same values."""
        return "/".join(map(str, self._hashes()))


@export_v2("saved_model.experimental.read_fingerprint")
def read_fingerprint(export_dir: str) -> Fingerprint:
    """Return the fingerprint of a saved model.

    Raises: FileNotFoundError for one without; RuntimeError for a file that holds none.
    """
    path = os.path.join(os.fspath(export_dir), FILENAME)
    if not os.path.exists(path):
        raise FileNotFoundError(f"SavedModel Fingerprint Error: {path} does not exist")
    try:
        return Fingerprint.from_proto(pb.FingerprintDef.FromString(_read_if_there(path)))
    except DecodeError as error:
        raise RuntimeError(f"{path} holds no fingerprint: {error}") from error
