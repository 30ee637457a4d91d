"""Small pictures in JPEG XL files, without loss: 2 high, 3 wide."""

from __future__ import annotations

import numpy as np

PIXELS = (np.arange(18).reshape(2, 3, 3) * 14).astype(np.uint8)
RGB = bytes.fromhex(
    "ff0a08401009080401007c004b188b154219b62d6cef02610064d4a851a346755e6f5d967429d2ab001500"
)
GRAY = bytes.fromhex("ff0a0840101437020804010034004b188b150a1d27834f14354b69")
RGBA = bytes.fromhex(
    "ff0a0840b012081010008c004b188b154219b62d3af7026200444a4a4a4aeaee75bb61088702bd72dba8b043aace2a"
)
# Of 16 bits for each number, in a container.
DEEP = bytes.fromhex(
    "0000000c4a584c200d0a870a00000014667479706a786c20000000006a786c20000000096a786c6c0a000000486a78"
    "6c63ff0a0840fc00142d0208040100c4004b188b15c239a86775c035cf05c20088549454945494549454d43ef0baee"
    "c8ebda4602072353603a9a13e8e6c3a7549d55"
)
