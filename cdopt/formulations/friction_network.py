"""Forces of a step with friction, resolved by compatibility.

A step with friction determines the motion v⁺ and the load F̃ = Bᵀf, but rarely the forces. Given
the contact rates g of v⁺, under either law, the admissible forces are a convex set of faces:

    A(v⁺) = {Bᵀf = F̃;  f ∈ K_μ at rest;  f = α (1, −μ g_T/‖g_T‖), α ≥ 0, sliding;  f = 0 open}

Bᵀf = F̃ alone would also allow forces at open contacts and friction in the direction of sliding. In
the limit of infinite stiffness, elastic contacts with friction select one of the admissible sets of
forces. By Haar & Kármán's principle (associated micro-slip) it is the one nearest to trial forces
t, with D = diag(k_n, k_t, k_t):

    complementary    minimise ½ ‖f − t‖²_{D⁻¹}    subject to    Bᵀf = F̃,  f on the faces
    potential        minimise over u    Σ ψ(t − D B u) + F̃ᵀu,    ψ(y) = ½ ‖Π y‖²_{D⁻¹},  f = Π y

with Π the projection onto the faces in the norm of D⁻¹. Micro-slip by Coulomb's law is not
associated: f_n = (t_n − k_n B_n u)₊, and f_T is t_T − k_t B_T u, limited to μ f_n. The forces of a
discrete-element model tend to these. Both are equal if no contact slips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.backends.newton import Newton
from cdopt.backends.selection import resolve
from cdopt.formulations.base import Formulation
from cdopt.formulations.faces import Faces
from cdopt.formulations.frictional_cd import FrictionalCD
from cdopt.formulations.no_tension_truss import TRUSS_FORMS
from cdopt.formulations.printing import align
from cdopt.formulations.rolling_faces import rolling_faces
from cdopt.problem import ContactProblem, StepSolution, WarmStart
from cdopt.problem.active_set import first_step
from cdopt.problem.certificate import Certificate
from cdopt.problem.cone_products import Product
from cdopt.problem.cones import OPEN, RESTING, SLIDING, Cones, FixedFaces, Lines
from cdopt.problem.joints import Joints
from cdopt.problem.residual import residuals_of
from cdopt.problem.scales import step_scales
from cdopt.problem.scaling import column_scale
from cdopt.problem.step_problems import LAWS, friction_network_data, interleaved

_LEAST, _FACTOR = 1e-7, 10.0  # rates are zero within this, or this many residuals, of local speeds


# --- faces -------------------------------------------------------------------------------


def faces_of(data: ContactProblem, motion: FloatArray | None, f: FloatArray, tol: float) -> Faces:
    """Faces of an answer v⁺ (nv,) and f (nc d,); rates within ``tol`` of local speeds are zero.

    A contact whose force is inside its cone by more than the tolerance counts as resting, whatever
    its rate; a contact with a force is not open. Therefore forces on the faces can balance the
    load.
    """
    if data.cones.moments.any():
        return rolling_faces(data, motion, f, tol)
    cones, w, scales = data.cones, data.mobility, step_scales(data)
    local, mu, rows = scales.local(motion, f), cones.mu, data.gap(motion, f)
    forces, rates = cones.table(f), cones.table(rows)
    small = tol * local.speed + cones.norms(local.gap_round_off)
    inside = w * (mu * forces[:, 0] - np.linalg.norm(forces[:, 1:], axis=1)) > small
    closed = (scales.opening(rows) <= small) | (w * forces[:, 0] > small)
    speed = np.linalg.norm(rates[:, 1:], axis=1)
    slides = closed & (((speed > small) & ~inside) | (mu == 0.0))
    status = np.where(slides, SLIDING, np.where(closed, RESTING, OPEN))
    ray = np.zeros_like(rates)
    ray[slides, 0] = 1.0
    moving = slides & (speed > small)
    ray[moving, 1:] = -(mu[moving] / speed[moving])[:, None] * rates[moving, 1:]
    each = np.zeros(0), 0.0, tol, np.zeros(data.nc)
    return Faces(status, ray, mu, ray, *each).carrying(data, f)


def solved_faces(
    problem: FrictionalCD,
    solution: str | Backend | StepSolution | None,
    tol: float | None = None,
    time_limit: float | None = None,
) -> tuple[StepSolution, Faces]:
    """A certified answer to a step with friction, and its faces, their forces solved again.

    ``solution`` is one of this step, or a backend, with ``time_limit`` seconds;
    default auto. ``tol`` is by default ten times the worst residual, at least 1e-7.
    """
    if isinstance(solution, StepSolution):
        answer = solution
        if not answer.ok or answer.f_t is None:
            raise InvalidInput("solution", repr(solution), "a certified solution with friction")
    else:
        backend = "auto" if solution is None else solution
        answer = problem.solve(backend, time_limit=time_limit)
        if not answer.ok:
            raise SolveFailed(
                f"the step with friction is not certified: {answer.certificate}",
                backend=answer.backend,
                status=answer.status,
                problem=problem.data,
            )
    iterate, certificate = answer.iterate, answer.certificate
    if iterate is None or certificate is None or iterate.forces.size != problem.data.rows:
        raise InvalidInput("solution", "forces of other contacts", "a solution of this step")
    share = max(_LEAST, _FACTOR * certificate.worst) if tol is None else tol
    faces = faces_of(problem.data, iterate.motion, iterate.forces, share)
    return answer, faces.resolved(problem.data, iterate.motion, iterate.forces)


# --- the network ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NetworkForces(Frozen):
    """Forces of an elastic network with friction.

    Attributes
    ----------
    f, f_t : (nc,) and (nc, d − 1) N. u : (nv,) micro-displacement, m if k is in N/m.
    flow : "coulomb" or "associated", of the micro-slip.
    label : a description of the forces.
    residual : largest error of Bᵀf = F̃, relative to the largest load.
    trial : (nc, d) N, the trial forces of a next increment of load.
    contact_ids : (nc,) names of the contacts, or None.
    tol : tolerance of the balance.
    solution : of the network, with its certificate; None for other forces.
    joint_forces : (nj,) N, reactions of the joints of a step, or of those of a network; None
        without joints.
    """

    f: FloatArray
    f_t: FloatArray
    u: FloatArray
    flow: str
    label: str
    residual: float
    trial: FloatArray
    contact_ids: Any = None
    tol: float = 1e-9
    solution: StepSolution | None = None
    joint_forces: FloatArray | None = None

    @property
    def rows(self) -> FloatArray:
        """(nc d,) N, the components of each contact's force in turn."""
        return np.column_stack([self.f, self.f_t]).ravel()

    @property
    def certificate(self) -> Certificate | None:
        """Certificate of balance, faces and the law of the springs; None without a network."""
        return None if self.solution is None else self.solution.certificate

    @property
    def ok(self) -> bool:
        """Whether the certificate is ok; without one, whether the forces balance the load."""
        return self.residual <= self.tol if self.solution is None else self.solution.ok


