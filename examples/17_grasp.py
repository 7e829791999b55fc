# %% [markdown]
# # How hard must you squeeze to hold a box?
#
# You pick up a box of 6 N between finger and thumb. Friction alone holds it. **How hard must you
# squeeze, and what does a third finger change?** The answer depends on whether your fingers push
# with a given force, or are clamped at a given distance, as in a vice.
#
# You need lesson 15 for friction, and lesson 6 for the matrices of a structure.

# %%
import numpy as np

import cdopt
from cdopt import plots

WEIGHT, PUSH, MU, RADIUS = 6.0, 10.0, 0.5, 0.03  # N, N, 1, m


def hand(fingers, clamped=False):
    """A box between fingers on a horizontal circle; each pushes inward, or is clamped."""
    driven = 0 if clamped else fingers
    normal, tangential = [], []
    for k, angle in enumerate(2 * np.pi * np.arange(fingers) / fingers):
        c, s = np.cos(angle), np.sin(angle)
        inward, around = np.array([-c, -s, 0.0]), np.array([-s, c, 0.0])
        arm = -RADIUS * inward
        for rows, way in ((normal, inward), (tangential, around), (tangential, [0.0, 0.0, 1.0])):
            finger = np.zeros(driven)
            if rows is normal and driven:
                finger[k] = -1.0  # the gap closes as the finger moves inward
            rows.append(np.concatenate([way, np.cross(arm, way), finger]))
    M = np.diag([WEIGHT / 9.81] * 3 + [1e-4] * 3 + [0.1] * driven)
    loads = [0.0, 0.0, -WEIGHT, 0.0, 0.0, 0.0, *[PUSH] * driven]
    friction = cdopt.Friction(MU, tangential)
    return cdopt.ContactStep(
        M, normal, np.zeros(fingers), np.zeros(6 + driven), loads, 1e-3, friction=friction
    )


# %% [markdown]
# ## Fingers that push
#
# Each finger pushes with 10 N, so every normal force is 10 N, and the friction of each finger is
# at most 5 N. `limit_load` computes how much heavier the box may become: the live load is its
# weight again.

# %%
heaviest = {}
for fingers in (2, 3):
    step = hand(fingers)
    lift = np.zeros(step.nv)
    lift[2] = -WEIGHT
    limit = cdopt.limit_load(step, lift)
    heaviest[fingers] = WEIGHT * (1.0 + limit.value)
    print(f"{fingers} fingers hold {heaviest[fingers]:.3f} N, by hand {fingers * MU * PUSH:.0f} N")

# %% [markdown]
# ## Moments that two fingers cannot resist
#
# A live load may also be a moment. Remove the weight: which moment about an axis can the grasp
# resist before the box turns? Two point fingers resist no moment about the line between them,
# however hard they push. A third finger does.

# %%
twists = {}
for fingers in (2, 3):
    step = hand(fingers)
    dead = np.array(step.F_ext)
    dead[2] = 0.0
    for axis, name in enumerate("xyz"):
        moment = np.zeros(step.nv)
        moment[3 + axis] = 1.0
        limit = cdopt.limit_load(step.replace(F_ext=dead), moment)
        twists[fingers, name] = max(limit.value, 0.0)
    row = ", ".join(f"{name} {1000 * twists[fingers, name]:.1f}" for name in "xyz")
    print(f"{fingers} fingers resist moments about {row} N mm")

r = 1000 * RADIUS * MU * PUSH
print(f"by hand: 2 fingers 0, {2 * r:.1f}, {2 * r:.1f}")
print(f"         3 fingers {np.sqrt(3) * r:.1f}, {1.5 * r:.1f}, {3 * r:.1f}")

# %% [markdown]
# With three fingers, fingers 2 and 3 alone resist a moment about x, up to √3 μ P r, where P is
# the push and r the radius of the box. About y finger 1 works against the other two, up to 3/2 μ
# P r. About z all three work together, up to 3 μ P r.
#
# ## Fingers that are clamped
#
# In a vice the normal force is not given. For the same box between clamped fingers
# `indeterminacy` computes the range of each force if the box is held. (Under Coulomb's law the
# box may also fall: fingers without normal force have no friction, and this is a solution too.
# The associated law has a unique motion, in which the box stays at rest.)

# %%
reports = {}
for fingers in (2, 3):
    for clamped in (False, True):
        report = cdopt.indeterminacy(hand(fingers, clamped), law="associated")
        reports[fingers, clamped] = report
        low, high = report.lower[0], report.upper[0]
        kind = f"{fingers} {'clamped' if clamped else 'pushing'} fingers"
        print(f"{kind}: dimension {report.dimension}, normal {low:.2f} to {high:.2f} N")

# %% [markdown]
# With pushing fingers every force follows from balance. Two clamped fingers carry at least W / 2μ
# = 6 N each, three at least W / 3μ = 4 N, and there is no upper bound: fingers that press against
# each other through the box are in balance without its weight. A simulation that clamps an object
# returns *some* normal force; only stiffness, or the force of the gripper, determines which one.
#
# ## What happens if…
#
# 1. … the box is slippery, `MU = 0.1`? How hard must the fingers push?
# 2. … two fingers are not opposite each other? Move one by 20°, and find the friction coefficient
#    below which the grasp fails.
# 3. … there are four fingers? Which of the numbers above grow? Compute them by hand.
#
# Next: `18_arch.py`, on the thrust line of an arch of ten stones.


# %%
def draw():
    """The moments that both grasps resist."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    for shift, (fingers, colour) in zip((-0.2, 0.2), ((2, "#D55E00"), (3, "#0072B2")), strict=True):
        values = [1000 * twists[fingers, name] for name in "xyz"]
        axes.bar(np.arange(3) + shift, values, 0.4, color=colour, label=f"{fingers} fingers")
    axes.set_xticks(range(3), ["about x\n(finger 1)", "about y", "about z\n(vertical)"])
    axes.set_ylabel("moment resisted [N mm]")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "17_grasp.png")
    print("\nThe picture is in 17_grasp.png")
