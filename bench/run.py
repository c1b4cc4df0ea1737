"""Run all benchmarks one after the other in their quick form: `make bench`; `make bench ARGS=--full` takes its time.

Each is a program of its own, so that none measures what another left in memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

# What makes each of them short.
PROGRAMS = {
    "records.py": ("--repeats", "5"),
    "log.py": ("--quick",),
    "compaction.py": ("--quick",),
    "wire.py": ("--quick",),
    "broker.py": ("--quick",),
    "producer.py": ("--quick",),
    "consumer.py": ("--quick",),
    "experiments.py": ("--quick",),
    "failover.py": ("--quick",),
    "rebalance.py": ("--quick",),
    "groups.py": ("--quick",),
    "audit.py": ("--quick",),
    "spark.py": ("--quick",),
    "paper.py": ("--quick",),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the long form of each")
    parser.add_argument("--only", action="append", choices=[Path(name).stem for name in PROGRAMS])
    options = parser.parse_args()
    failed = []
    for name, quick in PROGRAMS.items():
        program = Path(__file__).resolve().parent / name
        if options.only and program.stem not in options.only:
            continue
        print(f"--- {name}", flush=True)
        # -P: neither this folder nor the working directory may shadow an installed package.
        command = [sys.executable, "-P", str(program), *(() if options.full else quick)]
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
