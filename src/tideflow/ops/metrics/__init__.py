"""Streaming metrics: values over all batches so far, kept in local variables.

Start reading at `running`, the simplest; `thresholds` and `ranking` build on its variables."""

from __future__ import annotations
