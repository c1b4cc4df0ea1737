"""What the elected broker does for the whole cluster: places replicas, elects leaders, and tells the others."""
