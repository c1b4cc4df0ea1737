"""The kafka-classic command line, one file per command group.

Importing this package must stay light: a broker is a process of this command line, and a test waits for it to start.
Each command imports what it needs when it runs.
"""
