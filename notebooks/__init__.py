"""The walk through the paper: Jupyter notebooks on live clusters, and what they share.

`kafka-classic notebooks --copy DIR` puts the notebooks where a reader can run them. The package needs what
`pip install 'kafka-classic[notebooks]'` brings; nothing else of Kafka classic imports it.
"""
