# %% [markdown]
# # All answers at once
#
# Balance does not determine contact forces, and each solver returns one answer (lesson 5).
# Another idea is to consider *all* sets of forces that push and balance, each as likely as any
# other, and to ask what is typical. **What would you expect of a contact if you knew nothing but
# balance?** Snoeijer, Vlugt, van Hecke and van Saarloos asked this in
# [2004](https://doi.org/10.1103/PhysRevLett.92.054302) and called it the *force network
# ensemble*.
#
# You need lessons 1 and 5.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots
from cdopt.plots import force_ensemble

n = 4  # balls along a side of the pyramid's base

# %% [markdown]
# ## Three supports again
#
# On the beam of lesson 1 one number is free, the middle force, anything from 0 to 10 N. Each as
# likely as any other: on average it is 5 N, and the ends carry 2.5 N each.

# %%
beam = cdopt.ensemble(bank.generators.beam())
print(f"beam: {beam.verdict}")
print(f"mean forces {beam.mean.round(2)} N, give or take {beam.error.max():.2f} N")

# %% [markdown]
# So the mean of the ensemble is 2.5, 5, 2.5 N, and not the forces of springs, a third each. It
# contains no information about the supports: it is the middle of all possible forces.
#
# ## How one draws from all answers
#
# A point in the middle of all answers is drawn like this. Stand at some answer. Choose a
# direction among the patterns of forces that cancel themselves, at random. Walk along it both ways
# until some force would have to pull: that is a line with two ends. Jump to a random point of it.
# Repeat. It is called *hit-and-run*, and after many jumps you are anywhere, with equal chance.
#
# How many jumps are enough? One walk cannot tell. So there are four, each from another corner of
# the possible forces: if the walks still differ from one another more than each differs from
# itself (a number called R̂, above 1.01), they have not walked long enough. Here is a pile of
# balls, and a walk that is too short.

# %%
pile = bank.generators.pyramid(n)
short = cdopt.ensemble(pile, draws=20, thin=1, warm_up=0)
samples = cdopt.ensemble(pile, thin=20)
print(f"\n{pile.nc} contacts, {samples.dimension} numbers free")
print(f"short walks: {short.verdict}")
print(f"long walks: {samples.verdict}")

# %% [markdown]
# ## Large forces are rare
#
# Put the forces of all contacts into one histogram, in units of their mean. Forces three times
# the mean are rare, those five times the mean much rarer: the density falls about as fast as an
# exponential (the right panel of the picture). Histograms measured in heaps of real grains fall
# in a similar way, and the ensemble became known because it reproduces such a histogram.

# %%
for times in (1, 2, 3, 4):
    share = np.mean(samples.magnitudes > times)
    print(f"above {times} times the mean: {share:6.1%}; an exponential has {np.exp(-times):6.1%}")

# %% [markdown]
# ## Is your answer typical?
#
# Now place single answers among all. How far is each from the mean, in units of the spread along
# each direction? In many dimensions nearly nothing is near the mean: typical samples are about
# √dimension away, as the corners of a cube are far from its middle. *Depth* is the share of
# samples that lie farther out.

# %%
answers = {"compatible": cdopt.CompatibleCD(pile).solve("newton").f}
for name in ("clarabel", "lcp", "pgs"):
    answers[name] = cdopt.ClassicCD(pile).solve(name).f
places = {name: samples.place(f) for name, f in answers.items()}
print(f"\ntypical distance: {np.sqrt(samples.dimension):.1f}")
for name, place in places.items():
    print(f"{name:>11}: distance {place.distance:5.1f}, depth {place.depth:6.1%}, "
          f"elastic energy less in {place.less_energy:6.1%} of the samples")  # fmt: skip

# %% [markdown]
# **Clarabel** is nearer to the middle than any sample: interior point methods avoid walls.
# **Lemke's method** (lcp) sits in a corner, farther out than all. Neither is typical, and for
# reasons that have to do with the methods.
#
# **The compatible answer**, what equal elastic balls carry, lies farther out than most, and *no*
# sample stores less elastic energy: it has the least of all. So the mean of the ensemble is a
# poor guess for elastic balls, and the compatible answer a poor guess for balls of unknown
# material.
#
# That is the warning that comes with the ensemble. "Each as likely as any other" is an assumption.
# It is not physics of contacts, and it is uniform in *forces*; in other coordinates it would be
# another ensemble. What it measures well is how much balance leaves open, and where in it you are.
#
# ## What happens if…
#
# 1. … the pile is larger, `n = 5`? How do the typical distance and the compatible answer's depth
#    change? (The walk takes some seconds.)
# 2. … there are twenty-two supports, `cdopt.ensemble(bank.generators.supports(22))`? Which of
#    them carries most on average?
# 3. … a ball fits exactly between two walls, so that forces have no upper end? Take
#    `cdopt.ContactStep(np.eye(1), [[1], [-1]], [0, 0], [0], [0], 1)` and read what it says.
#
# Next: `14_sensitivities.py`, on what happens to forces when a contact gets a little stiffer.


# %%
def draw():
    """All answers, contact by contact and together, and three single ones."""
    shown = {name: answers[name] for name in ("compatible", "clarabel", "lcp")}
    return force_ensemble(
        samples,
        shown,
        title="All forces that balance, and three that were chosen",
        subtitle=f"A pyramid of balls, {pile.nc} contacts, {samples.dimension} free numbers. "
        "Bands: what samples of all admissible forces carry. Marks: what solvers report.",
    )


if __name__ == "__main__":
    plots.save(draw(), "13_force_network_ensemble.png")
    print("\nThe picture is in 13_force_network_ensemble.png")
