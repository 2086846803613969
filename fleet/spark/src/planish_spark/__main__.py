"""What ``python -m planish_spark`` runs, and what ``spark-submit`` takes as its program."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if sys.path and Path(sys.path[0]).resolve() == HERE:
    # Run as a file: the package is what its folder lies in, not what lies in its folder.
    sys.path[0] = str(HERE.parent)

from planish_spark.command import run  # noqa: E402

if __name__ == "__main__":
    run()
