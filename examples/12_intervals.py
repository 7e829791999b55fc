# %% [markdown]
# # What one can say for certain
#
# Balance leaves forces open, and each solver picks one answer (lesson 5). An engineer who signs a
# report needs a statement that is true *whatever* the answer is. **How large may a force be, and
# how does one prove that it is not larger?**
#
# You need lessons 1 and 5.

# %%
import cvxpy as cp
import numpy as np

import cdopt
from cdopt import bank, plots

courses, bricks = 3, 2  # of the wall below: rows, and bricks in a row

# %% [markdown]
# ## A proof is a motion
#
# The beam of lesson 1 weighs 10 N and lies on three supports. The left one carries 0 to 5 N. That
# 5 N are possible is shown by an answer: 5, 0, 5. That *more* is impossible is shown by a motion.
# Turn the beam about its right end until the left end has risen by 1. Its middle has risen by a
# half. In any motion the work of the supports equals the work against the weight:
#
# 10 · ½ = left · 1 + middle · ½ + right · 0.
#
# Supports push, so the middle's share is not negative, and the left one gives 5 at most. The
# proof is one line, and needs no solver.

# %%
beam = bank.generators.beam()
motion = np.array([0.5, -1.0])  # rise of the centre, and turn; the left end is at -0.5
work = float(-beam.F_ext @ motion)
print(f"supports open by {beam.B @ motion}: the left force is at most {work:g} N")

report = cdopt.indeterminacy(beam)
print(f"least {report.lower}, largest {report.upper} N")

# %% [markdown]
# `cdopt.indeterminacy` looks for the best such motion and the best such answer for each contact:
# two linear programs, each the other's dual. Where both give the same number, it is the end of the
# interval, and certain.
#
# ## A wall
#
# Each brick lies on two bricks and touches each at both ends of the face that they share. Bricks
# that stand side by side touch too.

# %%
scene = cdopt.scene.brick_wall(courses, bricks)
contacts = cdopt.collision.detect(scene, scene.initial)
wall = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
bounds = cdopt.indeterminacy(wall)
weight = float(-wall.F_ext[1::3].sum())  # N
certain = bounds.unique
needed = bounds.lower > bounds.floor  # contacts that carry, whatever the answer is
print(f"\n{wall.nc:,} contacts, {bounds.nullity:,} numbers free, the wall weighs {weight:.0f} N")
print(f"determined: {np.count_nonzero(certain)}, all of them {bounds.upper[certain].max():.0f} N")
print(f"carry in every answer: {np.count_nonzero(needed)} of {np.count_nonzero(~certain)} others")
print(f"widest interval: {bounds.lower[bounds.width.argmax()]:.0f} to "
      f"{bounds.upper[bounds.width.argmax()]:.0f} N")  # fmt: skip

# %% [markdown]
# That is already a report. Bricks do not press on each other sideways: nothing pushes along the
# wall. All three kinds of statement hold for every solver and every stiffness: *this contact
# carries nothing*, *this one carries at least so much*, *this one may open*.
#
# ## Sums may be certain where single forces are not
#
# Ask about what you need. Any sum of forces has an interval too, and it is a linear program that
# CVXPY takes as it stands.

# %%
force = cp.Variable(wall.nc, nonneg=True)  # N, any that push …
balance = [wall.B.T @ force == -wall.F_ext]  # … and balance


def limits(chosen):
    """Least and largest sum of the forces of these contacts, N."""
    total = cp.sum(force[chosen])
    ways = (cp.Minimize, cp.Maximize)
    return [float(cp.Problem(way(total), balance).solve("HIGHS")) for way in ways]


floor = np.flatnonzero([pair[0] == 0 for pair in wall.bodies])
first = floor[:2]  # both under the first brick
print(f"\nfloor: {limits(floor)[0]:.0f} to {limits(floor)[1]:.0f} N")
print(f"first brick: {limits(first)[0]:.0f} to {limits(first)[1]:.0f} N")
for i in first:
    print(f"one of its two contacts: {bounds.lower[i]:.0f} to {bounds.upper[i]:.0f} N")

# %% [markdown]
# The floor as a whole carries the wall, exactly. And a sum is known better than its parts: adding
# the ends of two intervals would give a wider one than the interval of the sum, because the
# forces are not free of each other. Lesson 13 looks at them together.
#
# ## Without end
#
# A ball that fits exactly between two walls may be pressed by both as hard as you like: no balance
# forbids it. The interval has no upper end, and the proof is not a motion but a *pattern of forces*
# that loads nothing, and can be added to any answer.

# %%
wedged = cdopt.ContactStep(M=[[1]], B=[[1], [-1]], phi=[0, 0], v=[0], F_ext=[0], dt=1e-3)
stuck = cdopt.indeterminacy(wedged)
print(f"\nbetween two walls: up to {stuck.upper} N; what cancels: {stuck.rays[0]}")

# %% [markdown]
# So if a solver returns a force of the walls, it tells you about the solver, not about the walls.
#
# ## What happens if…
#
# 1. … you seek a motion that proves the *middle* support's 10 N? What does the beam do in it?
# 2. … the wall is higher, `courses = 4`? Which contacts carry in every answer now?
# 3. … you ask for the first brick's *turning* load, the difference of its two contacts? Change
#    `limits`.
# 4. … the ball between the walls weighs 1 N and the walls are a V, one force 45° to the left and
#    one 45° to the right? Is there still no end?
#
# Next: `13_force_network_ensemble.py`, where no answer is chosen at all.


# %%
def draw():
    """The wall's intervals, and two certified answers in them."""
    chosen = cdopt.compare(wall, ["pgs", "lcp"])
    return plots.force_intervals(
        bounds,
        chosen,
        chosen.compatible,
        title="What a wall's joints may carry",
        subtitle=f"{wall.nc:,} contacts of {courses} courses of bricks. Bands hold every answer; "
        "dots are what two solvers report, lines what elastic bricks carry.",
    )


if __name__ == "__main__":
    plots.save(draw(), "12_intervals.png")
    print("\nThe picture is in 12_intervals.png")
