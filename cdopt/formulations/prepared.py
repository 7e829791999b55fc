"""Rigid steps on the same contacts: compiled once, solved repeatedly."""

from __future__ import annotations

from typing import Any, Protocol

from cdopt._util import checks
from cdopt._util.errors import Unsupported
from cdopt.formulations.numbers import RATES, can_vary
from cdopt.formulations.parametrised import Posed
from cdopt.problem import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.problem.step_problems import on_same_network


class RigidFormulation(Posed, Protocol):
    """Formulations that ``Prepared`` supports."""

    bodies: Any


class Prepared:
    """A formulation of a rigid step, solved again for other gaps, velocities and loads.

    CVXPY compiles its problem once, with the rates of the free motion as a parameter, and the
    network's parts, bodies and units are computed once. M, B, Δt, friction and all other data of
    the step are fixed. ``Formulation.prepare`` makes it.

    Parameters
    ----------
    formulation : ``ClassicCD`` or ``FrictionalCD`` of a step with matrices.

    Raises
    ------
    InvalidInput : not a formulation.
    Unsupported : another formulation, one with added constraints, a step known only by N and p,
        or a form so large that the parameter would cost more than it saves.

    >>> import cdopt
    >>> prepared = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step).prepare()
    >>> [float(prepared.solve("clarabel", F_ext=[-10.0 * k, 0.0]).f.sum().round(6)) for k in (1, 2)]
    [10.0, 20.0]
    """

    def __init__(self, formulation: RigidFormulation) -> None:
        checks.provides("formulation", formulation, RigidFormulation)
        step, data, what = formulation.step, formulation.data, "prepare"
        rigid = data.kind in ("rigid step", "frictional step")
        if not isinstance(step, ContactStep) or not rigid:
            raise Unsupported(what, f"{formulation.name}: no rigid step with matrices", _PREPARABLE)
        if formulation.extended:
            raise Unsupported(what, "constraints were added", ("the formulation without them",))
        if not can_vary(data, formulation.in_forces):
            instead = "form='velocity'" if formulation.in_forces else "the formulation itself"
            raise Unsupported(what, f"{formulation.name} is large", (instead,))
        self._first, joints = formulation._restated(_varying=RATES, _like=None), formulation.joints
        self._step = step if joints is None else joints.given

    def solve(
        self,
        backend: Any = None,
        *,
        phi: Any = None,
        v: Any = None,
        F_ext: Any = None,
        **settings: Any,
    ) -> StepSolution:
        """The certified solution at other values.

        Parameters
        ----------
        phi : (nc,) m, v : (nv,) m/s and rad/s, F_ext : (nv,) N and N·m; those of the step by
            default.
        backend, settings : as of ``Formulation.solve``.

        Raises
        ------
        InvalidInput, BackendUnavailable, SolveFailed : as ``Formulation.solve``.
        """
        step, first, more = self._step.moved(phi, v, F_ext), self._first, dict[str, Any]()
        if first.joints is not None:
            joints = first.joints.moved(step)
            more = {"joints": joints, "bodies": on_same_network(first.bodies, step)}
            step = joints.step
        data = on_same_network(first.data, step)
        here = first._restated(step=step, data=data, _like=first, **more)
        return here.solve(backend, **settings)

    def __repr__(self) -> str:
        return f"Prepared({self._first!r})"


_PREPARABLE = ("ClassicCD", "FrictionalCD")
