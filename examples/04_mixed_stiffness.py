# %% [markdown]
# # Mixed stiffness
#
# Lesson 1 ended with three *equal* springs. Suppose the middle support is three times as stiff as
# the ends: steel in the middle, say, and wood at the ends. **Who carries the beam now?**
#
# By hand: the beam sinks by some c and stays level, for the ends are alike. Each support pushes
# with its stiffness times c. In suitable units, 1 c + 3 c + 1 c = 10, so c = 2, and the forces are
# 2, 6 and 2 N.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots

stiffness = [1.0, 3.0, 1.0]  # left, middle, right; only their ratios matter
beam = bank.generators.beam_on(
    [-0.5, 0.0, 0.5], stiffness=stiffness, contact_ids=["left", "middle", "right"]
)
uniform = beam.replace(stiffness=1.0)


def compatible(step, power=2.0):
    """Forces (nc,) in N of elastic contacts in the limit of infinite stiffness."""
    return cdopt.CompatibleCD(step, power=power).solve("newton").f


forces = compatible(beam)
print("compatible, mixed  :", forces.round(4), "N")
print("compatible, uniform:", compatible(uniform).round(4), "N")

# %% [markdown]
# This is the second case of [Olsen & Kamrin](https://arxiv.org/abs/1805.07437) (2018, section
# 8.1). cdopt was given only *ratios* of stiffness. The supports are still perfectly hard. Making
# all three a thousand times stiffer changes nothing, as in lesson 1: in the limit only ratios
# matter.
#
# ## What the usual solvers make of it
#
# Stiffness does not appear in their problem, so that both beams are the same for them. APGD's
# 10/3 N each, right by luck for equal springs, gives the stiff middle 3.33 N, where it should
# carry 6.

# %%
for name in ("pgs", "apgd", "clarabel"):
    mixed, same = (cdopt.ClassicCD(step).solve(name).f for step in (beam, uniform))
    print(f"{name:>9}: mixed {mixed.round(3)} N, uniform {same.round(3)} N")

# %% [markdown]
# ## Turn the knob
#
# Let the middle be k times as stiff as the ends. The same sum on paper gives 10 k / (2 + k) for
# the middle. Vary k over many orders of magnitude.

# %%
ratios = np.geomspace(1e-4, 1e4, 33)
swept = np.array([compatible(beam.replace(stiffness=[1.0, k, 1.0])) for k in ratios])

print()
for k in (1e-4, 1e-2, 1.0, 1e2, 1e4):
    f = swept[np.argmin(np.abs(np.log(ratios / k)))]
    print(f"middle {k:8g} times as stiff: {f.round(3)} N")

without_middle = cdopt.indeterminacy(beam.select([0, 2]))
only_middle = cdopt.indeterminacy(beam.select([1]))
report = cdopt.indeterminacy(beam)
print(f"without the middle, nullity {without_middle.nullity}: {without_middle.force.round(3)} N")
print(f"the middle alone, nullity {only_middle.nullity}: {only_middle.force.round(3)} N")
print(f"balance permits the middle {report.lower[1]:.3g} to {report.upper[1]:.3g} N")

# %% [markdown]
# Both ends of the sweep are easy to solve. A very soft middle has no effect: two supports, two
# equations, 5 N each. With a very hard middle the beam is a seesaw: one support, 10 N. In
# between, **every** force between 0 and 10 N is the compatible one for some k. So for this beam
# the interval is the set of all forces that some choice of materials produces, and the choice of
# materials is the choice of the answer.
#
# ## Hooke and Hertz
#
# A spring pushes in proportion to its squeeze c (Hooke: force k c). Two round bodies do not: the
# harder they press, the more they touch, and the force grows like c to the power 3/2 (Hertz). In
# cdopt `power` is the exponent of the stored *energy*, one higher: 2 for Hooke, 2.5 for Hertz.
#
# Under a load in the middle the beam stays level, all squeezes are equal, and the law cannot
# matter. So move the load to the right, and let the three supports be equal.