class FrictionNetwork(Formulation):
    """An elastic network of contacts with friction, on given faces.

    ``problem`` is the convex problem of the associated flow, in this ``form``.

    ``reach`` (nv,) is the lever arm of each dof, the largest entry of its column of ``B`` (nc d,
    nv), which has the d rows of each contact in turn.

    Parameters
    ----------
    B, B_t : (nc, nv) and (nc (d − 1), nv), as of a step with friction.
    contact_load : F̃ (nv,), the load that contacts must deliver, N and N·m.
    mu : friction coefficients, one number or (nc,).
    stiffness : relative normal stiffness, one number or (nc,).
    stiffness_ratio : k_t/k_n, one number or (nc,).
    status : the ``faces`` of ``cdopt.indeterminacy(step, law=...)``; or (nc,) numbers, 0 for open,
        1 for sliding, 2 for resting contacts; by default all are resting.
    trial : (nc, d) N, trial forces t; default none.
    flow : "coulomb" or "associated".
    form : of the problem of the associated flow, "potential" or "complementary".
    rays : (nc, d) force of sliding contacts per unit of normal force, with a ``status`` of numbers;
        other rows are ignored.
    dof_body : (nv,) the body of each dof, for the scales of the certificate.
    joints : ``cdopt.Joints`` of finite relative stiffness: springs that push and pull, whose rows
        come after those of the contacts. ``contact_load`` includes their reactions.
    joint_trial : (nj,) N, forces of these springs at u = 0; default none.

    Raises
    ------
    InvalidInput : a bad argument.
    Unsupported : sliding contacts with μ > 0 and Coulomb's micro-slip: compatibility and balance
        have different matrices, so that there may be no solution or several.

    >>> import cdopt, numpy as np
    >>> ladder = cdopt.bank.load("ladder").step
    >>> forces = cdopt.CompatibleFriction(ladder).solve()
    >>> forces.ok, forces.flow
    (True, 'coulomb')
    """

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    def __init__(
        self,
        B: Any,
        B_t: Any,
        contact_load: Any,
        mu: Any,
        stiffness: Any = 1.0,
        stiffness_ratio: Any = 1.0,
        status: Any = None,
        trial: Any = None,
        flow: str = "coulomb",
        form: str = "potential",
        rays: Any = None,
        dof_body: Any = None,
        joints: Joints | None = None,
        joint_trial: Any = None,
    ) -> None:
        flow = checks.choice("flow", flow, LAWS)
        form = checks.choice("form", form, TRUSS_FORMS)
        normal = checks.matrix("B", B, None, None)
        nc, nv = normal.shape
        sliding = checks.matrix("B_t", B_t, None, nv)
        many = sliding.shape[0] // max(nc, 1)
        if many not in (1, 2) or sliding.shape[0] != nc * many:
            raise InvalidInput("B_t", f"{sliding.shape[0]:,} rows", f"{nc} or {2 * nc}")
        self.nc, self.d = nc, 1 + many
        self.flow, self.form = flow, form
        self.mu = checks.per_contact("mu", mu, nc, at_least=0.0)
        self.load = checks.vector("contact_load", contact_load, nv, "N")
        k_n = checks.per_contact("stiffness", stiffness, nc, positive=True)
        k_t = k_n * checks.per_contact("stiffness_ratio", stiffness_ratio, nc, positive=True)
        self.D = np.column_stack([k_n, *[k_t] * many])
        shape = (nc, self.d)
        self.faces = status if isinstance(status, Faces) else None
        faces = self.status, self.rays = _stated_faces(status, rays, shape)
        self.closed, self.slides = self.status != OPEN, self.status == SLIDING
        if self.flow == "coulomb" and (self.slides & (self.mu > 0.0)).any():
            why = "sliding contacts make compatibility and balance different matrices"
            raise Unsupported("Coulomb's micro-slip", why, ("flow='associated'",))
        self.trial = (
            np.zeros(shape) if trial is None else checks.numbers("trial", trial, shape, "N")
        )
        self.B = interleaved(normal, sliding)
        cones: Cones = FixedFaces(self.mu, self.d, *faces)
        springs, before = self.D.ravel(), self.trial.ravel()
        if joints is not None:
            self.springs = _sprung(joints, nv)
            pulled = np.zeros(joints.count) if joint_trial is None else joint_trial
            pulled = checks.vector("joint_trial", pulled, joints.count, "N")
            self.B = freeze(sp.csr_array(sp.vstack([self.B, joints.J])))
            cones = Product(cones, Lines(joints.count))
            springs, before = np.append(springs, joints.stiffness), np.append(before, pulled)
        self.k, self.before = read_only(springs), read_only(before)
        reach = column_scale(self.B)
        self.reach = np.where(reach > 0.0, reach, 1.0)
        self.scaled_B = sp.csr_array(self.B * (1.0 / self.reach)[None, :])
        if dof_body is not None:
            dof_body = checks.integers("dof_body", dof_body, (nv,), at_least=0)
        each = self.k, self.before
        self.data = friction_network_data(self.B, self.load, cones, *each, self.flow, dof_body)

    @property
    def _particulars(self) -> list[str]:
        return [f"{self.flow} micro-slip", f"{self.form} form"]

    def latex(self) -> str:
        """The problem as mathematics."""
        if self.flow == "coulomb":
            return align(
                r"B^\mathsf{T} f &= \tilde F, \qquad f_n = (t_n - k_n B_n u)_+",
                r"f_T &= t_T - k_t B_T u \text{ cut to } \mu f_n",
            )
        faces = r"f \text{ on the faces of } K_\mu"
        if self.form == "complementary":
            return align(
                r"\min_{f}\quad & \tfrac12 \lVert f - t \rVert^2_{D^{-1}}",
                rf"\text{{s.t.}}\quad & B^\mathsf{{T}} f = \tilde F, \quad {faces}",
            )
        return align(
            r"\min_{u}\quad & \tfrac12 \lVert \Pi (t - D B u) \rVert^2_{D^{-1}} "
            r"+ \tilde F^\mathsf{T} u",
            rf"\text{{with}}\quad & f = \Pi (t - D B u), \quad {faces}",
        )

    # --- solving -------------------------------------------------------------------------

    def solve(  # type: ignore[override]  # forces with the trial forces of a next increment
        self,
        backend: str | Backend = "newton",
        *,
        tol: float = 1e-9,
        start: NetworkForces | None = None,
        time_limit: float | None = None,
        **options: Any,
    ) -> NetworkForces:
        """The forces, by Newton's method on the micro-displacement u, or by a backend for cones.

        Coulomb's micro-slip is not a convex problem: Newton's method solves it, starting from the
        associated forces or from ``start``.

        Parameters
        ----------
        backend : "newton", or for the associated flow any that solves cone programs.
        tol : of the balance of Newton's method.
        start : forces to start from; ``options`` and ``time_limit`` (s) are those of other
            backends, as in ``Formulation.solve``.

        Raises
        ------
        SolveFailed : the load is not balanced within ``tol``, and a residual of the certificate is
            too large; or the backend failed.
        Unsupported : Coulomb's micro-slip with another backend.
        """
        tol, chosen, near = checks.positive("tol", tol), resolve(backend, **options), None
        if start is not None:
            self._fitting("start", start)
            near = WarmStart(start.rows, start.u)
        if self.flow == "coulomb" and not chosen.capability.consumes(self.data):
            why = "Coulomb's micro-slip is not the optimality condition of a convex problem"
            raise Unsupported(f"{chosen.name} for {self.name}", why, ("backend='newton'",))
        solution = super().solve(chosen, warm_start=near, time_limit=time_limit)
        iterate = solution.iterate
        if self.faces is not None:
            solution = self._with_first_step(self.faces, solution)
        if iterate is None or iterate.motion is None:
            raise SolveFailed(
                "no forces of the network", backend=chosen.name, status=solution.status
            )
        many, u = self.nc * self.d, iterate.motion
        forces = iterate.forces[:many].reshape(self.nc, self.d)
        missed = np.abs(self.load - self.data.load(iterate.forces)) / self.reach
        unit = self.data.part_force[self.data.parts.dof]  # separately for heavy and light parts
        residual = float((missed / unit).max(initial=0.0))
        certificate = solution.certificate
        right = certificate is not None and certificate.worst <= certificate.tol
        if isinstance(chosen, Newton) and not (residual <= tol or right):
            raise SolveFailed(
                f"the network with friction is off balance by {residual:.1e}",
                backend=chosen.name,
                status=solution.status,
                problem=self.data,
            )
        label = "Haar–Kármán" if self.flow == "associated" else "network with Coulomb micro-slip"
        y, trial = self._tried(u)[:many].reshape(self.nc, self.d)[:, 0], forces.copy()
        pulled = self.closed if self.flow == "coulomb" else ~forces.any(axis=1)
        trial[pulled, 0] = np.where(forces[pulled, 0] > 0.0, forces[pulled, 0], y[pulled])
        return NetworkForces(
            forces[:, 0].copy(),
            forces[:, 1:].copy(),
            u,
            self.flow,
            label,
            residual,
            trial,
            tol=tol,
            solution=solution,
            joint_forces=None if self.springs is None else iterate.forces[many:].copy(),
        )

    def _with_first_step(self, faces: Faces, solution: StepSolution) -> StepSolution:
        """The solution, its certificate with the effect of the step that the faces are of."""
        iterate, certificate, more = solution.iterate, solution.certificate, self.data.nc - self.nc
        if iterate is None or certificate is None:
            return solution
        f, law = iterate.forces, "associated"  # G alone is used
        loaded = np.repeat(f[: self.nc * self.d : self.d] > 0.0, self.d)
        G = sp.csr_array(faces.generators(law)[0] * loaded[:, None])
        G = sp.block_diag([G[:, np.flatnonzero(abs(G).sum(axis=0))], sp.eye_array(more)])
        uncertain = np.append(faces.uncertain, np.zeros(more))
        one = residuals_of(first_step(self.data, iterate.motion, f, uncertain, sp.csr_array(G)))
        covered = replace(certificate, residuals=(*certificate.residuals, *one))
        return replace(solution, certificates={"forces": covered})

    # --- derivatives ---------------------------------------------------------------------

    def _fitting(self, name: str, forces: NetworkForces) -> NetworkForces:
        """The forces, after a check that they belong to a network like this one."""
        checks.instance(name, forces, NetworkForces)
        if forces.u.shape != self.load.shape or forces.f.shape != (self.nc,):
            found = f"{forces.f.size:,} forces, {forces.u.size:,} displacements"
            raise InvalidInput(name, found, "forces of this network")
        return forces

    def linearised(self, forces: NetworkForces) -> tuple[FloatArray, FloatArray]:
        """y = t − D B u (nc, d), N, and ∂f/∂y (nc, d, d) of the contacts of a solution."""
        self._fitting("forces", forces)
        y, cones = self._tried(forces.u)[: self.nc * self.d], self._contact_cones
        table = y.reshape(self.nc, self.d)
        if forces.flow == "coulomb":
            return table, cones.cut_derivative(y)
        root = np.sqrt(self.D)
        slope = cones.in_units(root.ravel()).projection_derivative((table / root).ravel())
        return table, slope * root[:, :, None] / root[:, None, :]

    def _tried(self, u: FloatArray) -> FloatArray:
        """y = t − D B u (rows,), N, the forces of springs without friction."""
        return np.asarray(self.before - self.k * (self.B @ u))

    def kinks(self, forces: NetworkForces, tol: float) -> IntArray:
        """Closed contacts within ``tol`` of the largest |y| from a kink of f(y).

        Kinks are the onset of slip, and zero force and gap.
        """
        tol = checks.not_negative("tol", tol)
        y, _ = self.linearised(forces)
        near = tol * float(np.abs(y).max(initial=0.0))
        normal, size = y[:, 0].copy(), np.linalg.norm(y[:, 1:], axis=1)
        if forces.flow == "associated":
            ratio = self.D[:, 1] / self.D[:, 0]
            along = np.sum(self.rays[:, 1:] * y[:, 1:], axis=1)
            normal += np.where(self.slides, along, self.mu * size) / ratio
        onset = ~self.slides & (y[:, 0] > -near) & (np.abs(size - self.mu * y[:, 0]) <= near)
        return np.flatnonzero(self.closed & ((np.abs(normal) <= near) | onset))


