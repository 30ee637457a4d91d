"""Watches the event loop of a process that a test has started (see loop_monitor)."""

from loop_monitor import install_in_process

install_in_process()
