# %% [markdown]
# # Your own matrices
#
# The problems so far were ready-made. Yours will not be. This lesson takes a small structure,
# writes its matrices, checks them, solves and certifies the problem, computes the intervals, and
# saves everything. The steps are the same for contacts from any code.
#
# **The structure.** A plank lies across three round logs, which lie on the ground, all in the plane
# of the paper and without friction. The plank weighs 20 N, each log 5 N.
#
#         ======================        the plank, 1.2 m long
#          ( )       ( )       ( )      logs at -0.5 m, 0 and 0.5 m
#     ──────────────────────────────

# %%
import numpy as np

import cdopt
from cdopt import plots

GRAVITY = 9.81  # m/s²
places = np.array([-0.5, 0.0, 0.5])  # m, of the logs
radii = np.array([0.10, 0.10, 0.10])  # m
log_stiffness = [1.0, 1.0, 1.0]  # relative
plank, log, box = 20.0, 5.0, 0.0  # N; the box is a weight that you may put on the plank
box_place = 0.3  # m to the right of the plank's middle
length, half = 1.2, 0.02  # m, the plank and half its thickness

# %% [markdown]
# ## 1. Say how things can move, and how far apart they are
#
# Every body gets numbers that say where it is: the plank x, y and its turn (anticlockwise, in
# radians), each log x and y. A frictionless log may spin freely without moving any gap, so its
# turn is left out. That makes nine numbers, `q`.
#
# A *gap* is a distance between two surfaces: positive when apart, zero when touching, negative
# when overlapping. Between plank and log it is the distance of the log's centre from the plank's
# middle line, measured straight across, minus half the thickness and the radius.


# %%
def gaps(q):
    """Gaps (6,) in m: plank above each log, then each log above the ground."""
    middle, turn, logs = q[:2], q[2], q[3:].reshape(3, 2)
    across = np.array([np.sin(turn), -np.cos(turn)])  # out of the plank's lower side
    under_plank = (logs - middle) @ across - half - radii
    above_ground = logs[:, 1] - radii
    return np.concatenate([under_plank, above_ground])


names = ["left, top", "middle, top", "right, top", "left, floor", "middle, floor", "right, floor"]
q = np.concatenate([[0.0, 2 * radii.max() + half, 0.0], np.column_stack([places, radii]).ravel()])
print("gaps at rest [m]:", gaps(q).round(6) + 0.0)

# %% [markdown]
# ## 2. Write B
#
# `B` has a row for each gap and a column for each way to move. Its entries answer one question:
# **if this moves a little, how much does that gap open?** Ask it six times.
#
# - Plank and log: the plank rises by 1, the gap opens by 1. The log rises by 1, the gap closes by
#   1. The plank turns anticlockwise, its right side goes up: at a log x metres to the right the
#   gap opens by x for each radian. That is the *lever*.
# - Log and ground: the log rises by 1, the gap opens by 1.
# - Sideways motions open nothing, to first order.
#
# The same matrix turned over, `B.T`, adds the contact forces up to forces and turning moments on
# each body. So B is all that a solver knows about your geometry.

# %%
B = np.zeros((6, 9))
for i, x in enumerate(places):
    B[i, [1, 2]] = 1.0, x  # the plank: rise, turn
    B[i, 4 + 2 * i] = -1.0  # log i rises below the plank
    B[3 + i, 4 + 2 * i] = 1.0  # and above the ground

# %% [markdown]
# ## 3. Check B before you trust it
#
# Move each coordinate a micrometre forth and back, and measure. No formula of yours has to be
# believed for this, except the gaps.


# %%
def measured(q, small=1e-6):
    """B by central differences of the gaps."""
    moves = small * np.eye(q.size)
    return np.column_stack([(gaps(q + d) - gaps(q - d)) / (2 * small) for d in moves])


error = np.abs(B - measured(q)).max()
print(f"largest difference between B and its measurement: {error:.0e}")

# %% [markdown]
# ## 4. Masses and loads
#
# `M` holds masses in kg and, for turns, moments of inertia in kg·m² (a thin plank: mass × length² /
# 12). `F_ext` holds the loads in N and, for turns, the moments in N·m: a box x metres to the right
# turns the plank clockwise. Nothing moves yet, so `v` is zero. For things at rest the time step
# `dt` is a formality.

