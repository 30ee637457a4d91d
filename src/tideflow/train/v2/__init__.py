"""Training in the TF2 shape; imported by that front door alone."""
