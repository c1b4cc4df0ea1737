"""What the benchmark of the broker is made of: frames, clients, meters, cases and the report."""
