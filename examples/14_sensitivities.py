# %% [markdown]
# # Which leg moves which force
#
# Stiffness decides what balance leaves open (lessons 3 and 4). No leg's stiffness is known exactly,
# so: **if one leg were a little stiffer, which forces would change, and by how much?** And the
# other way round: if you measure the forces, do they tell you how stiff the legs are?
#
# You need lesson 3.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots
from cdopt.plots import stiffness_influence

weight = 10.0  # N
legs = ["front left", "front right", "back right", "back left"]
table = bank.generators.table().replace(contact_ids=legs)
B = table.B.toarray()


def load_at(x, y):
    """What the legs must deliver when the whole weight acts at (x, y), m from the middle."""
    return np.array([weight, weight * y, -weight * x])


# %% [markdown]
# ## One leg, four forces
#
# Put the weight off the middle, at (0.2, 0.1) m. The compatible forces are 1, 3, 4 and 2 N.
# `cdopt.sensitivity` differentiates them with respect to the logarithm of each leg's stiffness.
# If leg j gets 1 % stiffer, force i grows by a hundredth of the number in row i and column j.

# %%
truss = cdopt.NoTensionTruss(B, load_at(0.2, 0.1))
slopes = cdopt.sensitivity(truss)
print("forces:", dict(zip(legs, slopes.f.round(6).tolist(), strict=True)), "N")
print(slopes.log_stiffness.round(3) + 0.0)

# %% [markdown]
# Read a column: a stiffer leg takes more load, the leg opposite gains just as much, and the other
# two lose it. There is one free number, so nothing else can happen. Read a row: it adds up to
# zero. If *all* legs get stiffer by the same share, no force changes, because forces depend only
# on ratios.
#
# The column of the leg that carries most has the largest numbers. An empty leg's stiffness would
# change nothing.
#
# ## Is it true?
#
# Make the back right leg 1 % stiffer, solve again, compare.

# %%
stiffer = np.array([1.0, 1.0, 1.01, 1.0])
again = cdopt.NoTensionTruss(B, load_at(0.2, 0.1), stiffer).solve("newton").f
predicted = slopes.f + slopes.log_stiffness @ np.log(stiffer)
print(f"\npredicted {predicted.round(6)} N\ncomputed  {again.round(6)} N")
missed = np.abs(again - predicted).max()

# %% [markdown]
# The prediction misses by about the square of a hundredth, as a first derivative should. It costs
# no second solution: the conditions that the forces obey are linear in small changes, and one
# linear system answers for all legs. It also answers for the load, for the power of the contact
# law, and backwards, for any number made of forces (`slopes.load`, `slopes.power`,
# `slopes.gradient`).
#
# ## Where there is no derivative
#
# Move the weight outwards along the diagonal until the front left leg carries nothing and is just
# not lifted. Push on, and it stays at nothing. Pull back, and it takes up load. The derivative
# differs between the two sides: there is no matrix, but a derivative *along a direction*.

# %%
edge = cdopt.sensitivity(cdopt.NoTensionTruss(B, load_at(0.25, 0.25)))
outwards = load_at(1.0, 1.0) - load_at(0.0, 0.0)
print(f"\njust touching: {[legs[i] for i in edge.touching]}")
for name, way in (("outwards", outwards), ("inwards", -outwards)):
    print(f"{name:>9}: {edge.along(load=way).round(4) + 0.0} N per m")

# %% [markdown]
# ## Backwards: stiffness from forces
#
# Now suppose that one leg is soft, nobody knows which, and there are scales under the legs. One
# measurement: the forces under one load. Does it tell the stiffness of all four?

# %%
truth = np.array([1.0, 1.0, 1.0, 0.4])  # back left is soft
places = [(0.0, 0.0), (0.15, 0.05), (-0.05, -0.1), (0.05, -0.1)]  # m
loads = np.array([load_at(*place) for place in places])
rng = np.random.default_rng(0)
forces = np.array([cdopt.NoTensionTruss(B, F, truth).solve("newton").f for F in loads])
measured = forces + 0.01 * rng.standard_normal(forces.shape)  # scales are off by 10 mN

recovered = {}
for count in (1, 2, 3, 4):
    recovered[count] = cdopt.recover_stiffness(B, loads[:count], measured[:count])
    print(f"\n{count} loads: {recovered[count].rank} of 3 combinations of ratios determined")
    for i, leg in list(enumerate(legs))[1:]:
        ratio, error = recovered[count].ratio(i, 0)
        known = f"{ratio:.3f}, to {error:.0%}" if np.isfinite(error) else "not determined"
        print(f"{leg:>12} over {legs[0]}: {known}")

# %% [markdown]
# One load determines *one* combination, because there is one self-stress state: what forces tell
# of stiffness, they tell through the free numbers. Four legs have three ratios, so three loads
# are needed, at different places. (They are chosen so that no leg lifts. One that does carries
# nothing, whatever its stiffness, and the other three are a stool: such a load tells nothing.)
# The common factor cannot be determined: the forces are the same for legs of rubber and of steel.
#
# The fourth load makes the answer better, and the soft leg is found: `cdopt.recover_stiffness`
# says itself to how many per cent. On a stool with three legs no number of loads would determine
# the stiffness.
#
# ## What happens if…
#
# 1. … all four loads act at one place? Put `places = [(0.15, 0.05)] * 4`.
# 2. … the scales are ten times better, or ten times worse?
# 3. … the contacts obey Hertz? Give `NoTensionTruss` `power=2.5`, and `recover_stiffness` too. And
#    if you forget the second?
#
# Next: `15_ladder.py`, where contacts are rough.


# %%
def draw():
    """The table of influences."""
    return stiffness_influence(
        slopes,
        legs,
        title="A stiffer leg, four forces",
        subtitle="A table whose weight acts at (0.2, 0.1) m: forces 1, 3, 4 and 2 N.",
    )


if __name__ == "__main__":
    plots.save(draw(), "14_sensitivities.png")
    print("\nThe picture is in 14_sensitivities.png")
