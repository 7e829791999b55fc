"""Where the problem bank lies on disk: the one place that knows."""

from __future__ import annotations

from pathlib import Path

from cdopt._util.errors import CdoptError

PACKAGE = Path(__file__).resolve().parents[1]


def problems_folder(package: Path = PACKAGE) -> Path:
    """The folder of problems that belongs to a package folder.

    An installed wheel carries it inside the package as ``_problems``; in a checkout or an
    editable install it is ``problems``, beside the package.

    Raises
    ------
    CdoptError : neither is there.
    """
    places = (package / "_problems", package.parent / "problems")
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(str(place) for place in places)
    raise CdoptError(f"the problem bank is missing from this installation: looked for {looked}")