# %%
weights = np.array([plank + box, log, log, log])  # N
inertia = plank / GRAVITY * length**2 / 12  # kg·m²
M = np.diag([*[weights[0] / GRAVITY] * 2, inertia, *np.repeat(weights[1:] / GRAVITY, 2)])
F_ext = np.array([0.0, -weights[0], -box * box_place, 0.0, -log, 0.0, -log, 0.0, -log])

step = cdopt.ContactStep(
    M=M, B=B, phi=gaps(q), v=np.zeros(9), F_ext=F_ext, dt=1e-3,
    stiffness=np.tile(log_stiffness, 2), contact_ids=names,
)  # fmt: skip
print(step)

# %% [markdown]
# ## 5. Solve, and read the certificate
#
# Any solver will do. The certificate is computed from your matrices and the answer alone; each
# line is an error divided by a scale of the problem, and `ok` means that none exceeds 1e-6.

# %%
classic = cdopt.ClassicCD(step).solve("clarabel")
print(f"\n{classic.certificate}")
print("forces:", dict(zip(names, classic.f.round(3).tolist(), strict=True)))

# %% [markdown]
# ## 6. Are these the forces?
#
# By now you know better than to stop here. Ask two more solvers, find the intervals, and let
# equally stiff contacts decide.

# %%
answers = [classic, *(cdopt.ClassicCD(step).solve(name) for name in ("pgs", "lcp"))]
report = cdopt.indeterminacy(step)
compatible = cdopt.CompatibleCD(step).solve("newton")
touching = np.count_nonzero(report.closed)
print(f"\n{touching} forces - {report.rank} equations = nullity {report.nullity}")
for i, name in enumerate(names):
    interval = f"{report.lower[i]:5.2f} N to {report.upper[i]:5.2f} N"
    rivals = ", ".join(f"{answer.backend} {answer.f[i]:.3f}" for answer in answers)
    print(f"{name:>14}: {interval}, compatible {compatible.f[i]:6.3f} N ({rivals})")

# %% [markdown]
# Nine ways to move, but only five equations: the sideways ones say 0 = 0. One free number, as on
# the beam of lesson 1. It reaches through the logs: each presses on the ground with what it
# carries plus its own 5 N. The three solvers pass the certificate and disagree, and one of them
# meets the compatible forces by luck.
#
# ## 7. What a certificate cannot know
#
# Suppose you had written the lever with the wrong sign, the most common mistake.

# %%
wrong_B = B.copy()
wrong_B[2, 2] = -places[2]
slipped = cdopt.ClassicCD(step.replace(B=wrong_B)).solve("newton")
print(f"\nwrong lever: certificate {'ok' if slipped.ok else 'NOT OK'}, {slipped.f.round(2)} N")
print(f"but B is off by {np.abs(wrong_B - measured(q)).max():.2g}")

# %% [markdown]
# The middle log carries the whole plank, and the certificate is ok, because the answer solves the
# problem *as you stated it*. Only step 3 shows whether you stated the right one. Do step 3.
#
# ## 8. Keep it
#
# A step is saved exactly in one file. The command line reads it too: `cdopt solve plank.npz` uses
# every installed solver, `cdopt bounds plank.npz` computes the intervals.

# %%
if __name__ == "__main__":
    step.save("plank.npz")
    again = cdopt.ContactStep.load("plank.npz")
    print(f"\nsaved plank.npz and read it back: {again}")

# %% [markdown]
# ## What happens if…
#
# 1. … the middle log is a little thinner, `radii = np.array([0.10, 0.0995, 0.10])`? Look at the
#    gaps first, then at the count.
# 2. … a box stands on the plank, `box = 10.0`? Which intervals move?
# 3. … the middle log is three times as stiff, `log_stiffness = [1.0, 3.0, 1.0]`? It is not the 2,
#    6, 2 of lesson 4, scaled. What is the effect of the weights of the logs?
# 4. … the logs lie closer together, `places = np.array([-0.5, 0.0, 0.25])`? Does anything but B
#    need to change? What does step 3 say?
#
# A problem of your own may follow: `cdopt problems` lists more to learn from, and the README says
# how to bring contacts of other codes, from a matrix N and a vector p, or from a file.
#
# Next: `07_cannonball_pyramid.py`, where things begin to move.

# %%
if __name__ == "__main__":
    figure = plots.force_bars(
        answers, compatible, step, report=report, title="A plank on three logs",
        subtitle="Band: every force that balance permits. Line: the compatible force. Markers: "
        "three solvers' answers, all certified.",
    )  # fmt: skip
    plots.save(figure, "06_your_own_matrices.png")
    print("The picture is in 06_your_own_matrices.png")
