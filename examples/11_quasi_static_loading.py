# %% [markdown]
# # How much load can a pile bear?
#
# Put a load on a pile and increase it step by step. **At which load does the pile collapse, and
# what determines it?** With rigid balls one can only ask whether *some* forces balance the load.
# Lesson 10 replaced the balls' contacts by stiff springs. Here we load such springs slowly until
# the pile collapses.
#
# Slow loading means that inertia is negligible. At every load the balls are in the position of
# least energy: the elastic energy of all contacts, plus the potential energy of the weights,
# minus the work of the load. Finding this position is a convex problem as long as displacements
# are small. Where they are not, `cdopt.dynamics.equilibrium` linearises the gaps again at the new
# positions and repeats, until the forces of the exact gaps balance the load.
#
# You need lessons 7 and 10. This lesson is in the plane and without friction.

# %%
import loading
import numpy as np

from cdopt import plots

stiffness = 1e6  # N/m, of a disc's half of a contact; two discs share half of it
rows = 3  # of the pile, the fixed one included

# %% [markdown]
# ## One disc on two
#
# A disc lies in the notch between two fixed ones. If its centre is at height h above the centres
# of the fixed discs, the two contacts push it up with 2 k (d − ρ) h/ρ, where ρ is the distance
# between the centres of two touching discs and d their diameter. This force has a *maximum* over
# h, 0.450 k d. The notch bears no larger load: a heavier disc is pressed through. The experiment
# increases the load step by step. When no equilibrium is found, it halves the last step, until
# the limit is known accurately.

# %%
k, d = stiffness / 2.0, 0.02  # N/m, m
notch = loading.disc_pile(2, diameter=d, stiffness=stiffness)
weight = notch.bodies.mass[-1] * 9.81  # N, of one disc
rho = d * 0.25 ** (1 / 3)
limit = 2 * k * (d / rho - 1) * np.sqrt(rho**2 - d**2 / 4) - weight
one = loading.press(notch, np.linspace(0.4, 1.2, 5) * limit)
print(f"one disc on two: bears {one.collapse[0]:.0f} N, not {one.collapse[1]:.0f} N; "
      f"by the formula {limit:.0f} N")  # fmt: skip
print(one.failure)

# %% [markdown]
# ## A pile of them
#
# Now place three discs in a row, two on them, and one on top, and load the top disc. Each disc
# lies in a notch like the one above, and each notch carries about half of the load. Does the pile
# then bear about as much as a single notch?


# %%
def collapse(half, rows=rows, density=2000.0):
    """The record of a pile that is loaded until it collapses."""
    pile = loading.disc_pile(rows, diameter=d, stiffness=half, density=density)
    w = pile.bodies.mass[-1] * 9.81
    scale = np.sqrt(w * half / 2 * d)
    return loading.press(pile, np.linspace(0.2, 1.4, 7) * scale)


pile = collapse(stiffness)
held = pile.collapse[0]  # N
print(f"a pile of {rows:,} rows: bears {held:.0f} N, 1/{limit / held:.0f} of one notch")
print(pile.failure)

# %% [markdown]
# Look at the picture. The load is carried along two straight lines of discs, from the top to the
# ends of the base. A disc inside such a line is compressed from both sides, like the joint of a
# folding ruler that is pushed at its ends: as soon as the line bends slightly, the compression
# bends it further. No contact supports the line from outside. Only the weight of the disc opposes
# the motion, because the disc would have to rise.
#
# The compression itself causes the bend: a load P shortens the line by about P/k, and so turns it
# by an angle of about P/(kd). The force P in the turned line has the outward component P²/(kd),
# which the weight W must balance. So the pile should bear a load proportional to √(Wkd): it grows
# with the stiffness and with the weight of the discs.

# %%
halves = stiffness * np.array([1.0, 100.0, 10_000.0])
borne = [np.mean(collapse(half).collapse) for half in halves]
exponent = np.polyfit(np.log(halves), np.log(borne), 1)[0]
for half, load in zip(halves, borne, strict=True):
    scale = np.sqrt(weight * half / 2 * d)
    print(f"stiffness {half:8.0e} N/m: bears {load:7.0f} N = {load / scale:.2f} √(W k d)")
print(f"load ∝ stiffness to the power {exponent:.3f}")

# %% [markdown]
# It follows that rigid discs would bear *any* load: forces along straight lines balance every
# load. The forces of elastic discs do tend to a rigid limit (lesson 10), but rigid discs do not
# show this collapse.
#
# ## A box of grains
#
# In the biaxial test of soil mechanics the side walls apply a constant stress while the top wall
# moves down. Here the sample is thirty discs of random sizes. The right wall is not fixed: its
# position is one more unknown, and its load is stress times area. So each step is again a single
# minimisation, over the positions of discs and wall together.

# %%
stress = 2e3  # Pa, on the side walls
box = loading.disc_box(30, stiffness=stiffness, seed=0)
test = loading.biaxial(box, stress, strain=0.04, steps=32)
off = np.abs(test.lateral_stress / stress - 1).max()
print(f"\nlargest relative error of the side stress: {off:.0e}")
for j in range(0, 33, 8):
    print(f"axial strain {test.axial_strain[j]:.1%}: deviator {test.deviator[j]:6.0f} Pa, "
          f"{test.contacts[j]:,} contacts, {test.gained[:j + 1].sum():2} closed and "
          f"{test.lost[:j + 1].sum():2} opened so far")  # fmt: skip

# %% [markdown]
# The curve is not smooth. Between two changes of the contact network the box responds like a
# spring. Then a contact opens, some discs lose their support, and they move to another
# equilibrium. Is the energy released by such a slip lost? Compute the work of all walls, and
# subtract the energy that is still stored.

# %%
steps = np.diff(test.dissipated)
slip = int(np.argmax(np.abs(np.diff(test.energy))))
quiet = (test.gained + test.lost)[1:] == 0
idle = np.abs(steps[quiet]).max() / test.energy.mean()
print(f"steps without a change of contacts lose at most {idle:.1e} of the energy")
print(f"the largest slip, step {slip + 1}: elastic energy {test.energy[slip]:.4f} J before, "
      f"{test.energy[slip + 1]:.4f} J after")  # fmt: skip

# %% [markdown]
# As long as the network does not change, no energy is lost, apart from the error of the
# trapezoidal rule for the work. All losses occur in slips, although the discs have no friction:
# real discs would vibrate until the energy is dissipated, and the quasi-static method leaves this
# motion out. Throughout the test there are about two contacts for each disc, as many as it has
# degrees of freedom, for the reason given in lesson 9.
#
# ## What happens if…
#
# 1. … the pile has more rows, `rows = 4`? It is heavier. Does it bear more?
# 2. … the contacts follow Hertz's law? Give `disc_pile` the argument `power=2.5` and a stiffness
#    of 1e8 Pa. To which power of the stiffness is the load proportional?
# 3. … you compress the box and release it again? `loading.compress(box, "top", [...])` takes a
#    list of strains, increasing and then decreasing. Up to which strain is the process
#    reversible?
#
# Next: `12_intervals.py`, on statements about forces that hold for every solver.


# %%
def draw():
    """The pile before and at its last load."""
    return loading.loading_path(
        pile,
        title="A pile under a growing load",
        subtitle="Two straight lines of discs carry the load; only weight keeps them straight.",
    )


if __name__ == "__main__":
    plots.save(draw(), "11_quasi_static_loading.png")
    print("\nThe picture is in 11_quasi_static_loading.png")
