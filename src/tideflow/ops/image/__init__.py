"""Images: colours, sizes, resampling, boxes, patches, measures, files."""

from __future__ import annotations
