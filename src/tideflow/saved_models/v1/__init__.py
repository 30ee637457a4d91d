"""Models in files: tf.saved_model."""
