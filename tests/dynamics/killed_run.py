"""A simulation that is killed again and again; run by test_run_files.py in a separate process.

Its parent never solves anything, so that forked children may start their own threads.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import cdopt
from cdopt.dynamics import trajectory_file


def written(path: str) -> int:
    """When the file or a part of it was last written."""
    return max((place.stat().st_mtime_ns for place in Path(path).parent.glob("run*")), default=0)


def main(path: str, kills: int, seed: int, warm: bool) -> None:
    trajectory_file._COMMIT_SECONDS = 0.0  # so that most of the time goes into writing
    trajectory_file._MERGE_SHARE = 3.0
    random.seed(seed)
    options = {"resume": True, "every": 3, "warm_start": warm}
    for done in range(kills + 1):
        child = os.fork()
        if child == 0:
            cdopt.simulate(cdopt.scene.pyramid(3), 1e-3, 0.4, out=path, **options)
            os._exit(0)
        if done < kills:
            before, deadline = written(path), time.monotonic() + 30.0
            while time.monotonic() < deadline and written(path) == before:
                if os.waitpid(child, os.WNOHANG)[0]:
                    sys.exit("it ended before it was killed")
                time.sleep(1e-3)
            time.sleep(random.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if done < kills and not os.WIFSIGNALED(status):
            sys.exit("it ended before it was killed")
        if Path(path).exists():
            print(f"{done + 1}: {len(cdopt.Trajectory.load(path))} frames", flush=True)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "warm")
