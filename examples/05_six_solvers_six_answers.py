# %% [markdown]
# # One problem, six solvers, six answers
#
# Three supports are a small problem. A larger one is a pyramid of cannonballs, five by five at
# the bottom, one at the top. The 25 balls of the base are glued to the floor; the other 30 weigh
# 1 N each and lie where they touch, without friction. **With what force does each ball press on
# its neighbours?**
#
# You need lessons 1 and 2. The pile is a small one of those in
# [Olsen & Kamrin](https://arxiv.org/abs/1805.07437) (2018, section 8.2), who stack 2,870 spheres.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots
from cdopt.backends import APGD, LCP, PGS, Modelled

n = 5  # balls along a side of the base
pile = bank.generators.pyramid(n)
print(
    f"{pile.nc:,} contacts, {pile.nv} ways to move ({pile.nv // 3:,} free balls, 3 directions each)"
)

# %% [markdown]
# ## Ask six solvers
#
# They use very different methods. Clarabel is an interior point method. OSQP and SCS split the
# problem into two easy halves and go back and forth. PGS visits contact after contact, APGD
# follows the slope, and Lemke's method jumps from corner to corner. All are asked for nine
# digits, so that differences are not due to low accuracy, and `cdopt.compare` certifies every
# answer by the same independent check. Last comes the compatible answer, for balls of equal
# stiffness.

# %%
solvers = [
    Modelled("clarabel", accuracy=1e-9),
    Modelled("osqp", accuracy=1e-9),
    Modelled("scs", accuracy=1e-9),
    PGS(accuracy=1e-9),
    APGD(accuracy=1e-9),
    LCP(),
]
result = cdopt.compare(pile, solvers)
print(f"\n{result}")

# %% [markdown]
# Every solver reports success. Every certificate is ok: no ball sinks into another, no contact
# pulls, every ball is in balance. But the largest force in the pile is 1.1 N or 2.8 N, depending
# on the solver.
#
# ## What they agree on
#
# The motion (the pile stays at rest), and any sum that balance determines, such as the weight on
# the floor.

# %%
floor = [bank.quantities.supported(pile, answer.f) for answer in result]
print(f"\nmotions agree to {result.motion_spread:.0e}; weight on the base:")
print(", ".join(f"{name} {w:.6f} N" for name, w in zip(result.labels, floor, strict=True)))

# %% [markdown]
# ## What they do not agree on
#
# Take the contact where the answers are furthest apart. How much disagreement was to be expected?
# The count and the interval answer this without a solver's forces.

# %%
report = cdopt.indeterminacy(pile)
answers = np.array([answer.f for answer in result])
spread = answers.max(axis=0) - answers.min(axis=0)  # N
worst = int(np.argmax(spread))

print(f"\n{pile.nc:,} forces - {report.rank} equations = nullity {report.nullity}")
print(f"forces that balance determines: {np.count_nonzero(report.unique)} of {pile.nc}")
first, second = pile.bodies[worst]
print(f"contact {worst}, between balls {first} and {second}:")
for name, force in zip(result.labels, answers[:, worst], strict=True):
    print(f"{name:>11}: {force:.4f} N")
print(f" compatible: {result.compatible.f[worst]:.4f} N")
print(f" admissible: {report.lower[worst]:.4f} N to {report.upper[worst]:.4f} N")

# %% [markdown]
# One free number made three answers on the beam; here there are seventy. Not a single one of the
# 160 forces is determined, and balance would even allow a contact to carry more than six times a
# ball's weight, or nothing.
#
# ## Which force did I get?
#
# Each answer lies inside the intervals, so that none is wrong. But *where* does it lie? Three
# answers are landmarks: the *compatible* one; the one of *minimum norm* (smallest sum of squares
# among the forces that push, which for equal springs is the compatible one again); and the
# *analytic centre*, as far from all zeros as can be, to which interior point methods are drawn.

# %%
chosen = cdopt.hyperstatic.place_solutions(report, result)
print(f"\n{chosen}")

# %% [markdown]
# Read the columns "compatible" and "centre", which are distances (relative, so 0 is a hit and 1
# is as far off as the force is large). Clarabel stops within two per cent of the analytic centre.
# Lemke has 100 of the 160 forces at exactly zero: a corner. APGD is nearest to the compatible
# answer: as in lesson 2 it approaches the smallest sum of squares. But it does so as if contacts
# could also pull; 40 of them would, and because these stay at zero on the way it ends 8 % off.
# Each answer depends on its method, and tells nothing about the balls.
#
# So which one is right? If the balls are elastic and alike, only the compatible one: it is what
# the pile carries in the limit of infinite stiffness. If you know nothing about the material, the
# right answer is the interval. A certificate cannot choose for you: all six answers pass, because
# all six solve the problem.
#
# ## What happens if…
#
# 1. … the pile is smaller, `n = 3` or `n = 2`? Is there a pyramid in which every force is
#    determined?
# 2. … the balls are of two kinds, every second one five times as stiff:
#    `pile = bank.generators.pyramid(n, "species")`? Which lines of the table change, and which do
#    not? Is minimum norm still compatible?
# 3. … PGS visits in another order, `PGS(order="shuffled", seed=1)`? Try a few seeds.
# 4. … you ask for twelve digits? Do the answers come closer to each other?
#
# Next: `06_your_own_matrices.py`, with a structure of your own.

# %%
if __name__ == "__main__":
    figure = plots.force_intervals(
        report,
        result,
        result.compatible,
        title="One pile, six certified answers",
        subtitle="Each column is a contact: the band is every force that balance permits, the dot "
        "what the solver reports, the line what equal elastic balls carry.",
    )
    plots.save(figure, "05_six_solvers_six_answers.png")
    print("\nThe picture is in 05_six_solvers_six_answers.png")
