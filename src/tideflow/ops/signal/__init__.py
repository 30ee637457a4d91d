"""Signals: Fourier transforms, cosine transforms, frames, windows, spectra."""

from __future__ import annotations
