# %% [markdown]
# # A table pushed over a rough floor
#
# Consider the table of lesson 3 again: 10 N on four legs, whose forces are not determined. Now
# the floor is rough, and you push the table from behind. **How much of the push does each leg
# resist?** In lesson 3 one number was undetermined. Friction adds five.
#
# You need lesson 3, and Coulomb's law from lesson 15.

# %%
import numpy as np

import cdopt
from cdopt import plots

WEIGHT, HEIGHT, MU = 10.0, 0.8, 0.5  # N, m from the floor to the middle of the top, 1
LEGS = {
    "back left": (-0.5, 0.5),
    "back right": (-0.5, -0.5),
    "front left": (0.5, 0.5),
    "front right": (0.5, -0.5),
}


def pushed(push, **friction):
    """The table with a push in N along x, towards its front, at the middle of its top."""
    normal, tangential = [], []
    for x, y in LEGS.values():
        foot = np.array([x, y, -HEIGHT])
        for rows, way in ((normal, "z"), (tangential, "x"), (tangential, "y")):
            along = np.eye(3)["xyz".index(way)]
            rows.append(np.concatenate([along, np.cross(foot, along)]))
    M = np.diag([WEIGHT / 9.81] * 3 + [0.1] * 3)
    return cdopt.ContactStep(
        M, normal, np.zeros(len(LEGS)), np.zeros(6), [push, 0.0, -WEIGHT, 0.0, 0.0, 0.0], 1e-3,
        friction=cdopt.Friction(MU, tangential, **friction), contact_ids=list(LEGS),
    )  # fmt: skip


# %% [markdown]
# ## Count
#
# There are four normal and eight tangential forces, and six equations. Three equations concern
# the normal forces, as in lesson 3: nullity 1. The other three (forces along x and y, moment
# about the vertical) concern friction: eight forces minus three equations leave five free
# numbers. Two feet may, for example, push the floor in opposite directions.

# %%
smooth = cdopt.indeterminacy(pushed(0.0).without_friction())
rough = cdopt.indeterminacy(pushed(0.0), law="coulomb")
print(f"smooth floor: nullity {smooth.nullity}, rough floor: nullity {rough.nullity}")
for i, name in enumerate(LEGS):
    print(f"{name:>12}: normal {rough.lower[i]:.2f} to {rough.upper[i]:.2f} N", end=", ")
    print(f"along x {rough.lower_t[i, 0]:.2f} to {rough.upper_t[i, 0]:.2f} N")

# %% [markdown]
# Without any push each foot may already exert a horizontal force of up to 1.83 N on the floor.
# This happens if a table was pushed and released, or if its legs were spread while it was set
# down.
#
# ## Push
#
# The push tends to tip the table forward: the two front legs carry W/2 + P h / a together, with a
# = 1 m the distance between front and back legs. The next lines list the range of each force
# under a push of 2 N, with the answers of three solvers:

# %%
PUSH = 2.0
step = pushed(PUSH)
report = cdopt.indeterminacy(step, law="coulomb")
answers = {name: cdopt.FrictionalCD(step).solve(name) for name in ("newton", "nsgs", "clarabel")}
for i, name in enumerate(LEGS):
    print(f"{name}: normal {report.lower[i]:.2f} to {report.upper[i]:.2f} N", end=", ")
    print(f"along x {report.lower_t[i, 0]:.2f} to {report.upper_t[i, 0]:.2f} N")
    for label, answer in answers.items():
        print(f"{label:>12}: normal {answer.f[i]:.2f} N, along x {answer.f_t[i, 0]:.2f} N")

pair = 0.5 * WEIGHT - PUSH * HEIGHT  # N, both back legs
by_hand = np.array([[0.0, pair]] * 2 + [[0.5 * WEIGHT - pair, 0.5 * WEIGHT]] * 2)
print(f"by hand: a back leg 0 to {pair:.2f} N, a front leg {by_hand[2, 0]:.2f} to 5.00 N")

# %% [markdown]
# Friction does not change the ranges of the normal forces: on a level floor it does not appear in
# their three equations. A friction force may have either sign. In some certified answers the feet
# push against each other.
#
# ## The push at which it slides
#
# Push until the table slides. At that moment friction is at its limit at every foot and has the
# same direction everywhere, so that no friction forces can cancel each other. Of six free numbers
# one is left.

