# %% [markdown]
# # How much does it bear?
#
# Put a load on a pile, and more, and more. **When does it give way, and what decides?** With rigid
# balls one could only ask whether *some* forces balance the load. Lesson 10 made the balls springs,
# however stiff; now we squeeze them, slowly, until something gives.
#
# Slowly means: without inertia. At every load the balls sit where their energy is least: elastic
# energy of all contacts, plus height times weight, minus what the load has gained. To find that
# place is a convex problem as long as balls hardly move; where they do,
# `cdopt.dynamics.equilibrium` states it again from the new places, until the true forces balance.
#
# You need lessons 7 and 10. All is in the plane and without friction.

# %%
import loading
import numpy as np

from cdopt import plots

stiffness = 1e6  # N/m, of a disc's half of a contact; two discs share half of it
rows = 3  # of the pile, the fixed one included

# %% [markdown]
# ## One disc on two
#
# A disc lies in the notch between two fixed ones. At height h it is pushed up by the two contacts
# with 2 k (d − ρ) h/ρ, where ρ is the distance of centres. That formula has a *largest* value,
# 0.450 k d. Nothing heavier can lie there: the disc is pressed through. The experiment loads it
# step by step and, when no rest is found, halves the last step until the limit is known.

# %%
k, d = stiffness / 2.0, 0.02  # N/m, m
notch = loading.disc_pile(2, diameter=d, stiffness=stiffness)
weight = notch.bodies.mass[-1] * 9.81  # N, of one disc
rho = d * 0.25 ** (1 / 3)
limit = 2 * k * (d / rho - 1) * np.sqrt(rho**2 - d**2 / 4) - weight
one = loading.press(notch, np.linspace(0.4, 1.2, 5) * limit)
print(f"one disc on two: held {one.collapse[0]:.0f} N, not {one.collapse[1]:.0f} N; "
      f"by the formula {limit:.0f} N")  # fmt: skip
print(one.failure)

# %% [markdown]
# ## A pile of them
#
# Now three discs in a row, two on them, one on top, and the load on the top. Each disc lies in a
# notch like that one, and each notch carries about half of the load. So the pile should bear about
# as much?


# %%
def collapse(half, rows=rows, density=2000.0):
    """The record of a pile that is loaded until it falls."""
    pile = loading.disc_pile(rows, diameter=d, stiffness=half, density=density)
    w = pile.bodies.mass[-1] * 9.81
    scale = np.sqrt(w * half / 2 * d)
    return loading.press(pile, np.linspace(0.2, 1.4, 7) * scale)


pile = collapse(stiffness)
held = pile.collapse[0]  # N
print(f"a pile of {rows:,} rows: held {held:.0f} N, a {limit / held:.0f}th of the notch alone")
print(pile.failure)

# %% [markdown]
# Look at the picture. The load runs down along two straight lines of discs, from the top to the
# ends of the base. A disc inside such a line is squeezed from both sides, like the joint of a
# folding ruler that you push at its ends: the least bend, and the push itself bends it further.
# No contact holds it straight, for outside there is none, but its own weight, which would have to
# be lifted.
#
# The bend comes from the squeeze: a load P shortens the line by P/k, and turns it by P/(k d). The
# turned force drives the disc outwards with P · P/(k d), against a weight W. So the pile should
# bear a load that grows as √(W k d): stiffer discs hold more, and so do heavier ones.

# %%
halves = stiffness * np.array([1.0, 100.0, 10_000.0])
borne = [np.mean(collapse(half).collapse) for half in halves]
exponent = np.polyfit(np.log(halves), np.log(borne), 1)[0]
for half, load in zip(halves, borne, strict=True):
    scale = np.sqrt(weight * half / 2 * d)
    print(f"stiffness {half:8.0e} N/m: bears {load:7.0f} N = {load / scale:.2f} √(W k d)")
print(f"load ∝ stiffness to the power {exponent:.3f}")

# %% [markdown]
# Rigid discs, then, would bear *anything*: their forces, along straight lines, balance every load.
# The rigid limit of the forces is real (lesson 10), but of this collapse it knows nothing.
#
# ## A box of grains
#
# Engineers put soil in a press: side walls under a constant stress, the top comes down. Here are
# thirty discs of random sizes. The right wall is no fixed wall but one more unknown, its place; its
# load is stress times area. So a step is again one minimisation, over discs and wall together.

# %%
stress = 2e3  # Pa, on the side walls
box = loading.disc_box(30, stiffness=stiffness, seed=0)
test = loading.biaxial(box, stress, strain=0.04, steps=32)
off = np.abs(test.lateral_stress / stress - 1).max()
print(f"\nthe side stress is held to {off:.0e} of itself")
for j in range(0, 33, 8):
    print(f"axial strain {test.axial_strain[j]:.1%}: deviator {test.deviator[j]:6.0f} Pa, "
          f"{test.contacts[j]:,} contacts, {test.born[:j + 1].sum():2} born and "
          f"{test.lost[:j + 1].sum():2} lost so far")  # fmt: skip

# %% [markdown]
# It is not a smooth curve. Between two changes of the network the box is a spring; then a contact
# opens, some discs are held no more, and they slip to another rest. Is the energy of such a slip
# gone? Take the work of all walls, and subtract what is still stored.

# %%
steps = np.diff(test.dissipated)
slip = int(np.argmax(np.abs(np.diff(test.energy))))
quiet = (test.born + test.lost)[1:] == 0
idle = np.abs(steps[quiet]).max() / test.energy.mean()
print(f"steps without a change of contacts: at most {idle:.1e} of the energy lost")
print(f"the largest slip, step {slip + 1}: elastic energy {test.energy[slip]:.4f} J before, "
      f"{test.energy[slip + 1]:.4f} J after")  # fmt: skip

# %% [markdown]
# Without a change nothing is lost but the error of the trapezoidal rule for the work. What is lost,
# is lost in slips, though discs have no friction: in truth they would rattle for a while, and that
# while is left out here. And all the time there are about two contacts for each disc, as many as it
# has ways to move: lesson 9 told why.
#
# ## What happens if…
#
# 1. … the pile has more rows, `rows = 4`? It has more weight. Does it bear more?
# 2. … the discs obey Hertz? Give `disc_pile` the argument `power=2.5` and a stiffness of 1e8 Pa.
#    Which power of the stiffness do you expect?
# 3. … you press the box and let it go again: `loading.compress(box, "top", [...])` takes a list of
#    strains, there and back. How small must they be for the way back to be the way there?
#
# Next: `12_intervals.py`, on what can be said for certain.


# %%
def draw():
    """The pile before and at its last load."""
    return loading.loading_path(
        pile,
        title="A pile under a growing load",
        subtitle="It bears its load along two straight lines, which weight alone keeps straight.",
    )


if __name__ == "__main__":
    plots.save(draw(), "11_quasi_static_loading.png")
    print("\nThe picture is in 11_quasi_static_loading.png")
