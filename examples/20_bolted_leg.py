# %% [markdown]
# # A table with a bolted leg
#
# The table of lesson 3 weighs 10 N and stands on four legs that only push. Now the load stands on a
# shelf that sticks out beyond one leg. **The table tips. Can a bolt hold it, and how hard must the
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
# Legs that only push cannot hold a weight beyond them. Contact dynamics says so by a motion: after
# one millisecond the table turns.

# %%
tips = cdopt.ClassicCD(loaded).solve("newton")
print("speeds after 1 ms, down, and about both axes:", tips.v_next.round(4))
print("gaps open at", dict(zip(legs, (tips.gap.round(4) + 0.0).tolist(), strict=True)), "m/s")

# %% [markdown]
# The back right leg alone stays on the floor.
#
# ## A bolt is a row without a sign
#
# Bolt the front left leg to the floor and to the top. Where a contact says that the gap may not
# close further, $B v \ge 0$ with a force $f \ge 0$, the bolt says that it may not change at all:
# $J v = 0$, with a force of either sign. The row is the same; what it may do is not.

# %%
bolt = cdopt.Joints(table.B[[0]], names=["bolt"])
bolted = loaded.select([1, 2, 3]).replace(joints=bolt)
report = cdopt.indeterminacy(bolted)

print(f"3 contacts + 1 bolt - {report.rank} equations = nullity {report.nullity}")
for leg, low, high in zip(legs[1:], report.lower, report.upper, strict=True):
    print(f"{leg:>12}: anything from {low:.4g} N to {high:.4g} N")
print(
    f"        bolt: anything from {report.joints.lower[0]:.4g} N to {report.joints.upper[0]:.4g} N"
)

# %% [markdown]
# The table stands. Negative forces of the bolt are pulls: it **must** pull with 1 N at least. Then
# the leg under the weight carries 11 N. It may pull with 12 N, if that leg carries nothing and the
# two legs of the other diagonal 11 N each. Four numbers, three equations: the bolt changed the sign
# that a force may have, and left the count as it was.
#
# ## Two contacts are no bolt
#
# A bolt could be faked by two contacts, one that pushes up and one that pushes down. The motion is
# right. The forces are not: those two can press against each other as hard as they like, which is
# one more way for forces to cancel.

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
# Balance leaves 1 to 12 N. As in lesson 4 stiffness decides. A bolt is a stiff thing: perhaps so
# stiff that it does not stretch at all while the legs give way, perhaps as soft as a leg.

# %%
stiffness = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 100.0, np.inf])  # over that of a leg
pulls = []
for k in stiffness:
    step = bolted.replace(joints=cdopt.Joints(table.B[[0]], stiffness=k))
    solution = cdopt.CompatibleCD(step).solve("newton")
    pulls.append(float(solution.joint_forces[0]))
    print(f"bolt {k:5g} times as stiff as a leg: {pulls[-1]:8.4f} N, legs {solution.f.round(4)}")

# %% [markdown]
# As stiff as a leg the bolt pulls 3.5 N; without any give 14/3 N. The softer it is, the less it
# pulls, down to the 1 N that balance asks for.
#
# ## One bolt too many
#
# To be safe, a second bolt goes in next to the first.

# %%
two = bolted.replace(joints=cdopt.Joints(table.B[[0, 0]], names=["bolt", "second bolt"]))
together = np.array([[0.0, 0.0, 0.0, 1.0, 1.0]])  # 3 legs, 2 bolts: the sum of both bolts
safe = cdopt.indeterminacy(two, quantities={"together": together})

print(safe.summary)
print("each bolt:", safe.joints.lower, "to", safe.joints.upper, "N")
both = safe.quantity("together")
print(f"together: {both.lower[0]:.4g} to {both.upper[0]:.4g} N")

# %% [markdown]
# Two rigid bolts at one place may pull against each other without bound: nobody can say what one
# of them carries. What both carry together is what the one carried. That is why a mechanic tightens
# bolts with a torque wrench: the tension of each is *chosen*.
#
# ## What happens if…
#
# 1. … the weight stands on the edge, `x = y = 0.5`, right above the back right leg? Must the bolt
#    pull at all?
# 2. … it stands in the middle, `x = y = 0.0`? Compare the intervals with those of lesson 3. Which
#    force may now be negative, and is it?
# 3. … the back right leg, under the load, is bolted instead of the front left one?
#
# The page on joints in the guide has pins, hinges and welds between moving bodies.
#
# Next: `21_wheel_on_a_slope.py`, where a contact also resists rolling.


# %%
def draw():
    """The pull of the bolt by its stiffness, over what balance permits."""
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
