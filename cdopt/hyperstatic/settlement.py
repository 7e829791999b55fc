"""settlement(): the motion of blocks, and the forces, that prescribed motions of supports bring.

Of all motions u of rigid blocks that do not interpenetrate, the one that releases most energy; of
all admissible forces, those that resist the settlement least:

    minimise −Fᵀu  subject to  B u + b ∈ K*_μ        maximise −bᵀf  subject to  Bᵀf + F = 0, f ∈ K_μ

with b the gaps and slips that the supports' motions alone would make. The two values are equal:
joints that open are the cracks, and the thrust has gone to its least or greatest value (J. Heyman
1966; piecewise rigid displacements, A. Iannuzzo et al., Int. J. Masonry Research and Innovation 3,
2018). Sliding joints open by μ times their slip, as the associated law has it. Displacements are
small: the geometry is that before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.formatting import count, listed, short
from cdopt.hyperstatic.limit_load import BalanceProgram, Certified
from cdopt.hyperstatic.quantities import contact_rows
from cdopt.hyperstatic.structures import Structure
from cdopt.problem import ContactStep
from cdopt.scene import BlockModel, Scene, State

_OPEN = 1e-6  # of the prescribed gaps and slips: joints with less have not moved


@dataclass(frozen=True, eq=False)
class Settlement(Certified):
    """Motion and forces after prescribed motions of supports.

    Attributes
    ----------
    step : the contact step. f, f_t : (nc,) and (nc, d − 1) N, the forces.
    mechanism : (nv,) m and rad, the motion of the blocks.
    rates : (nc, d) m, gaps and slips of the contacts after this motion, the gap first.
    supports : (nb, dim + turns) m and rad, the prescribed motions.
    prescribed : m, the largest gap or slip due to the motions of supports alone.
    energy : J released by the weights, Fᵀu; negative if they are lifted.
    residuals : relative errors by name: "balance" of the forces, "motion", how far gaps and slips
        are from K*, and "gap" between the values of both programs.
    tol : tolerance of ``ok``.
    bodies : the scene and its state, where it was given one. model : the blocks of a block model.
    """

    step: ContactStep
    f: FloatArray
    f_t: FloatArray
    mechanism: FloatArray
    rates: FloatArray
    supports: FloatArray
    prescribed: float
    energy: float
    residuals: Mapping[str, float]
    tol: float
    bodies: tuple[Scene, State] | None = None
    model: BlockModel | None = None

    @property
    def cracks(self) -> FloatArray:
        """(nc,) contacts that have opened."""
        return np.asarray(self.rates[:, 0] > _OPEN * self.prescribed)

    @property
    def captions(self) -> tuple[str, str]:
        """What the two panels of its picture show."""
        return "forces after the settlement", "motion"

    @property
    def title(self) -> str:
        """Which supports move, and by how much."""
        moved = np.flatnonzero(self.supports.any(axis=1)).tolist()
        far = np.linalg.norm(self.supports[:, : self.rates.shape[1]], axis=1)
        how = [f"moves by {short(x, 3)} m" if x else "turns" for x in far.tolist()]
        texts = [f"{self.step.names.body(k)} {how[k]}" for k in moved]
        return listed(texts, 3)

    @property
    def summary(self) -> str:
        widest = float(self.rates[:, 0].max(initial=0.0))
        text = f"{count(int(self.cracks.sum()), 'contact')} of {self.step.nc:,} open, by at most "
        text += f"{short(widest, 4)} m; the weights release {short(self.energy, 4)} J. "
        return text + self._certificate() + ("" if self.model is None else self.model.assumption)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "rates": self.rates, "energy": self.energy}

    def __repr__(self) -> str:
        return f"Settlement({int(self.cracks.sum())} cracks, ok={self.ok})"


def settlement(
    structure: Scene | BlockModel | str | Path,
    moves: Mapping[str | int, Any],
    friction: float | None = None,
    *,
    solver: str | None = None,
    tol: float = 1e-6,
) -> Settlement:
    """Crack mechanism and forces due to prescribed motions of supports.

    Parameters
    ----------
    structure : a scene, a block model, or the path of one, as in ``limit_load``.
    moves : by name or number of a fixed body, its small displacement (dim,) m; with a rotation
        about its centre in rad, (3,) in the plane and (6,) in space.
    friction : μ of all contacts, if the structure has none.
    solver : of CVXPY, as in ``limit_load``. tol : tolerance of the certificate.

    Returns
    -------
    Settlement : the gaps and slips of the joints, ``rates`` (nc, d) m, the forces, and the
        released energy, J.

    Raises
    ------
    InvalidInput : no friction, bodies that are unknown or not fixed, no motion of a support.
    Unsupported : joints.
    SolveFailed : no forces balance the loads, or no motion of the rigid blocks is compatible with
        this motion of the supports.

    >>> import cdopt
    >>> arch = cdopt.scene.arch(9, density=2000.0).with_friction(10.0)
    >>> right = max(arch.bodies.fixed.nonzero()[0])
    >>> spread = cdopt.settlement(arch, {right: [0.01, 0]})        # the abutment gives way by 1 cm
    >>> spread.ok, int(spread.cracks.sum())     # hinges at the abutments, and two next to the crown
    (True, 4)
    """
    checks.instance("structure", structure, Scene, BlockModel, str, Path)
    tol = checks.positive("tol", tol)
    whole = Structure.of(structure, friction)
    step = whole.step
    step.require_no_moments("settlement")
    if step.joints is not None:
        raise Unsupported("settlement", "the scene has joints", ("scenes without joints",))
    table, shift = _moved(whole, checks.mapping("moves", moves))
    strength = whole.strength(None)
    program = BalanceProgram(step, "associated", step.F_ext, solver, False, strength)
    f, motion, residuals = program.best(lambda: _judged(program, shift))
    rows = (program.data.B @ motion).reshape(shift.shape) + shift
    return Settlement(
        step, f[:, 0].copy(), f[:, 1:].copy(), read_only(motion), read_only(rows),
        read_only(table), float(np.abs(shift).max()), float(step.F_ext @ motion),
        residuals, tol,
        None if whole.scene is None else (whole.scene, whole.scene.initial), whole.model,
    )  # fmt: skip


def _judged(
    program: BalanceProgram, shift: FloatArray
) -> tuple[FloatArray, FloatArray, dict[str, float]]:
    """``_solved``, with the residuals last."""
    f, motion = _solved(program, shift)
    return f, motion, _residuals(program, f, motion, shift)


def _solved(program: BalanceProgram, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Forces (nc, d) and the motion (nv,)."""
    resists = shift * program.unit[:, None]
    size = float(np.abs(resists).max())
    aim = cp.Constant(resists / size)
    status, f, velocity = program.run(
        lambda f: cp.Minimize(cp.sum(cp.multiply(aim, f))), 1.0, cp.Constant(0.0)
    )
    if status != "optimal":
        some = program.run(None, 1.0, cp.Constant(0.0))[0]
        why = "no motion of rigid blocks lets the supports move so: they would jam"
        if some != "optimal":
            why = "no forces balance the loads: the structure does not stand"
        raise SolveFailed(
            f"settlement: {why}", backend=program.solver, status=status, problem=program.data
        )
    return program.strength.nearest(f), size * velocity / program.length


