"""The stand-in: programs and libraries written for TensorFlow run on tideflow, unchanged.

`install()` lets `import tensorflow` give tideflow in this process; `tideflow run --as-tensorflow`
and `python -m tideflow.as_tensorflow` do so before they run a script.  It holds names only, in two
tables: `tensorflow_names.txt`, TensorFlow's public names with the modules that define them, and
`library_names.txt`, what libraries import beside these.  What a name does is tideflow's own.
"""

from tideflow.as_tensorflow.finder import install

__all__ = ["install"]
