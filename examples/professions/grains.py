"""A pile as LAMMPS dumped it (``contacts.dump``, ``atoms.dump``): are its forces right?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import cdopt
from cdopt.interop import contact_lists

HERE = Path(__file__).parent
COLUMNS = "id1 id2 fx fy fz"  # of compute pair/local; the file calls them c_1[1], …
MU = 0.6
FIXED = range(1, 10)  # the balls below


def run(out: Path) -> dict[str, cdopt.Audit]:
    """Print verdicts on the file's forces and on spoilt ones, and save a picture of these."""
    listed = contact_lists.read(
        HERE / "contacts.dump", HERE / "atoms.dump", MU, columns=COLUMNS, fixed=FIXED
    )
    step, rest = listed.step, np.zeros(listed.step.nv)
    print(listed)
    spoilt = listed.f.copy()
    spoilt[3] *= 1.05  # as if one force were five percent too large
    verdicts = {
        "as dumped": cdopt.audit(step, listed.f, listed.f_t, rest),
        "one force × 1.05": cdopt.audit(step, spoilt, listed.f_t, rest),
    }
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict.summary}")
    top = listed.f.max()
    loose = cdopt.indeterminacy(step, "coulomb").upper.max()
    print(f"largest force in the file {top:.3g} N; balance allows up to {loose:.3g} N")
    picture = cdopt.plots.audited_forces(verdicts["one force × 1.05"], view="isometric")
    picture.savefig(out / "grains.png", dpi=120)
    return verdicts
