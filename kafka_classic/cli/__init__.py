"""The kafka-classic command line, one file per command group."""