# %%
limit = cdopt.limit_load(pushed(0.0), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
print(f"it slides at {limit.value:.4f} N, by hand {MU * WEIGHT:.4f} N")
pushes = [0.0, 1.0, 2.0, 2.8, 4.0, 5.0]
reports = [cdopt.indeterminacy(pushed(push), law="coulomb", contacts=[0, 2]) for push in pushes]
for push, one in zip(pushes, reports, strict=True):
    print(f"push {push} N: dimension {one.dimension} of nullity {one.nullity}")

# %% [markdown]
# The nullity only counts equations, and does not change. The *dimension* is that of the set of
# admissible forces, including the limits of friction.
#
# ## Four equal feet
#
# Elastic feet of equal stiffness share the push equally, P/4 each, as long as no foot slips. A
# back leg can resist this up to P/4 = μ (W/4 − P h / 2a). Beyond, it slips by a microscopic
# amount, and the front legs resist the rest.

# %%
slip_push = MU * WEIGHT / 4 / (1 / 4 + MU * HEIGHT / 2)
print(f"by hand, the back feet slip from {slip_push:.3f} N on")
elastic = np.array(
    [cdopt.CompatibleFriction(pushed(push)).solve().f_t[[0, 2], 0] for push in pushes[:-1]]
)
for push, (back, front) in zip(pushes, elastic, strict=False):
    print(f"push {push} N: {abs(back):.3f} N at a back leg, {abs(front):.3f} N at a front leg")

# %% [markdown]
# We did not choose the tangential stiffness of the feet, and for equal feet it makes no
# difference: with 0.1 or 10 times the normal stiffness four feet share the push in the same way.
# Feet of different stiffness do not. Put a rubber pad under the front left leg, which is soft in
# the tangential directions:

# %%
shares = {}
rubber = [0.1 if name == "front left" else 1.0 for name in LEGS]
for name, ratio in (("all soft", 0.1), ("all stiff", 10.0), ("one rubber", rubber)):
    network = cdopt.CompatibleFriction(pushed(PUSH, stiffness_ratio=ratio)).solve()
    shares[name] = network.f_t
    print(f"{name:>12}: along x {network.f_t[:, 0].round(3)}, along y {network.f_t[:, 1].round(3)}")

# %% [markdown]
# The rubber foot resists a tenth of what the foot behind it does. The right side now resists more
# than the left, so that the table turns by a microscopic angle about the vertical, and the feet
# also exert forces *across* the push. So the force of a single leg depends on the stiffness of
# every foot, along and across. A law of friction alone does not determine it.
#
# ## What happens if…
#
# 1. … the floor is rougher, `MU = 0.7`? Does the table slide or tip, and at which push?
# 2. … you push lower, `HEIGHT = 0.2`? When do the back feet slip now, and which of the intervals
#    change?
# 3. … you remove one leg from `LEGS`? How many numbers are free, and are the normal forces
#    determined?
#
# Next: `20_bolted_leg.py`, where a bolt can also pull.


# %%
def draw():
    """The range of friction at a back and at a front leg as the push grows."""
    from matplotlib.figure import Figure

    from cdopt.plots.palette import look

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for k, (panel, leg) in enumerate(zip(panels, ("back", "front"), strict=True)):
        i = 2 * k
        low, high = np.array([[-r.upper_t[i, 0], -r.lower_t[i, 0]] for r in reports]).T
        panel.fill_between(pushes, low, high, color="#cfe0f0", label="admissible friction")
        panel.plot(pushes[:-1], -elastic[:, k], color="#1a1a1a", label="equal elastic feet")
        for name, answer in answers.items():
            house = look(name)
            style = {"marker": house.marker, "color": house.colour, "linestyle": "none"}
            panel.plot(PUSH, -answer.f_t[i, 0], markersize=7, label=house.name, **style)
        panel.set(title=f"a {leg} leg", xlabel="push [N]")
        panel.spines[["top", "right"]].set_visible(False)
        panel.axhline(0.0, color="#8a8a8a", linewidth=0.6)
    panels[0].set_ylabel("friction against the push [N]")
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=5)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "19_four_legs_with_friction.png")
    print("\nThe picture is in 19_four_legs_with_friction.png")
