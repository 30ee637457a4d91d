"""Sessions: what is fed, fetched and refused."""

from __future__ import annotations

from typing import Any

from tf_behaviours.registry import behaviour

SESSION = "python/client/session_test.py"


@behaviour(SESSION, "A fetch may be an operation, and gives None.")
def operations_give_none(tf: Any) -> Any:
    a = tf.constant(1.0, name="a")
    with tf.Session() as session:
        return [session.run(a.op), session.run("a"), session.run(["a:0", tf.no_op()])]
