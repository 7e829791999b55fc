"""``python -m tests.golden make [FILE]`` and ``python -m tests.golden compare``.

``settle``, with the code that made the file but another BLAS or processor, marks what round-off
decides; it is not compared any more. On one machine: OPENBLAS_CORETYPE=Nehalem, for example.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))  # as pytest does

from . import cases, record


def main() -> int:
    """Record, or compare and fail where something is not what it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("what", choices=("make", "settle", "compare"))
    parser.add_argument("file", nargs="?", type=Path, default=cases.FILE)
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--every", type=int, default=1, help="one case of every n")
    parser.add_argument("--moved", action="store_true", help="list what moved beyond round-off")
    parser.add_argument("--shown", type=int, default=60, help="deviations to print")
    given = parser.parse_args()
    if given.what == "make":
        made = cases.make(given.only, given.every)
        record.save(given.file, made)
        print(f"{len(made)} cases, {given.file.stat().st_size / 1e6:.2f} MB")
        return 0
    if given.what == "settle":
        print(cases.settle(given.file))
        return 0
    report = cases.compare(given.file, given.only, given.every, given.moved)
    print(report.text(given.shown))
    return int(not report.ok)


if __name__ == "__main__":
    sys.exit(main())
