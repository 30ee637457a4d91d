"""Saved models of sessions: graphs with signatures, built and loaded as TensorFlow 1 does."""
