"""The data of a step by name: what a change of each means to the equations, and its adjoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt.gradients.step_tangent import Change, Cotangent, StepTangent
from cdopt.problem import ContactStep
from cdopt.problem.contact_law import PowerLaw


@dataclass(frozen=True, eq=False)
class Parameter:
    """One of the data, with its derivatives of the equations."""

    # name, shape: of it
    name: str
    shape: tuple[int, ...]
    jvp: Callable[[Any], Change]  # the change of the equations for one of the parameter
    vjp: Callable[[Cotangent], Any]  # its cotangent from those of the equations
    # whether it is a matrix, whose changes may have entries anywhere and whose cotangents have
    # those of the matrix
    sparse: bool = False

    def checked(self, value: Any) -> Any:
        """A direction of the right shape; one number for each entry where it is one."""
        if self.sparse:
            return checks.matrix(self.name, value, *self.shape)
        if not self.shape:
            return checks.scalar(self.name, value)
        value = np.broadcast_to(value, self.shape) if np.ndim(value) == 0 else value
        return checks.numbers(self.name, value, self.shape)


class StepParameters:
    """The parameters of a step whose equations a tangent has.

    Parameters
    ----------
    tangent : of the step. step : the step as it was given.
    joint_rows : (nj,) the rows of its joints; by default those after the contacts, in turn.
    """

    def __init__(
        self, tangent: StepTangent, step: ContactStep, joint_rows: IntArray | None = None
    ) -> None:
        self.tangent, self.step = tangent, step
        self.joint_rows = np.arange(tangent.rows, tangent.G.shape[0])
        if joint_rows is not None:
            self.joint_rows = joint_rows
        cones = tangent.data.cones
        self.normal = np.arange(tangent.rows)[cones.first][: step.nc]
        self.known = {
            p.name: p for p in [*self._of_step(), *self._of_friction(), *self._of_joints()]
        }

    def add(self, *parameters: Parameter) -> None:
        """More of them, or others in place of those with the same name."""
        self.known |= {p.name: p for p in parameters}

    def drop(self, *names: str) -> None:
        """Without these."""
        self.known = {name: p for name, p in self.known.items() if name not in names}

    # --- pieces ------------------------------------------------------------------------------

    @property
    def _many(self) -> int:
        return int(self.tangent.G.shape[0])

    def on_rows(self, rows: IntArray, values: Any) -> FloatArray:
        """(rows + nj,) values on these rows, zero elsewhere."""
        result = np.zeros(self._many)
        result[rows] = np.ravel(values)
        return result

    def of_rates(self, name: str, shape: tuple[int, ...], rows: IntArray) -> Parameter:
        """A parameter that is the rate of these rows."""
        return Parameter(
            name,
            shape,
            lambda d: Change(bias=self.on_rows(rows, d)),
            lambda cotangent: cotangent.bias[rows].reshape(shape),
        )

    def of_matrix(self, name: str, matrix: sp.csr_array, rows: IntArray) -> Parameter:
        """A parameter that is these rows of G."""
        onto = sp.csr_array(
            (np.ones(rows.size), (rows, np.arange(rows.size))), shape=(self._many, rows.size)
        )
        return Parameter(
            name,
            matrix.shape,
            lambda d: Change(G=sp.csr_array(onto @ d)),
            lambda cotangent: cotangent.G.on(matrix, rows),
            sparse=True,
        )

    # --- the step ----------------------------------------------------------------------------

    def _of_step(self) -> list[Parameter]:
        step, normal, nv = self.step, self.normal, (self.step.nv,)
        hits, rebound = step.impacting, np.where(step.impacting, step.restitution, 0.0)
        approach, nc = step.B @ step.v + step.gap_rate, (step.nc,)
        rests = ~hits / step.dt
        B = self.of_matrix("B", step.B, normal)

        def jvp_B(d: sp.csr_array) -> Change:
            return B.jvp(d) + Change(bias=self.on_rows(normal, rebound * (d @ step.v)))

        def vjp_B(cotangent: Cotangent) -> sp.csr_array:
            matrix = B.vjp(cotangent)
            if not hits.any():
                return matrix
            row = np.repeat(np.arange(step.nc), np.diff(step.B.indptr))
            matrix.data += (rebound * cotangent.bias[normal])[row] * step.v[step.B.indices]
            return matrix

        def jvp_v(d: FloatArray) -> Change:
            return Change(v=d, bias=self.on_rows(normal, rebound * (step.B @ d)))

        def jvp_M(d: sp.csr_array) -> Change:
            return Change(M=sp.csr_array(0.5 * (d + d.T)))

        def vjp_M(cotangent: Cotangent) -> sp.csr_array:
            matrix = cotangent.M.on(step.M)
            return sp.csr_array(0.5 * (matrix + matrix.T))

        return [
            Parameter("M", step.M.shape, jvp_M, vjp_M, sparse=True),
            Parameter("B", step.B.shape, jvp_B, vjp_B, sparse=True),
            Parameter(
                "phi",
                nc,
                lambda d: Change(bias=self.on_rows(normal, rests * d)),
                lambda cotangent: rests * cotangent.bias[normal],
            ),
            Parameter("v", nv, jvp_v, lambda p: p.v + step.B.T @ (rebound * p.bias[normal])),
            Parameter("F_ext", nv, lambda d: Change(F=d), lambda cotangent: cotangent.F),
            Parameter(
                "gap_rate",
                nc,
                lambda d: Change(bias=self.on_rows(normal, (1.0 + rebound) * d)),
                lambda cotangent: (1.0 + rebound) * cotangent.bias[normal],
            ),
            Parameter(
                "restitution",
                nc,
                lambda d: Change(bias=self.on_rows(normal, hits * approach * d)),
                lambda cotangent: hits * approach * cotangent.bias[normal],
            ),
            self.of_time(-step.phi * rests / step.dt),
        ]

    @property
    def stretch(self) -> FloatArray:
        """(rows + nj,) N/s, how forces of springs grow with Δt at rates as they are."""
        data, tangent, result = self.tangent.data, self.tangent, np.zeros(self._many)
        law = data.compliance
        if law is not None and not law.pulls:
            g = data.gap(tangent.motion, tangent.forces[: tangent.rows])
            result[: tangent.rows] = -g * law.tangent(-data.dt * g)
        return result

    def of_time(self, opening: FloatArray) -> Parameter:
        """Δt, which changes the bias by ``opening`` (nc,), and the overlaps of springs."""
        springs, bias = self.stretch, self.on_rows(self.normal, opening)
        return Parameter(
            "dt",
            (),
            lambda d: Change(dt=float(d), bias=d * bias, forces=d * springs),
            lambda cotangent: float(
                cotangent.dt + cotangent.bias @ bias + cotangent.forces @ springs
            ),
        )

    def _of_friction(self) -> list[Parameter]:
        friction, d = self.step.friction, self.tangent.data.d
        if friction is None or d == 1:
            return []
        table = self.normal[:, None] + np.arange(d)
        slides, turns = table[:, 1 : friction.d].ravel(), table[:, friction.d :].ravel()
        parameters = [
            self.of_matrix("B_t", friction.B_t, slides),
            self.of_rates("rate", friction.rate.shape, slides),
        ]
        if friction.B_r is not None:
            parameters += [
                self.of_matrix("B_r", friction.B_r, turns),
                self.of_rates("spin", friction.spin.shape, turns),
            ]
            return parameters
        nc = (self.step.nc,)
        return [
            *parameters,
            Parameter("mu", nc, lambda d: Change(mu=d), lambda cotangent: cotangent.mu),
        ]

    def _of_joints(self) -> list[Parameter]:
        joints = self.step.joints
        rows = self.joint_rows
        if joints is None or not rows.size:
            return []
        return [
            self.of_matrix("J", joints.J, rows),
            self.of_rates("joint_rate", joints.rate.shape, rows),
        ]

    # --- elastic contacts ----------------------------------------------------------------------

    def elastic(self, law: PowerLaw, stiffness: FloatArray) -> None:
        """Add the ``stiffness`` (nc,) that the step states, and the power of the law."""
        tangent, nc = self.tangent, self.step.nc
        f = tangent.forces[: tangent.rows]
        c = np.abs(tangent.data.overlap(tangent.motion, f))
        logs = np.where(f != 0.0, f * np.log(np.where(c > 0.0, c, 1.0)), 0.0)
        self.add(
            self.of_forces("stiffness", (nc,), np.arange(nc), f[:nc] / stiffness),
            self.of_forces("power", (), np.arange(f.size), logs),
        )

    def of_contacts(self, name: str, rows: IntArray, each: FloatArray) -> Parameter:
        """A number of each contact that changes its rows by ``each`` (nc, d), rates as they are."""
        shape = each.shape

        def vjp(cotangent: Cotangent) -> FloatArray:
            return np.asarray(np.sum(each * cotangent.forces[rows].reshape(shape), axis=1))

        def jvp(d: FloatArray) -> Change:
            return Change(forces=self.on_rows(rows, each * d[:, None]))

        return Parameter(name, (shape[0],), jvp, vjp)

    def of_forces(
        self, name: str, shape: tuple[int, ...], rows: IntArray, each: FloatArray
    ) -> Parameter:
        """A parameter that changes forces on these rows by ``each`` (n,), at rates as they are."""

        def vjp(cotangent: Cotangent) -> Any:
            product = each * cotangent.forces[rows]
            return product if shape else float(product.sum())

        return Parameter(name, shape, lambda d: Change(forces=self.on_rows(rows, each * d)), vjp)
