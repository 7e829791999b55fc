"""OSQP along a trajectory: set up once, updated from step to step.

Successive steps often have the same contacts and the same pattern of P and A. OSQP then keeps its
ordering and its step size ρ, takes the new numbers through its own ``update`` and starts from the
solution before. When the pattern grows or the contacts change it is set up anew, and still starts
from the forces of the contacts that stayed. The data of a step are those that CVXPY compiles, and
the certificate is computed for every step as ever.

B. Stellato, G. Banjac, P. Goulart, A. Bemporad, S. Boyd, *OSQP: an operator splitting solver for
quadratic programs*, Math. Program. Comput. 12 (2020) 637, section 5.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import osqp
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import IntArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.base import Backend, Problem, RunResult
from cdopt.backends.compiling import Compiled, Point
from cdopt.backends.modelled import OSQP_DEFAULTS, Modelled, ThroughCVXPY, osqp_data
from cdopt.problem.solution import WarmStart

_ENDLESS = 1e10  # seconds, OSQP's own default
_Places = dict[str, IntArray]  # of P and A, where they have room: column by column


class OSQPSession(ThroughCVXPY):
    """A backend with a memory: one OSQP solver for successive steps of one trajectory.

    Its answers agree with fresh solves within the solver's accuracy, not bit for bit: they depend
    on what it solved before. Do not share one between trajectories or threads. Copies and
    pickles begin anew, without the solver.

    Parameters
    ----------
    settings : OSQP's settings; those of CVXPY's interface where they say nothing.

    Attributes
    ----------
    setups, updates : how often OSQP was set up, and how often it took new numbers.

    Raises
    ------
    InvalidInput : settings of something else.

    >>> import cdopt
    >>> session = cdopt.backends.osqp_session(accuracy=1e-7)
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> [cdopt.ClassicCD(beam).solve(session).ok for _ in range(3)]
    [True, True, True]
    >>> session.setups, session.updates
    (1, 2)
    """

    name = solver = "osqp"

    def __init__(self, settings: Modelled) -> None:
        if not isinstance(settings, Modelled) or settings.name != "osqp":
            raise InvalidInput("settings", checks.describe(settings), 'Modelled("osqp", …)')
        self.modelled, self.settings = settings, settings.settings
        self.setups = self.updates = 0
        self._forget()

    def __reduce__(self) -> tuple[Any, ...]:
        return OSQPSession, (self.modelled,)

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"OSQPSession({options})"

    def _forget(self) -> None:
        """The next step is set up anew, from zero."""
        self._osqp: Any = None
        self._problem: Any = None  # what an update needs to be the same
        self._places: _Places = {}
        self._last: WarmStart | None = None
        self._point: Point | None = None

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, update or set up OSQP, solve once, read the iterate back."""
        updates = self.updates
        try:
            result = super().run(posed, warm_start, verbose, time_limit)
        except InvalidInput:
            self._forget()
            raise
        if result.claim == "solved" and result.iterate is not None:
            forces, motion = result.iterate.forces, result.iterate.motion
            self._last = WarmStart(forces, motion, posed.data.contact_ids)
            self._point = result.raw.x, result.raw.y
        else:
            self._forget()
        how = "updated" if self.updates > updates else "set up"
        return dataclasses.replace(result, settings={**self.settings, "session": how})

    def _start(self, posed: Problem, compiled: Compiled, given: WarmStart | None) -> Any:
        """OSQP's data with room for the entries of earlier steps, and the point to start from."""
        data, plain, update = osqp_data(compiled), posed.data, False
        ids = None if plain.contact_ids is None else plain.contact_ids.tolist()
        problem = plain.kind, ids, data["A"].shape
        places = {name: _places(data[name]) for name in ("P", "A")}
        if problem == self._problem:
            grown = {name: np.union1d(places[name], self._places[name]) for name in places}
            update = all(grown[name].size == self._places[name].size for name in grown)
            places = grown
        point, last = self._point, self._last
        again = last is None or given is None or np.array_equal(given.forces, last.forces)
        if not (update and again):  # else it is given the very point at which it ended
            if given is None and last is not None and self._problem[0] == plain.kind:
                named = last.contact_ids is not None and ids is not None
                given = last if named or last.forces.size == plain.nc else None
            point = super()._start(posed, compiled, given)
        self._problem, self._places = problem, places
        data |= {name: _filled(data[name], places[name]) for name in places}
        return data, update, point

    def _call(self, compiled: Compiled, start: Any, options: dict[str, Any], verbose: bool) -> Any:
        data, update, point = start
        options = {"time_limit": _ENDLESS, **options, "verbose": verbose}
        if update:
            self._osqp.update(
                q=data["q"], l=data["l"], u=data["u"], Px=data["P"].data, Ax=data["A"].data
            )
            self._osqp.update_settings(verbose=verbose, time_limit=options["time_limit"])
            self.updates += 1
        else:
            self._osqp = osqp.OSQP()
            self._osqp.setup(**data, **{**OSQP_DEFAULTS, **options})
            self.setups += 1
        if point is not None:
            self._osqp.warm_start(*point)
        return self._osqp.solve(raise_error=False)


def osqp_session(accuracy: float | None = None, **options: Any) -> OSQPSession:
    """OSQP for the successive steps of a trajectory.

    Parameters
    ----------
    accuracy, options : as of ``Modelled("osqp")``.

    Raises
    ------
    InvalidInput : accuracy out of range.
    """
    return OSQPSession(Modelled("osqp", accuracy, options))


def at_work(backend: Backend) -> Backend:
    """A backend for the steps of one trajectory: of OSQP a session, any other as it is."""
    if isinstance(backend, Modelled) and backend.name == "osqp":
        return OSQPSession(backend)
    return backend


def _places(matrix: sp.csc_matrix) -> IntArray:
    """Where a matrix has entries, column by column."""
    matrix.sum_duplicates()
    column = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
    return np.asarray(column * matrix.shape[0] + matrix.indices)


def _filled(matrix: sp.csc_matrix, places: IntArray) -> sp.csc_matrix:
    """The matrix with an entry at each of the places, which may be zero."""
    rows, columns = matrix.shape
    values = np.zeros(places.size)
    values[np.searchsorted(places, _places(matrix))] = matrix.data
    begins = np.searchsorted(places, rows * np.arange(columns + 1))
    return sp.csc_matrix((values, places % max(rows, 1), begins), shape=matrix.shape)
