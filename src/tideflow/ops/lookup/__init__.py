"""Lookup tables: the ops, and the classes of the API."""

from __future__ import annotations