# %%
load_place = 0.2  # m to the right of the middle
HERTZ = 2.5


def loaded_at(x):
    """The uniform beam with its 10 N acting x metres right of the middle."""
    return uniform.replace(F_ext=[-10.0, -10.0 * x])  # N, N·m


hooke_forces = compatible(loaded_at(load_place))
hertz_forces = compatible(loaded_at(load_place), HERTZ)
free = cdopt.indeterminacy(loaded_at(load_place))
print(f"\nload {load_place} m off the middle (left, middle, right)")
print(f"Hooke: {hooke_forces.round(3)} N")
print(f"Hertz: {hertz_forces.round(3)} N")
print(f"balance permits: {free.lower.round(3)} to {free.upper.round(3)} N")

# %% [markdown]
# The squeezes lie on a straight line, since the beam is straight. With Hooke the forces lie on a
# line too: 1.33, 3.33, 5.33. With Hertz they lie on a curve that sags in the middle. The laws
# differ by a few per cent; balance alone leaves several newtons open. That is typical: knowing the
# *law* of the contacts sharpens the answer, but knowing that there is *some* elastic law, and the
# same at each support, is what gives an answer at all.
#
# ## What happens if…
#
# 1. … the *left* support is the stiff one, `stiffness = [3.0, 1.0, 1.0]`? Balance forces left and
#    right to be equal. So whose force grows?
# 2. … everything is a thousand times as stiff, `stiffness = [1e3, 3e3, 1e3]`?
# 3. … the law is steeper or flatter than Hertz: `HERTZ = 10.0` or `HERTZ = 1.5`? Which way does
#    the middle go?
# 4. … the load moves further out, `load_place = 0.4`? Now Hooke and Hertz agree to the last
#    digit. Which support carries no force any more, and how many forces remain?
#
# Next: `05_six_solvers_six_answers.py`, with 160 contacts instead of three.


# %%
def draw():
    """The knob from soft to hard, and the two laws as the load moves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    knob, law = figure.subplots(1, 2)
    colours = {"left": "#0072B2", "middle": "#D55E00", "right": "#009E73"}
    knob.semilogx(ratios, swept[:, 1], color="#D55E00", linewidth=2.5)
    knob.semilogx(ratios, swept[:, 0], color="#0072B2", linewidth=2.5)
    knob.text(20, 8.4, "middle", color="#D55E00")
    knob.text(60, 0.75, "each end", color="#0072B2")
    for height in (report.lower[1], report.upper[1]):
        knob.axhline(height, color="#6f8fb0", linestyle=":")
    knob.plot([3, 3], [6, 2], "o", color="#1a1a1a", markersize=6)
    knob.annotate("2, 6, 2 N", (3, 6), (14, 5.6), va="center", arrowprops={"arrowstyle": "-"})
    knob.text(1.3e-4, 5.25, "two supports: 5, 0, 5 N", color="#6b6b6b")
    knob.text(8e3, 10.2, "a seesaw: 0, 10, 0 N", color="#6b6b6b", ha="right")
    knob.set(xlabel="stiffness of the middle / stiffness of an end", ylabel="force [N]")
    knob.set(title="load in the middle, any law", ylim=(-0.3, 10.9))
    along = np.linspace(0.0, 0.45, 55)  # m
    for power, style, width in ((2.0, "-", 2.2), (HERTZ, "--", 1.6)):
        f = np.array([compatible(loaded_at(x), power) for x in along])
        for i, (name, colour) in enumerate(colours.items()):
            label = "Hooke" if power == 2.0 else "Hertz"
            law.plot(along, f[:, i], style, color=colour, linewidth=width,
                     label=f"{name}, {label}")  # fmt: skip
    law.set(xlabel="place of the load [m right of the middle]", ylabel="force [N]")
    law.set(title="three equal supports", ylim=(-0.3, 10.9))
    law.legend(frameon=False, ncols=2, loc="upper left")
    for axes in (knob, law):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "04_mixed_stiffness.png")
    print("\nThe picture is in 04_mixed_stiffness.png")
