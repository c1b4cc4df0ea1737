"""`python -m kafka_classic.cli` is the `kafka-classic` command."""

from kafka_classic.cli.main import main

if __name__ == "__main__":
    main()
