"""A cluster of real processes with faults, and the pytest plugin."""
