# %% [markdown]
# # How hard must you squeeze?
#
# You pick up a box of 6 N between finger and thumb. Friction alone holds it. **How hard must you
# squeeze, and what does a third finger change?** The answer depends on whether your fingers push
# with a force you choose, or are clamped like a vice.
#
# You need lesson 15, and from lesson 6 how to write down the matrices of a structure.

# %%
import numpy as np

import cdopt
from cdopt import plots

WEIGHT, PUSH, MU, RADIUS = 6.0, 10.0, 0.5, 0.03  # N, N, 1, m


def hand(fingers, clamped=False):
    """A box between fingers on a horizontal circle; each pushes inward, or is clamped."""
    moving = 0 if clamped else fingers
    normal, tangential = [], []
    for k, angle in enumerate(2 * np.pi * np.arange(fingers) / fingers):
        c, s = np.cos(angle), np.sin(angle)
        inward, around = np.array([-c, -s, 0.0]), np.array([-s, c, 0.0])
        arm = -RADIUS * inward
        for rows, way in ((normal, inward), (tangential, around), (tangential, [0.0, 0.0, 1.0])):
            finger = np.zeros(moving)
            if rows is normal and moving:
                finger[k] = -1.0  # the gap closes as the finger moves inward
            rows.append(np.concatenate([way, np.cross(arm, way), finger]))
    M = np.diag([WEIGHT / 9.81] * 3 + [1e-4] * 3 + [0.1] * moving)
    loads = [0.0, 0.0, -WEIGHT, 0.0, 0.0, 0.0, *[PUSH] * moving]
    friction = cdopt.Friction(MU, tangential)
    return cdopt.ContactStep(
        M, normal, np.zeros(fingers), np.zeros(6 + moving), loads, 1e-3, friction=friction
    )


# %% [markdown]
# ## Fingers that push
#
# Each finger pushes with 10 N, so every normal force is 10 N and friction carries at most 5 N a
# finger. `limit_load` asks how much heavier the box may become: the live load is its weight again.

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
# ## What two fingers cannot do
#
# A live load may be a moment, too. Without the weight: how hard can you twist the box about an axis
# before it turns? Two point fingers resist no moment about the line between them, however hard they
# push. That is why you take a third one.

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
# Three fingers resist a moment about x with fingers 2 and 3 alone, √3 μ P r; about y finger 1
# works against both others, 3/2 μ P r; about z all three, 3 μ P r.
#
# ## Fingers that are clamped
#
# In a vice nobody chooses the force. The same box between clamped fingers: `indeterminacy` says how
# far each force may range, if the box is held. (By Coulomb's law it may as well fall: fingers
# that do not squeeze leave it alone, and that is an answer, too. The associated law has one motion,
# and there the box stays.)

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
# Pushing fingers leave nothing open: every force follows from balance. Two clamped ones carry at
# least W / 2μ = 6 N each, three W / 3μ = 4 N, and any more: fingers that squeeze each other are in
# balance without the box. A simulation that clamps an object prints *some* squeeze; only stiffness,
# or the force of the gripper, can say which.
#
# ## What happens if…
#
# 1. … the box is icy, `MU = 0.1`? How hard must pushing fingers push?
# 2. … two fingers are not opposite each other? Move one by 20°, and find the friction at which the
#    grasp fails.
# 3. … there are four fingers? Which of the numbers above grow, and by hand, to what?
#
# Next: `18_arch.py`, where the line of thrust runs through ten stones.


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
