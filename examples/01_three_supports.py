# %% [markdown]
# # Three supports
#
# A straight beam lies on three supports, one at each end and one exactly in the middle.
# **How much of the beam's weight does each support carry?**
#
# You need no mechanics for this lesson beyond the seesaw. The beam weighs 10 N (about a litre of
# water), is 1 m long, and does not bend. The supports do not yield, and they can only push:
# nothing is glued or nailed.
#
# Make a guess before you read on. "A third each", "a quarter, a half, a quarter" and "the middle
# one does all the work" are all popular.

# %%
import cvxpy as cp
import numpy as np

import cdopt
from cdopt import bank, plots

supports = {"left": -0.5, "middle": 0.0, "right": 0.5}  # places in m, from the beam's middle
weight = 10.0  # N

# %% [markdown]
# ## What we know
#
# The beam lies still, so two things must hold.
#
# 1. It does not fall: the three forces add up to 10 N.
# 2. It does not tip: as on a seesaw, force times distance from the middle is the same on both
#    sides. The ends are equally far away, so left and right carry the same.
#
# These are all the conditions there are: a beam that neither falls nor tips is at rest. Now try a
# few answers.

# %%
places = np.array(list(supports.values()))
candidates = {
    "a third each": [10 / 3, 10 / 3, 10 / 3],
    "half in the middle": [2.5, 5.0, 2.5],
    "all in the middle": [0.0, 10.0, 0.0],
    "nothing in the middle": [5.0, 0.0, 5.0],
    "all on the left": [10.0, 0.0, 0.0],
}


def balances(forces):
    """Whether the beam neither falls nor tips under these upward forces (N)."""
    if len(forces) != len(places):
        return False
    falls = sum(forces) - weight  # N
    tips = places @ forces  # N·m
    return abs(falls) < 1e-9 and abs(tips) < 1e-9


for words, forces in candidates.items():
    verdict = "balances" if balances(forces) else "does not balance"
    print(f"{words:22} {np.round(forces, 2)} N   {verdict}")

# %% [markdown]
# Four of the five answers balance. They are not four approximations of a true answer: each one
# holds the beam perfectly still.
#
# ## Why two equations cannot give three forces
#
# There are three unknown forces and two equations, so one number stays free. Choose any force
# from 0 to 10 N for the middle support; each end then carries half of the rest. That is *every*
# answer, since supports cannot pull.
#
# Engineers call such a structure *hyperstatic* (or statically indeterminate): it has more
# supports than balance can account for. To picture the free number, imagine that a jack raises
# the middle support by a hair. The middle gains 1 N, the ends lose half a newton each, and the
# beam remains in balance. Such a pattern of forces that cancels itself is a *self-stress state*,
# and the number of independent ones is the *nullity*.
#
# **Counting: 3 forces − 2 equations = nullity 1.**
#
# cdopt counts like this for any contact problem, and computes how far each force may range.

# %%
beam = bank.generators.beam_on(places, contact_ids=list(supports))
report = cdopt.indeterminacy(beam)

print(f"\n{report.nc} forces - {report.rank} equations = nullity {report.nullity}")
for pattern in report.self_stress.toarray():
    print("forces that cancel:", dict(zip(report.names, pattern.round(3).tolist(), strict=True)))
for name, low, high in zip(report.names, report.lower, report.upper, strict=True):
    print(f"{name:>8}: anything from {low:.3g} N to {high:.3g} N")

# %% [markdown]
# Read the intervals like this: *every* force inside belongs to some answer that balances, and
# *none* outside does. The three forces depend on each other: once you choose one, the others
# follow.
#
# ## But a real beam does press on real supports
#
# Certainly, and there the forces are not free. Balance does not determine them, but the supports
# do, because nothing is perfectly hard. Under load each support yields a little, like a very
# stiff spring, and this decides the forces.
#
# Let all three springs be equally stiff, with k newtons per metre. The beam sinks and stays
# level, so all three are squeezed by the same amount, so all three push with the same force.
# (These springs are fixed at both ends: unlike supports they could also pull. Here none does.)

# %%
B = beam.B.toarray()  # how the gap at each support changes as the beam rises and turns
for k in (1e3, 1e6, 1e9):  # N/m: a soft cushion, rubber, steel
    move = np.linalg.lstsq(k * B.T @ B, beam.F_ext, rcond=None)[0]  # rise (m), turn (rad)
    springs = -k * B @ move  # N: each spring pushes by what it is squeezed
    print(f"k = {k:.0e} N/m: sinks {-1e6 * move[0]:10.4g} µm, forces {springs.round(3)} N")

