# %% [markdown]
# # The order of Gauss–Seidel
#
# The beam of lesson 1 again: 10 N, three supports, and one free number. What does a program for
# rigid contacts return?
#
# The method most of them use, in games, robotics and the mechanics of grains, is *projected
# Gauss–Seidel*, PGS for short. One sentence describes it: **visit the contacts one after another,
# and at each change its force so that the beam stops sinking there; a force that would have to
# pull becomes zero; go round until nothing changes.**
#
# The sentence leaves one thing open: in which order?

# %%
import itertools

import numpy as np

import cdopt
from cdopt import bank, plots
from cdopt.backends import PGS

LENGTH = 1.0  # m, of the beam; the supports stay where they are
beam = bank.generators.beam_on(
    [-0.5, 0.0, 0.5], contact_ids=["left", "middle", "right"], length=LENGTH
)
START = None  # the answer that PGS starts from; None: no forces

# %% [markdown]
# ## Ten lines of Gauss–Seidel
#
# The method needs `p` and `N`. `p` is the rate at which each gap would open in the next time step
# without contact forces (a negative rate closes; here all three close at 10 mm/s, which is
# gravity times a step of 1 ms). The entry of the matrix `N` in row i and column j is the rate at
# which gap i opens for each newton at contact j. With forces `f` the gaps change at the rate `N f
# + p`, in m/s.

# %%
N, p = beam.N.toarray(), beam.p_vec


def sweeps(order, count=40):
    """Forces (count × 3 visits + 1, 3) in N after every visit, starting from none."""
    f = np.zeros(3)
    path = [f.copy()]
    for _ in range(count):
        for i in order:
            f[i] = max(0.0, f[i] - (N[i] @ f + p[i]) / N[i, i])
            path.append(f.copy())
    return np.array(path)


for order in [(1, 0, 2), (0, 1, 2)]:
    print("visits", " → ".join(beam.contact_ids[i] for i in order))
    for visit, f in enumerate(sweeps(order)[1:4]):
        print(f"   after {beam.contact_ids[order[visit]]:>6}: {f.round(3)} N")

# %% [markdown]
# **Middle first.** The middle support sits under the beam's centre, so 10 N there stop it
# completely. Then the ends are visited; nothing sinks there any more, so their forces remain
# zero. After one sweep the middle carries everything.
#
# **Left first.** An end is easier to stop than the middle, for the beam turns away from a push at
# its end: 2.5 N suffice. Then the middle is visited, and so on, round after round, until the beam
# rests.
#
# ## All six orders
#
# Now the same with cdopt's PGS, whose answers have a *certificate*: an independent check that the
# forces do not pull, that the gaps do not close, that only touching contacts push, and that the
# motion follows from the forces. A residual near 1e-10 means that a condition holds to ten
# digits.

# %%
problem = cdopt.ClassicCD(beam)
by_order = {
    order: problem.solve(PGS(order=order), warm_start=START)
    for order in itertools.permutations(range(3))
}

print("\norder of visits           left  middle   right [N]   sweeps  certificate")
for order, answer in by_order.items():
    words = ", ".join(beam.contact_ids[i] for i in order)
    numbers = "".join(f"{x:8.3f}" for x in answer.f)
    holds = "ok" if answer.ok else "NOT OK"
    print(f"{words:22}{numbers}  {answer.iterations:>9}  {holds} {answer.certificate.worst:.0e}")

# %% [markdown]
# Six orders give three different answers, and every certificate is ok. Nothing went wrong: each
# line is an exact solution of the problem. The problem has many solutions, and the order of
# visits, which has no meaning in mechanics, selects one.
#
# What the answers share is what *is* determined: the motion (the beam stays at rest) and what the
# forces add up to. How far the rest may range does not depend on any solver.

