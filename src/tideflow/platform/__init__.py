"""What tideflow takes from the process that it runs in: the time, threads and settings."""
