"""A generator of whole programs, and what compares them with TensorFlow.

syntax.py says what a program is; builder.py and the grammars (v1_*.py, v2_*.py) make one of a seed;
bench.py runs it with each client on each kind of cluster; shrink.py makes one that differs small;
run.py is the command (`make programs SEEDS=1000`).

How others do it was looked at first.  Csmith makes only programs with one meaning, so that any
difference is a fault: here no step reads what it changes without an order (effects.py).  NNSmith
keeps
the types of all values, so that what it makes is valid.  Hypothesis's state machines draw the
arguments of a rule from what earlier rules made, and shrink the list of the steps.
"""
