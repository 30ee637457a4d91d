"""WAV files of 16 bits for each sample, as bytes.

Source: Microsoft's "Multiple Channel Audio Data and WAVE Files"; TensorFlow 2.21 for what is
refused.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_FORMAT = struct.Struct("<HHIIHH")
_PCM = 1


def encode_wav(audio: np.ndarray[Any, Any], sample_rate: int) -> bytes:
    """Return the file of audio [samples, channels], float32 in [-1, 1]; what is louder is cut."""
    channels = audio.shape[1]
    scaled = np.nan_to_num(audio.astype(np.float64)) * 32768
    nearest = np.trunc(scaled + np.copysign(0.5, scaled))  # halves go away from zero
    data: bytes = np.clip(nearest, -32768, 32767).astype("<i2").tobytes()
    width = 2 * channels
    header = _HEADER.pack(
        b"RIFF",
        36 + len(data),
        b"WAVE",
        b"fmt ",
        _FORMAT.size,
        _PCM,
        channels,
        sample_rate,
        sample_rate * width & 0xFFFFFFFF,
        width & 0xFFFF,
        16,
        b"data",
        len(data),
    )
    return header + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def is_over(self) -> bool:
        return self.at >= len(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes.  Raises: ValueError where there are fewer."""
        if self.at + count > len(self._data):
            raise ValueError(f"the file ends at byte {len(self._data)}; {count} more were expected")
        self.at += count
        return self._data[self.at - count : self.at]

    def expect(self, text: bytes) -> None:
        """Take a word that must stand here.  Raises: ValueError."""
        found = self.take(len(text))
        if found != text:
            raise ValueError(f"expected {text!r} at byte {self.at - len(text)}, found {found!r}")

    def number(self) -> int:
        """Return the next four bytes as a number."""
        return int.from_bytes(self.take(4), "little")


def decode_wav(data: bytes) -> tuple[np.ndarray[Any, Any], int]:
    """Return the audio [samples, channels] as float32 in [-1, 1), and the sample rate.

    Raises: ValueError for what is no WAV file of 16 bits.
    """
    reader = _Reader(data)
    reader.expect(b"RIFF")
    reader.number()
    reader.expect(b"WAVE")
    reader.expect(b"fmt ")
    size = reader.number()
    if size not in (16, 18):
        raise ValueError(f"the format of a WAV file has 16 or 18 bytes; found {size}")
    kind, channels, rate, per_second, width, bits = _FORMAT.unpack(reader.take(_FORMAT.size))
    reader.take(size - _FORMAT.size)
    if kind != _PCM:
        raise ValueError(f"the file's encoding is {kind}; only 1, PCM, is read")
    if bits != 16:
        raise ValueError(f"the file has {bits} bits for each sample; 16 are read")
    if width != channels * 2 or per_second != rate * width:
        raise ValueError(
            f"{per_second} bytes for each second and {width} for each sample do not fit {rate} "
            f"samples of {channels} channels"
        )
    if not channels:
        raise ValueError("the file has no channels")
    found = None
    while not reader.is_over:
        name, size = reader.take(4), reader.number()
        if name == b"data":
            found = np.frombuffer(reader.take(size // width * width), "<i2")
            reader.at += size % width
        else:
            reader.take(size)
    if found is None:
        raise ValueError("the file has no data")
    return found.reshape(-1, channels).astype(np.float32) / np.float32(32768), rate
