"""Strategies: one training program, many replicas.

Start reading at `strategy.py`; `replica_threads.py` runs a function once for each replica, and
`values.py` holds what differs between them.
"""
