"""The experiments that concern our own brokers alone, one a file; `bench/experiments.py` runs them."""
