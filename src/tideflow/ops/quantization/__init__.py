"""Quantisation: fake quantisation for training, and rounding to fewer levels and back."""

from __future__ import annotations