def _residuals(
    program: BalanceProgram, f: FloatArray, motion: FloatArray, shift: FloatArray
) -> dict[str, float]:
    """Relative errors of forces and motion, from the data."""
    balance = program.residuals(0.0, 0.0, f, np.zeros_like(motion))["balance"]
    rates = (program.data.B @ motion).reshape(f.shape) + shift
    size = float(np.abs(shift).max())
    outside = float(program.strength.violation(rates).max(initial=0.0)) / size
    released, resisted = float(program.dead @ motion), float(np.sum(shift * f))
    terms = size * float(np.abs(program.dead / program.length).sum())
    terms += float(np.abs(program.dead) @ np.abs(motion) + np.sum(np.abs(shift * f)))
    return {"balance": balance, "motion": outside, "gap": abs(released - resisted) / terms}


def _moved(structure: Structure, moves: Mapping[Any, Any]) -> tuple[FloatArray, FloatArray]:
    """Motions of all supports (nb, dim + turns), and gaps and slips b (nc, d) that they make."""
    step, dim = structure.step, structure.dim
    names = structure.names
    table = np.zeros((len(names), dim + (1 if dim == 2 else 3)))
    free = np.unique(np.asarray(step.dof_body)).tolist()
    for body, move in moves.items():
        number = structure.body("moves", body)
        if number in free:
            raise InvalidInput("moves", f"{names[number]}, which is free", "supports")
        size = np.size(move)
        if size not in (dim, table.shape[1]):
            expected = f"{dim} entries, or {table.shape[1]} with a turn"
            raise InvalidInput("moves", f"{size:,} entries for {names[number]}", expected)
        table[number, :size] = checks.vector("moves", move, size)
    rows = contact_rows(step, structure.centres, step.bodies)
    shift = np.asarray(rows @ table.ravel()).reshape(step.nc, dim)
    if not shift.any():
        raise InvalidInput(
            "moves", "no motion of a support in contact", "a motion that is not zero"
        )
    return table, shift
