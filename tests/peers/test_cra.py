"""Coupled rigid-block analysis with Ipopt as a peer of ``stability``, where CasADi is installed.

G. T.-C. Kao, A. Iannuzzo, B. Thomaszewski, S. Coros, T. Van Mele & P. Block, Computer-Aided Design
146 (2022): forces f balance the weights within Coulomb's cones, and a virtual motion δ of the
blocks explains them. Normal forces act where it overlaps by ε, friction is against its sliding:

    minimise ‖f_n‖² + ‖α‖²    subject to    Bᵀf + F = 0,  ‖f_T‖ ≤ μ f_n,
        f_n (δ_n + ε) = 0,  δ_n + ε ≥ 0,  f_T = −α δ_T,  α ≥ 0,  |δ| ≤ η
"""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt._util.files import problems_folder
from cdopt.hyperstatic.stability import FALLS, PRESSED, STANDS

MODELS = {
    "H": ([0, 1], PRESSED), "A": ([0, 1], PRESSED), "type-a": ([0, 1], STANDS),
    "type-c": ([0, 1], STANDS), "concave-short": (0, STANDS), "concave-long": (0, STANDS),
    "shelf-stable": (0, STANDS), "shelf-s1": (0, FALLS),
}  # fmt: skip
SLOW = ("shelf-stable", "shelf-s1")
OVERLAP, MOST = 1e-4, 1e-1  # ε and η of compas_cra; δ below is in units of ε


def missed(step: cdopt.ContactStep) -> float:
    """How far Ipopt is from meeting CRA's constraints, in units of the largest weight and of ε."""
    casadi = pytest.importorskip("casadi")
    friction, nc, nv = step.friction, step.nc, step.nv
    mu, weight = float(friction.mu.max()), np.abs(step.F_ext).max()
    rows, across = casadi.DM(step.B.toarray()), casadi.DM(friction.B_t.toarray())
    normal, tangential = casadi.MX.sym("f_n", nc), casadi.MX.sym("f_T", 2 * nc)
    alpha, motion = casadi.MX.sym("α", nc), casadi.MX.sym("q", nv)
    opens, slides = rows @ motion, across @ motion
    both = casadi.reshape(casadi.repmat(alpha.T, 2, 1), 2 * nc, 1)
    most, endless, none = MOST / OVERLAP, np.inf, 0.0
    parts = [  # constraint, least, most
        (rows.T @ normal + across.T @ tangential + casadi.DM(step.F_ext / weight), none, none),
        ((mu * normal) ** 2 - tangential[0::2] ** 2 - tangential[1::2] ** 2, none, endless),
        (normal * (opens + 1.0), none, none),
        (tangential + both * slides, none, none),
        (opens + 1.0, none, most),
        (slides, -most, most),
    ]
    low, high = (np.concatenate([np.full(p[0].shape[0], p[k]) for p in parts]) for k in (1, 2))
    program = {
        "x": casadi.vertcat(normal, alpha, tangential, motion),
        "f": casadi.sumsqr(normal) + casadi.sumsqr(alpha),
        "g": casadi.vertcat(*(part[0] for part in parts)),
    }
    limits = {"max_iter": 3000, "tol": 1e-8, "constr_viol_tol": 1e-8}
    options = {"ipopt": {"print_level": 0, "sb": "yes", **limits},
               "print_time": False, "error_on_fail": False}  # fmt: skip
    least = np.repeat([0.0, -np.inf], [2 * nc, 2 * nc + nv])
    answer = casadi.nlpsol("cra", "ipopt", program, options)(
        x0=0.0, lbx=least, ubx=np.inf, lbg=low, ubg=high
    )
    found = np.asarray(answer["g"]).ravel()
    return float(max((low - found).max(), (found - high).max(), 0.0))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in MODELS]
)
def test_coupled_rigid_block_analysis_stands_where_elastic_contacts_do(name: str) -> None:
    supports, verdict = MODELS[name]
    path = problems_folder() / "masonry" / f"{name}.json"
    off = missed(cdopt.scene.load_blocks(path, supports=supports).step(0.84))
    assert off <= 1e-5 if verdict == STANDS else off >= 1e-3
    found = cdopt.stability(path, friction=0.84, supports=supports, limits=False)
    assert found.verdict == verdict
