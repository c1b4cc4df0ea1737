"""Message streams, the rebalancer and offset stores: the paper's consumer (not built yet)."""
