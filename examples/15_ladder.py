# %% [markdown]
# # How high can you climb a ladder?
#
# A ladder of 5 m and 20 kg leans against a wall, at 60° to the floor. You weigh 80 kg. **How high
# can you climb before it slides?** In the lessons so far contacts had no friction. Here only
# friction holds the ladder.
#
# You need lesson 1 for the word *nullity*.

# %%
import numpy as np

import cdopt
from cdopt import plots

ladder = cdopt.bank.load("ladder", height=0.5).step  # you stand in the middle
print(ladder.friction.mu)  # 0.4 at the foot, 0.2 at the wall

# %% [markdown]
# ## Count
#
# A contact with friction in the plane has two force components, normal and tangential. Two
# contacts have four. The ladder can move sideways, move up and turn: three equations of balance.
# The nullity is 1: how hard the ladder presses against the wall is not determined, within the
# limits of friction at both ends.
#
# By Coulomb's law the friction force is at most μ times the normal force, and equal to this limit
# where the contact slides.

# %%
answers = {name: cdopt.FrictionalCD(ladder).solve(name) for name in ("newton", "nsgs", "clarabel")}
for name, answer in answers.items():
    foot, wall = answer.f
    used = np.abs(answer.f_t.ravel()) / (ladder.friction.mu * answer.f)
    print(f"{name:>9}: floor {foot:.0f} N, wall {wall:.0f} N, friction used {used.round(2)}")

# %% [markdown]
# Every answer is certified, and in every answer the ladder stays at rest. Yet the answers differ
# in how hard it presses against the wall: the data do not determine how the two ends share the
# load.
#
# ## Climb
#
# Now climb until the ladder slides. Whether it slides is unique, although the forces are not.


# %%
def slides(height, **changes):
    """Whether the ladder slides when you stand at this share of its length."""
    step = cdopt.bank.load("ladder", height=height, **changes).step
    return np.abs(cdopt.FrictionalCD(step).solve("newton").slip).max() > 1e-7  # m/s


def highest(**changes):
    """The share of the length at which the ladder starts to slide; 1 if it never does."""
    low, high = 0.0, 1.0
    if not slides(high, **changes):
        return high
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slides(middle, **changes) else (middle, high)
    return low


limit = highest()
print(f"you can climb {100 * limit:.1f} % of the ladder")

# %% [markdown]
# ## By hand
#
# Just before the ladder slides, friction is at its limit at both ends, so that the forces are
# determined. With N the normal force of the floor, H that of the wall and W the total weight: H =
# μ_f N and N + μ_w H = W, with μ_f at the floor and μ_w at the wall. The balance of moments about
# the foot gives the height.

# %%
floor, wall, slope = 0.4, 0.2, np.tan(np.radians(60.0))
pressed = floor * 100.0 / (1.0 + floor * wall)  # kg, what the wall carries
by_hand = (pressed * (slope + wall) - 0.5 * 20.0) / 80.0
print(f"by hand: {100 * by_hand:.1f} %")

# %% [markdown]
# This is for a ladder without thickness. The one above is 2 cm thick: it touches floor and wall
# with its lower edges. You stand on its upper side, 2 cm away, and its own weight acts at
# mid-thickness, 1 cm away. Both weights therefore act further from the wall, which lets you climb
# a little higher.

# %%
away = (80.0 * 0.02 + 20.0 * 0.01) / 80.0  # m across the ladder, both weights as one on you
thick = by_hand + away * slope / 5.0
print(f"by hand, 2 cm thick: {100 * thick:.1f} %")

# %% [markdown]
# ## What helps?
#
# A rougher wall helps little. A rougher floor or a steeper ladder helps much more.

# %%
cases = {
    "as it is": {},
    "a smooth wall": {"wall_friction": 0.0},
    "a rough wall": {"wall_friction": 0.4},
    "a rough floor": {"floor_friction": 0.6},
    "70° steep": {"angle": 70.0},
}
heights = {name: highest(**changes) for name, changes in cases.items()}
for name, height in heights.items():
    print(f"{name:>15}: {100 * height:.0f} %")

# %% [markdown]
# ## What happens if…
#
# 1. … you weigh half or twice as much? Compare `highest(climber=40.0)` and
#    `highest(climber=160.0)`. Why can a lighter person climb higher?
# 2. … the floor is ice, `floor_friction=0.05`? Is there any wall friction that holds the ladder?
# 3. … you use the associated law, `cdopt.FrictionalCD(step, "associated")`? Does the height at
#    which the ladder starts to slide change, and how does the sliding ladder move?
#
# Next: `16_quasicontinuum.py`, where a few hundred discs represent ten thousand.


# %%
def draw():
    """How high you can climb in each case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.barh(list(heights), [100 * height for height in heights.values()], color="#6f8fb0")
    axes.set(xlim=(0, 100), xlabel="how high you can climb, % of the ladder")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "15_ladder.png")
    print("\nThe picture is in 15_ladder.png")
