"""The eager half: operations that are called at once, tapes, variables, functions.

Start reading at `context.py`; `eager_graph.py` is where every call passes.
"""
