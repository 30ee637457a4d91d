"""JPEG, BMP, GIF and WebP files beside TensorFlow's kernels.

JPEG files are read by the exact transform, which TensorFlow takes when it is asked to.
"""

from __future__ import annotations

import io

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, check_ends_alike, outcome

tf = pytest.importorskip("tensorflow")
image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.tensorflow

ROWS, COLUMNS = np.mgrid[:19, :22]
PIXELS = np.stack([COLUMNS * 11, ROWS * 12, ROWS * COLUMNS % 256], -1).astype(np.uint8)
GRAY = PIXELS[..., :1]
PICTURE = image.fromarray(PIXELS)


def file(kind, picture=PICTURE, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return np.array(out.getvalue(), object)


JPEG = file("JPEG", quality=95, subsampling=0)
GIF = file("GIF", PICTURE.quantize(16), save_all=True, append_images=[PICTURE.quantize(8)])
FILES = {
    "JPEG": JPEG,
    "PNG": file("PNG"),
    "GIF": file("GIF", PICTURE.quantize(16)),
    "several": GIF,
    "BMP": file("BMP"),
    "WEBP": file("WEBP", lossless=True),
    "none": np.array(b"none", object),
    "empty": np.array(b"", object),
}
EXACT = {"dct_method": "INTEGER_ACCURATE"}

CALLS = [
    Call("EncodeJpeg", [PIXELS]),
    *(
        Call("EncodeJpeg", [PIXELS], attrs)
        for attrs in [
            {"quality": 10},
            {"quality": 101},
            {"progressive": True},
            {"optimize_size": True},
            {"chroma_downsampling": False},
            {"density_unit": "cm", "x_density": 7, "y_density": 8},
            {"xmp_metadata": "<x/>"},
            {"format": "grayscale"},
        ]
    ),
    Call("EncodeJpeg", [GRAY]),
    Call("EncodeJpeg", [GRAY.repeat(2, 2)]),
    Call("EncodeJpegVariableQuality", [PIXELS, np.int32(40)]),
    Call("DecodeJpeg", [JPEG], EXACT),
    Call("DecodeJpeg", [JPEG], {**EXACT, "ratio": 2}),
    Call("DecodeJpeg", [JPEG], {**EXACT, "ratio": 3}),
    Call("DecodeJpeg", [JPEG], {**EXACT, "channels": 1}),
    Call("DecodeJpeg", [JPEG], {**EXACT, "channels": 4}),
    Call("DecodeJpeg", [file("JPEG", PICTURE.convert("L"))], {**EXACT, "channels": 3}),
    Call("DecodeJpeg", [np.array(JPEG.item()[:60], object)], id="cut"),
    *(
        Call("DecodeAndCropJpeg", [JPEG, np.int32(window)], EXACT, id=f"window-{window}")
        for window in ([0, 0, 19, 22], [8, 8, 0, 3], [15, 0, 9, 9], [-1, 0, 3, 3])
    ),
    Call("ExtractJpegShape", [JPEG]),
    Call("ExtractJpegShape", [FILES["PNG"]], id="shape of PNG"),
    *(
        Call(
            "DecodeBmp",
            [file("BMP", PICTURE.convert(mode))],
            {"channels": channels},
            id=f"{mode}-{channels}",
        )
        for mode in ("RGB", "RGBA", "L", "1")
        for channels in (0, 1, 3, 4)
    ),
    Call("DecodeGif", [GIF]),
    Call("DecodeWebP", [FILES["WEBP"]]),
    Call("DecodeWebP", [FILES["WEBP"]], {"channels": 4}),
    *(
        Call("DecodeImage", [FILES[kind]], {"dtype": dtype, "expand_animations": expands})
        for kind in ("PNG", "several", "BMP")
        for dtype in ("uint8", "uint16", "float32")
        for expands in (True, False)
    ),
    *(
        Call(op, [data], id=f"{op}-{kind}")
        for op in ("DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeWebP", "DecodeImage")
        for kind, data in FILES.items()
        if kind != "JPEG" or op == "DecodeBmp"
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


def test_the_fast_transform_of_tensorflow_is_close() -> None:
    call = Call("DecodeJpeg", [JPEG])
    theirs, mine = outcome(tf, call), outcome(ours, call)
    assert np.abs(theirs[0].astype(int) - mine[0]).max() <= 12
