"""Public names that few programs ask for; each module is loaded when one of its names is."""