# %%
report = cdopt.indeterminacy(beam)
speeds = np.array([answer.v_next for answer in by_order.values()])
print(f"\nfastest motion of any answer: {np.abs(speeds).max():.0e} m/s or rad/s")
for name, low, high in zip(report.names, report.lower, report.upper, strict=True):
    print(f"{name:>8}: admissible from {low:.3g} N to {high:.3g} N")

# %% [markdown]
# ## Other methods
#
# Another common method, APGD (accelerated projected gradient), changes all forces at once. There
# is no order, and for this beam it returns 10/3 N each. These are the compatible forces of lesson
# 1, but for another reason: a gradient method that starts from zero converges to the answer with
# the smallest sum of squares, unless a force stays at zero on the way. For *equal* springs this
# is the compatible answer. For other springs it is not (lesson 4), and in larger structures
# forces do stay at zero (lesson 5). Lemke's method (`lcp`) goes from corner to corner of the
# admissible forces, and ends in a corner. An interior point method (`clarabel`) stops somewhere
# in between.

# %%
others = {name: problem.solve(name) for name in ("apgd", "lcp", "clarabel")}
compatible = cdopt.CompatibleCD(beam).solve("newton")
print()
for name, answer in {**others, "compatible": compatible}.items():
    print(f"{name:>11}: {answer.f.round(3)} N, certificate {'ok' if answer.ok else 'NOT OK'}")

# %% [markdown]
# Both observations are those of [Olsen & Kamrin](https://arxiv.org/abs/1805.07437) (2018,
# section 8.1): PGS gives the middle support all the weight when it comes first, and APGD gives a
# third to each.
#
# ## What happens if…
#
# 1. … the beam is longer than its supports reach? Set `LENGTH = 2.0`. It still weighs 10 N and
#    rests on the same three points, so the balance of lesson 1 is untouched. What do the orders
#    say now, and why does a beam *at rest* care how hard it is to turn?
# 2. … PGS goes only half the way at each visit, `PGS(order=order, relaxation=0.5)`? Does the
#    middle still get everything when it comes first?
# 3. … PGS starts from an answer, `START = cdopt.ClassicCD(beam).solve("lcp")`? Does any order
#    leave it?
#
# Next: `03_table_on_four_legs.py`, the same question in your kitchen.


# %%
def draw():
    """How each order walks to the line of answers, and where it gets there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 10], [10, 0], color="#cfe0f0", linewidth=9, solid_capstyle="round", zorder=1)
    axes.annotate(
        "every admissible answer", (7.6, 2.4), (8.6, 4.6), ha="center", color="#3d5f80",
        arrowprops={"arrowstyle": "-", "color": "#6f8fb0"},
    )  # fmt: skip
    looks = {(1, 0, 2): ("#E69F00", "D"), (0, 1, 2): ("#AA4499", "s"), (0, 2, 1): ("#0072B2", "o")}
    for order, (colour, marker) in looks.items():
        path, f = sweeps(order), by_order[order].f
        label = ", ".join(beam.contact_ids[i] for i in order)
        label += ": " + " / ".join(f"{x:.3g}" for x in f) + " N"
        axes.plot(path[:, 1], path[:, 0] + path[:, 2], color=colour, linewidth=1.6, zorder=2)
        axes.plot(f[1], f[0] + f[2], marker, color=colour, markersize=10, label=label, zorder=3)
    axes.plot(
        10 / 3, 20 / 3, marker="_", color="#1a1a1a", markersize=24, markeredgewidth=3,
        linestyle="none", label="compatible: 3.33 / 3.33 / 3.33 N", zorder=2.5,
    )  # fmt: skip
    axes.set(xlabel="force of the middle support [N]", ylabel="force of both ends together [N]")
    axes.set(xlim=(-0.3, 10.6), ylim=(-0.4, 10.6), aspect="equal")
    axes.set_title("Projected Gauss–Seidel, from no forces, in three orders")
    title = "order of visits: force at left / middle / right"
    axes.legend(loc="upper right", frameon=False, title=title)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "02_order_of_gauss_seidel.png")
    print("\nThe picture is in 02_order_of_gauss_seidel.png")
