# %% [markdown]
# # How high can you climb?
#
# A ladder of 5 m and 20 kg leans against a wall at 60° from the floor. You weigh 80 kg. **How high
# can you climb before it slides?** All lessons before this one had smooth contacts; here friction
# holds the ladder, and nothing else does.
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
# A contact with friction has two forces in the plane: normal, and along the surface. Two contacts
# have four. A ladder can move sideways, up and turn: three equations. The nullity is 1: the ladder
# may press against the wall more or less, as long as friction at both ends permits it.
#
# Coulomb's law says what friction permits: at most μ times the normal force, and exactly that
# where the contact slides.

# %%
answers = {name: cdopt.FrictionalCD(ladder).solve(name) for name in ("newton", "nsgs", "clarabel")}
for name, answer in answers.items():
    foot, wall = answer.f
    used = np.abs(answer.f_t.ravel()) / (ladder.friction.mu * answer.f)
    print(f"{name:>9}: floor {foot:.0f} N, wall {wall:.0f} N, friction used {used.round(2)}")

# %% [markdown]
# Every answer is certified, and every one says that the ladder stands. Yet they differ in how hard
# it presses against the wall: nothing in the statement says how the two ends share the load.
#
# ## Climb
#
# Now climb until it slides. Whether it does is unique, although the forces are not.


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
# Just before it slides, friction is used up at both ends, so that the forces are determined after
# all: N floor, H wall, H = μ_f N and N + μ_w H = W. Moments about the foot give the height.

# %%
floor, wall, slope = 0.4, 0.2, np.tan(np.radians(60.0))
pressed = floor * 100.0 / (1.0 + floor * wall)  # kg, what the wall carries
by_hand = (pressed * (slope + wall) - 0.5 * 20.0) / 80.0
print(f"by hand: {100 * by_hand:.1f} %")

# %% [markdown]
# That is a thin ladder. The one above is 2 cm thick: it touches floor and wall with its lower
# edges, you stand on its upper side, 2 cm away, and its own weight is in its middle, 1 cm away.
# Both act that much farther from the wall, and you may climb as much higher as makes up for it.

# %%
away = (80.0 * 0.02 + 20.0 * 0.01) / 80.0  # m across the ladder, both weights as one on you
thick = by_hand + away * slope / 5.0
print(f"by hand, 2 cm thick: {100 * thick:.1f} %")

# %% [markdown]
# ## What helps?
#
# A rough wall hardly helps; a rough floor does, and so does a steeper ladder.

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
#    `highest(climber=160.0)`: why does the lighter one get higher?
# 2. … the floor is ice, `floor_friction=0.05`? Can any wall hold the ladder?
# 3. … you ask for the associated law, `cdopt.FrictionalCD(step, "associated")`? Does it change when
#    the ladder starts to slide, and what does it do to the sliding ladder?
#
# Next: `16_quasicontinuum.py`, where a few hundred discs stand for ten thousand.


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
