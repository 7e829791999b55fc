# %% [markdown]
# # Counting
#
# Before any force is computed, one can count: **how many forces are there, and how many
# conditions must they meet?** The difference tells how many forces remain free, for a beam as
# well as for a pile of a thousand balls. James Clerk Maxwell counted frames like this in 1864.
#
# You need no mechanics here. A *contact* is a place where two bodies touch; they push each other
# there with an unknown force, a number. A *degree of freedom* is one way in which a body could
# move; if it is to stay at rest, the pushes must balance in that way. So there is one equation
# for each degree of freedom.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots

# %% [markdown]
# ## Contacts and ways to move
#
# A beam can rise and it can turn: two ways. A table top can rise, tip to the side and tip back:
# three. A ball without friction can move in three directions; its spin does not matter, because
# nothing rubs. The matrix B states how the gap of each contact changes with each way to move: a
# row for each contact, a column for each way.


# %%
def beam_on(*places):
    """A beam of 1 m on supports at these places (m from its middle)."""
    return bank.generators.beam_on(list(places))


def table_on(*legs):
    """A table top with legs at these places (x, y) in m."""
    x, y = np.array(legs, dtype=float).T
    B = np.column_stack([np.ones(len(legs)), y, -x])
    return cdopt.ContactStep(
        M=np.eye(3), B=B, phi=np.zeros(len(legs)), v=np.zeros(3), F_ext=[-10, 0, 0], dt=1e-3
    )


round_ = [(np.cos(a), np.sin(a)) for a in np.arange(6) * np.pi / 3]
structures = {
    "beam, 1 support": beam_on(0.0),
    "beam, 2 supports": beam_on(-0.5, 0.5),
    "beam, 3 supports": beam_on(-0.5, 0.0, 0.5),
    "stool, 3 legs": table_on(*round_[::2]),
    "table, 4 legs": table_on((1, 1), (-1, 1), (-1, -1), (1, -1)),
    "table, 6 legs": table_on(*round_),
    "bench, 4 in a row": table_on((-1, 0), (-0.5, 0), (0.5, 0), (1, 0)),
    "pyramid of 30 balls": bank.generators.pyramid(4),
    "crystal of discs": bank.generators.crystal_2d(),
}

# %% [markdown]
# ## Contacts minus ways to move
#
# The simplest count is the difference of the two.

# %%
for name, step in structures.items():
    print(f"{name:>20}: {step.nc:3} contacts - {step.nv:3} ways = {step.nc - step.nv:3}")

# %% [markdown]
# If there are more contacts than ways, some forces must remain free. If there are fewer,
# something can still move. If the numbers are equal, perhaps neither. But look at the bench,
# whose four legs stand in one row. The difference is 1, as for the table with four legs, and yet
# the bench falls over.
#
# ## Rank
#
# The count was wrong because not all equations are independent. The four legs of the bench push
# along one line; the equation for tipping across that line reads 0 = 0, whatever they push. The
# number of independent equations is the *rank* of B. Then there are
#
# - contacts − rank free forces, the *nullity* or degree of *hyperstaticity*;
# - ways − rank motions that no contact resists, here called *loose*.
#
# Their difference is Maxwell's count, whatever the rank: (contacts − rank) − (ways − rank).


# %%
def count(step):
    """Nullity and number of loose motions."""
    rank = int(np.linalg.matrix_rank(step.B.toarray()))
    return step.nc - rank, step.nv - rank


counts = {name: count(step) for name, step in structures.items()}
print()
for name, (nullity, loose) in counts.items():
    print(f"{name:>20}: free numbers {nullity:3}, loose motions {loose}")

# %% [markdown]
# So the bench has *two* numbers free and one loose motion, and 2 − 1 = 1. Maxwell's count is only
# the difference, a lower bound of the number of free forces.
#
# The table with six legs has three numbers free. The stool has none, and no loose motion: each
# force follows from balance, and each motion is stopped. Such a structure is called *isostatic*.
#
# ## A big pile
#
# Deep inside a close-packed pile each ball touches twelve others. Each contact belongs to two
# balls, so there are six contacts for each ball, and three ways to move. Half of all forces follow
# from balance; the other half is free. A pyramid has a surface, where balls touch fewer; the larger
# it is, the nearer it comes to a half.

# %%
sizes = [2, 3, 4, 5, 6, 7, 8]
shares = []
print()
for n in sizes:
    pile = bank.generators.pyramid(n)
    nullity, loose = count(pile)
    shares.append(nullity / pile.nc)
    print(f"base {n} by {n}: {pile.nc:4} contacts, {pile.nv:4} ways, {nullity:4} free, "
          f"{shares[-1]:.2f} of all; {loose} loose")  # fmt: skip

# %% [markdown]
# ## What counting does not know
#
# Counting ignores *signs*. Contacts push and never pull, so that a free force may in fact be
# determined: lesson 1 ends with such a case. It also ignores *size*: a free force may range over
# a millinewton or over tons. `cdopt.indeterminacy` counts like this and then answers both.

# %%
report = cdopt.indeterminacy(structures["table, 6 legs"])
print(f"\ntable on six legs: {report.summary}")

# %% [markdown]
# ## What happens if…
#
# 1. … the beam has its three supports at 0, 0 and 0.5, two of them in one place? Count by hand
#    first: contacts, ways, rank.
# 2. … all four legs of the table stand in one point? Which motions are loose?
# 3. … the crystal has more rows and columns, `bank.generators.crystal_2d(20, 20)`? In the plane a
#    disc touches six others and has two ways to move. Which share do you expect to be free?
#
# Next: `01_three_supports.py`, where you meet a free force.


# %%
def draw():
    """What each structure's contacts do, and the share of free numbers in pyramids."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.4, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    shown = [name for name, step in structures.items() if step.nc <= 6]
    at = np.arange(len(shown))
    free, loose = np.array([counts[name] for name in shown]).T
    contacts = np.array([structures[name].nc for name in shown])
    left.barh(at, contacts - free, color="#6f8fb0", label="bound by balance (rank)")
    left.barh(at, free, left=contacts - free, color="#E69F00", label="free (nullity)")
    left.barh(at, -loose, color="#D55E00", label="loose motions")
    left.axvline(0.0, color="#1a1a1a", linewidth=0.8)
    left.set_yticks(at, shown)
    left.invert_yaxis()
    left.set_xticks(range(-1, 7), [abs(i) for i in range(-1, 7)])
    left.set(xlabel="loose motions | contact forces", title="what contacts do")
    left.legend(frameon=False, fontsize=8, loc="upper right")
    right.plot(sizes, shares, marker="o", color="#0072B2")
    right.axhline(0.5, color="#6b6b6b", linestyle="--", linewidth=1)
    right.text(sizes[0], 0.505, "deep inside: a half", color="#6b6b6b", fontsize=9)
    right.set(xlabel="balls along a side of the base", ylabel="share of free numbers",
              title="pyramids of balls", ylim=(0.0, 0.58))  # fmt: skip
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "00_counting.png")
    print("\nThe picture is in 00_counting.png")
