# %% [markdown]
# # A table with a bolted leg
#
# The table of lesson 3 weighs 10 N and stands on four legs that can only push. Now its load is on
# a shelf that extends beyond one leg. **The table tips. Can a bolt hold it, and how hard must the
# bolt pull?**
#
# You need lesson 3 for the table, and lesson 1 for the words *nullity*, *interval* and
# *compatible*.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots

weight = 10.0  # N
legs = ["front left", "front right", "back right", "back left"]
table = bank.generators.table().replace(contact_ids=legs)  # 1 m by 1 m, a leg at each corner
x = y = 0.6  # m, of the weight from the middle: 0.1 m beyond the back right leg
loaded = table.replace(F_ext=[-weight, -weight * y, weight * x])

# %% [markdown]
# ## Without a bolt
#
# Legs that can only push cannot balance a weight outside their base. Contact dynamics returns a
# motion: after one millisecond the table turns.

# %%
tips = cdopt.ClassicCD(loaded).solve("newton")
print("speeds after 1 ms, down, and about both axes:", tips.v_next.round(4))
print("gaps open at", dict(zip(legs, (tips.gap.round(4) + 0.0).tolist(), strict=True)), "m/s")

# %% [markdown]
# The back right leg alone stays on the floor.
#
# ## A bolt is an equation
#
# Bolt the front left leg to the floor and to the top. A contact has the inequality $B v \ge 0$
# and a force $f \ge 0$: its gap may open but not close further. The bolt has the equation $J v =
# 0$ and a force of either sign: its gap may not change. The row of the matrix is the same in both
# cases.

# %%
bolt = cdopt.Joints(table.B[[0]], names=["bolt"])
bolted = loaded.select([1, 2, 3]).replace(joints=bolt)
report = cdopt.indeterminacy(bolted)

print(f"3 contacts + 1 bolt - {report.rank} equations = nullity {report.nullity}")
for leg, low, high in zip(legs[1:], report.lower, report.upper, strict=True):
    print(f"{leg:>12}: from {low:.4g} N to {high:.4g} N")
print(f"        bolt: from {report.joints.lower[0]:.4g} N to {report.joints.upper[0]:.4g} N")

# %% [markdown]
# The table stays at rest. Negative forces of the bolt are tension: the bolt **must** pull with at
# least 1 N. Then the leg under the weight carries 11 N. The bolt pulls with at most 12 N; then
# that leg carries nothing, and the two legs of the other diagonal carry 11 N each. There are four
# forces and three equations, as without the bolt: a bolt changes the admissible sign of a force,
# not the nullity.
#
# ## Two contacts are no bolt
#
# One could model a bolt by two contacts, one that pushes up and one that pushes down. The motion
# is right. The forces are not: these two contacts can press against each other with any force,
# which adds a self-stress state.

# %%
pair = [0, 0, 1, 2, 3]
rows = table.B[pair].toarray() * np.array([1, -1, 1, 1, 1])[:, None]
faked = cdopt.ContactStep(
    table.M, rows, np.zeros(5), loaded.v, loaded.F_ext, loaded.dt,
    contact_ids=["bolt pushes", "bolt pulls", *legs[1:]],
)  # fmt: skip
fake = cdopt.indeterminacy(faked)
print(f"nullity {fake.nullity} instead of {report.nullity}; at most:")
print(dict(zip(fake.names, fake.upper.round(3).tolist(), strict=True)))

# %% [markdown]
# ## How hard does it really pull?
#
# Balance permits any pull from 1 to 12 N. As in lesson 4 stiffness determines the force. A bolt
# may be so stiff that it does not stretch while the legs deform, or as soft as a leg.

# %%
stiffness = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 100.0, np.inf])  # over that of a leg
pulls = []
for k in stiffness:
    step = bolted.replace(joints=cdopt.Joints(table.B[[0]], stiffness=k))
    solution = cdopt.CompatibleCD(step).solve("newton")
    pulls.append(float(solution.joint_forces[0]))
    print(f"bolt {k:5g} times as stiff as a leg: {pulls[-1]:8.4f} N, legs {solution.f.round(4)}")

# %% [markdown]
# A bolt as stiff as a leg pulls with 3.5 N, a rigid bolt with 14/3 N. The softer the bolt, the
# less it pulls, down to the 1 N that balance requires.
#
# ## Two bolts at one place
#
# For safety a second bolt is added next to the first.

# %%
two = bolted.replace(joints=cdopt.Joints(table.B[[0, 0]], names=["bolt", "second bolt"]))
together = np.array([[0.0, 0.0, 0.0, 1.0, 1.0]])  # 3 legs, 2 bolts: the sum of both bolts
safe = cdopt.indeterminacy(two, quantities={"together": together})

print(safe.summary)
print("each bolt:", safe.joints.lower, "to", safe.joints.upper, "N")
both = safe.quantity("together")
print(f"together: {both.lower[0]:.4g} to {both.upper[0]:.4g} N")

# %% [markdown]
# Two rigid bolts at one place may pull against each other without bound, so that the force of a
# single bolt is not determined. Their sum is the force of the single bolt above. This is why a
# mechanic tightens bolts with a torque wrench: it sets the tension of each bolt.
#
# ## What happens if…
#
# 1. … the weight is on the edge, `x = y = 0.5`, right above the back right leg? Must the bolt
#    pull at all?
# 2. … it is in the middle, `x = y = 0.0`? Compare the intervals with those of lesson 3. Which
#    force may now be negative? Is it?
# 3. … the back right leg, under the load, is bolted instead of the front left one?
#
# The page *Joints* of the guide describes pins, hinges and welds between moving bodies.
#
# Next: `21_wheel_on_a_slope.py`, where a contact also resists rolling.


# %%
def draw():
    """The pull of the bolt over its stiffness, with the range that balance permits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.axhspan(-report.joints.upper[0], -report.joints.lower[0], color="#cfe0f0",
                 label="every pull that balance permits")  # fmt: skip
    finite = np.isfinite(stiffness)
    axes.semilogx(stiffness[finite], -np.array(pulls)[finite], "o-", color="#1a1a1a",
                  label="elastic legs and bolt")  # fmt: skip
    axes.axhline(-pulls[-1], linestyle="--", color="#1a1a1a", label="a bolt that does not stretch")
    axes.set(xlabel="stiffness of the bolt over that of a leg", ylabel="pull of the bolt [N]")
    axes.set_ylim(0, 13)
    axes.legend(loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "20_bolted_leg.png")
    print("\nThe picture is in 20_bolted_leg.png")