# %% [markdown]
# If the springs are a million times stiffer, the beam sinks a million times less, with **the same
# forces**. Although the sinking vanishes as the supports become perfectly hard, the forces do not
# become arbitrary: they remain 10/3 N each. These are the *compatible* forces, those that fit
# together with one tiny movement of the beam. Finding them for rigid bodies is the idea of [Olsen
# & Kamrin](https://arxiv.org/abs/1805.07437) (2018), and this beam is their first example (their
# section 8.1). cdopt computes them without any k.

# %%
compatible = cdopt.CompatibleCD(beam).solve("newton")
print("\ncompatible:", dict(zip(report.names, compatible.f.round(4).tolist(), strict=True)), "N")

# %% [markdown]
# ## And what do programs say?
#
# A program for rigid contacts only has to return forces that balance. Here are two, both correct
# (each answer is checked, and certified, by cdopt); `02_order_of_gauss_seidel.py` shows how such
# a choice comes about.

# %%
for program in ("clarabel", "lcp"):
    answer = cdopt.ClassicCD(beam).solve(program)
    print(f"{program:>9} says {answer.status!r}: {answer.f.round(3)} N, certified: {answer.ok}")

# %% [markdown]
# ## The same in six lines of CVXPY
#
# You do not need cdopt for this. In CVXPY, on which cdopt is built, the lesson is a few lines:
# three forces that balance, the smallest and the largest force of the middle support, and the
# compatible forces, which store the least energy in equal springs.

# %%
f = cp.Variable(len(places), nonneg=True)  # N
balance = [cp.sum(f) == weight, places @ f == 0]
for wish in (cp.Minimize(f[1]), cp.Maximize(f[1]), cp.Minimize(cp.sum_squares(f))):
    cp.Problem(wish, balance).solve()
    print(f.value.round(3), "N")

# %% [markdown]
# ## Tell a friend
#
# *A rigid beam on three rigid supports has many answers: balance gives two equations for three
# forces. The middle support may carry anything from nothing to all 10 N, the ends from nothing to
# half. Programs that compute rigid contacts return one of these answers, and do not mention that
# there are others. If the supports are equal springs, however stiff, each carries a third.*
#
# ## What happens if…
#
# Change the line that begins with `supports =`, run again, and explain what you see.
#
# 1. … you take the middle support away? Is anything left to choose?
# 2. … there are four supports, say another one at 0.25 m? Count first.
# 3. … the middle support moves to 0.25 m? One support now can never be without load. Which one,
#    and why?
# 4. … the *left* support moves to the middle of the beam, and the middle one to 0.25 m? The count
#    still says 1. Why is every force determined all the same? And what do the springs do here that
#    supports cannot?
#
# Next: `02_order_of_gauss_seidel.py`, where a well-known program answers this question three
# times, differently.


# %%
def draw():
    """Four ways to hold the beam, and the range of each support."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.4), layout="constrained")
    beams = figure.add_gridspec(3, 2, height_ratios=(1, 1, 1.3))
    answers = [("compatible: equal springs", compatible.f)]
    answers += [("also balances", f) for f in list(candidates.values())[1:] if balances(f)]
    for i, (words, forces) in enumerate(answers):
        axes = figure.add_subplot(beams[i // 2, i % 2])
        axes.plot([-0.5, 0.5], [0, 0], color="#1a1a1a", linewidth=6, solid_capstyle="butt")
        axes.set(xlim=(-0.68, 0.68), ylim=(-1.5, 0.35), title=words)
        axes.axis("off")
        for x, f in zip(places, forces, strict=True):
            axes.plot(x, -0.15, marker="^", color="#9a9a9a", markersize=9)
            if f > 0.01:  # 0.1 of the picture's unit for each newton: 10 N is four times 2.5 N
                arrow = {"arrowstyle": "-|>", "color": "#0072B2", "linewidth": 2.5}
                arrow |= {"shrinkA": 0.0, "shrinkB": 0.0}
                axes.annotate("", (x, -0.25), (x, -0.25 - 0.1 * f), arrowprops=arrow)
            axes.text(x, -0.3 - 0.1 * f, f"{f:.3g} N", ha="center", va="top", fontsize=10)
    axes = figure.add_subplot(beams[2, :])
    for i, (low, high) in enumerate(zip(report.lower, report.upper, strict=True)):
        axes.barh(i, high - low, left=low, height=0.5, color="#cfe0f0", edgecolor="#6f8fb0")
        axes.plot([compatible.f[i]] * 2, [i - 0.32, i + 0.32], color="#1a1a1a", linewidth=3)
    axes.set_yticks(range(report.nc), report.names)
    axes.invert_yaxis()
    axes.set(xlabel="force [N]", xlim=(-0.1, 10.2))
    axes.set_title("every force that balances (band), and the compatible one (line)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "01_three_supports.png")
    print("\nThe picture is in 01_three_supports.png")
