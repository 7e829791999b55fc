"""Long studies: the plans behind the solver tables of README and guide.

    python -m examples.studies standard --out study
    cdopt report study --out page

``standard`` : most problems, every installed solver, three tolerances; an hour on two cores.
``sizes`` : which solver for 10², 10⁴ and 10⁵ contacts, at rest and in a fall, cold and warm; less
than an hour.
``bank`` : every problem of the bank; some hours.

The same command continues a study that was interrupted. ``cdopt_bank.py`` is the bank as a test set
of qpbenchmark.
"""

from .plans import PLANS as PLANS
from .plans import plans as plans
