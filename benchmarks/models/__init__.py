"""Models that people train, step by step, on tideflow and on TensorFlow."""
