"""PNG files of every kind decode as with TensorFlow."""

from __future__ import annotations

import itertools
import struct
import zlib

import numpy as np
import pytest

import tideflow
from ops import compared

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
KINDS = [(color, bits) for color, depths in DEPTHS.items() for bits in depths]
PASSES = [
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
]
HEIGHT, WIDTH = 9, 11


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(color, bits, interlaced, transparent, seed=0):
    """Return a file of random samples, in which each row has a filter of its own."""
    random = np.random.default_rng(seed)
    raw = b""
    for top, left, down, across in PASSES if interlaced else [(0, 0, 1, 1)]:
        rows, columns = len(range(top, HEIGHT, down)), len(range(left, WIDTH, across))
        size = (columns * SAMPLES[color] * bits + 7) // 8
        for row in range(rows if columns else 0):
            raw += bytes([row % 5]) + random.integers(0, 256, size, np.uint8).tobytes()
    extra = b""
    if color == 3:
        extra = chunk(b"PLTE", random.integers(0, 256, 3 << bits, np.uint8).tobytes())
    if transparent:
        data = {0: b"\0\1", 2: b"\0\1" * 3, 3: bytes(range(min(1 << bits, 200)))}[color]
        extra += chunk(b"tRNS", data)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, color, 0, 0, interlaced)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + extra
        + chunk(b"IDAT", zlib.compress(raw))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("color", "bits"), KINDS)
def test_decodes_as_tensorflow_does(color, bits, interlaced):
    ways = itertools.product((0, 1, 3, 4), ("uint8", "uint16"), (False, True))
    for channels, dtype, transparent in ways:
        if transparent and color in (4, 6):
            continue
        data = picture(color, bits, interlaced, transparent)
        one, other = (
            library.io.decode_png(data, channels, getattr(library, dtype)).numpy()
            for library in (tideflow, tf)
        )
        np.testing.assert_array_equal(one, other, err_msg=f"{channels} {dtype} {transparent}")
        compared.agreed("DecodePng", ["string"])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_tensorflow_reads_what_is_written_and_the_other_way_round(channels):
    random = np.random.default_rng(channels)
    for dtype in (np.uint8, np.uint16):
        pixels = random.integers(0, np.iinfo(dtype).max, (7, 5, channels)).astype(dtype)
        for writer, reader in ((tideflow, tf), (tf, tideflow)):
            data = writer.io.encode_png(pixels).numpy()
            found = reader.io.decode_png(data, dtype=getattr(reader, dtype.__name__))
            np.testing.assert_array_equal(found.numpy(), pixels)
        compared.agreed("EncodePng", [dtype.__name__])


def test_damaged_files_are_refused():
    whole = picture(2, 8, 0, False)
    for data in (whole[:40], whole[:-30], whole[:60] + b"x" + whole[61:], b"\x89PNG\r\n\x1a\n"):
        for library in (tideflow, tf):
            with pytest.raises(library.errors.InvalidArgumentError):
                library.io.decode_png(data)
        compared.refused("DecodePng")


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 3, 0), ()], ids=str)
def test_what_is_no_picture_is_refused(shape):
    for dtype in ("uint8", "uint16"):
        pixels = np.zeros(shape, dtype)
        for library in (tideflow, tf):
            with pytest.raises(library.errors.InvalidArgumentError):
                library.raw_ops.EncodePng(image=pixels, compression=-1)
        compared.refused("EncodePng")


@pytest.mark.parametrize("shape", [(0, 3, 1), (2, 0, 1), (2, 0, 2, 1)], ids=str)
def test_pictures_without_pixels_are_refused(shape):
    for library in (tideflow, tf):
        with pytest.raises(library.errors.InternalError):
            library.io.encode_png(np.zeros(shape, np.uint8))
    compared.refused("EncodePng")


def test_no_pictures_make_no_files():
    pixels = np.zeros((0, 2, 2, 1), np.uint8)
    assert tideflow.io.encode_png(pixels).shape == tf.io.encode_png(pixels).shape == (0,)


@pytest.mark.parametrize("compression", [-2, 10])
def test_a_compression_that_is_not_there_is_refused(compression):
    for library in (tideflow, tf):
        with pytest.raises(library.errors.InvalidArgumentError):
            library.raw_ops.EncodePng(image=np.zeros((2, 2, 1), np.uint8), compression=compression)
    compared.refused("EncodePng")


@pytest.mark.parametrize("channels", [2, 5, -1])
def test_channels_that_no_picture_has_are_refused(channels):
    for library in (tideflow, tf):
        with pytest.raises(library.errors.InvalidArgumentError):
            library.raw_ops.DecodePng(contents=picture(2, 8, 0, False), channels=channels)
    compared.refused("DecodePng")