def _sprung(joints: Joints, nv: int) -> Joints:
    """The joints, after a check that they have a finite stiffness."""
    checks.instance("joints", joints, Joints).on(nv)
    if joints.rigid.size:
        found = f"row {int(joints.rigid[0])} of infinite stiffness"
        raise InvalidInput("joints", found, "finite ones; a step takes rigid joints")
    return joints


def _stated_faces(status: Any, rays: Any, shape: tuple[int, int]) -> tuple[IntArray, FloatArray]:
    """Status (nc,) and rays (nc, d), zero where no contact slides."""
    nc = shape[0]
    if isinstance(status, Faces):
        if rays is not None:
            raise InvalidInput("rays", "given with faces", "rays with a status of numbers")
        if status.ray.shape != shape:
            raise InvalidInput("status", f"faces of shape {status.ray.shape}", f"shape {shape}")
        return status.status, status.ray
    numbers = np.full(nc, RESTING)
    if status is not None:
        numbers = checks.integers("status", status, (nc,), at_least=OPEN, below=RESTING + 1)
    slides = numbers == SLIDING
    stated = np.zeros(shape) if rays is None else checks.numbers("rays", rays, shape)
    if not stated[slides].any(axis=1).all():
        raise InvalidInput("rays", "no direction", "a nonzero row for each sliding contact")
    return numbers, np.where(slides[:, None], stated, 0.0)
