"""The Spark data source, the count-based audit and the warehouse load (not built yet)."""
