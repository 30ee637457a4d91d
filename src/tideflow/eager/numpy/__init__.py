"""tf.experimental.numpy: NumPy's functions on tensors, of the TF2 shape alone.

Nothing here is imported before one of its names is asked for (`ops/later.txt`).  `promotion` says
which element type arguments have in common, `arrays` makes tensors of them; the other modules hold
the functions.  `behavior` gives tensors NumPy's methods, indices and operators.

Where NumPy and TensorFlow's functions of this name differ, these do as TensorFlow's.
"""
