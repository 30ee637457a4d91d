"""A program may end while its loop is in compiled code."""

from __future__ import annotations

import os
import subprocess
import sys

_ENDS_IN_COMPILED_CODE = """
import threading

import jax
import jax.numpy as jnp
from tideflow.runtime.loop import get_loop

def long(x):
    return jax.lax.fori_loop(0, 300, lambda i, x: jnp.tanh(x @ x), x)

compiled = jax.jit(long).lower(jnp.ones((200, 200))).compile()
started = threading.Event()

def work():
    started.set()
    for _ in range(5):
        compiled(jnp.ones((200, 200))).block_until_ready()

get_loop().call_soon_threadsafe(work)
started.wait()
print("ends")
"""

_CALLS_AFTER_THE_END = """
import asyncio
import atexit

def late():
    try:
        run_sync(asyncio.sleep(0))
    except Exception as error:
        print(type(error).__name__)

atexit.register(late)

from tideflow.runtime.loop import run_sync

run_sync(asyncio.sleep(0))
"""


def run(program: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_program_ends_cleanly_though_its_loop_is_in_compiled_code() -> None:
    assert run(_ENDS_IN_COMPILED_CODE) == (0, "ends\n", "")


def test_a_call_from_the_very_end_is_refused() -> None:
    assert run(_CALLS_AFTER_THE_END) == (0, "UnavailableError\n", "")
