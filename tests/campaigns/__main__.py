"""``python -m tests.campaigns NAME [--count N] [--seed S]``: many random attacks of one kind."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))  # as pytest does


def main() -> int:
    """Run one campaign, print its counts, and fail when a forbidden one is not zero."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns")
    parser.add_argument("name")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    campaign = importlib.import_module(f"tests.campaigns.{given.name}")
    table = campaign.run(given.count, given.seed)
    print(json.dumps(table, indent=2))
    return int(any(table.get(name, 0) for name in campaign.FORBIDDEN))


if __name__ == "__main__":
    sys.exit(main())
