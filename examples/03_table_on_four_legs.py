# %% [markdown]
# # A table on four legs
#
# A square table weighs 10 N, evenly spread, and stands on four equal legs. **Is each leg's force
# a quarter of the weight?** Most textbooks agree. A café table that rocks does not.
#
# You need lesson 1 for the words *nullity*, *interval* and *compatible*.

# %%
import numpy as np

import cdopt
from cdopt import bank, plots

weight = 10.0  # N
legs = ["front left", "front right", "back right", "back left"]
table = bank.generators.table().replace(contact_ids=legs)  # 1 m by 1 m, a leg at each corner

# %% [markdown]
# ## Count
#
# A table top can fall, tip left or right, and tip back or forth: three equations. Four forces,
# three equations: nullity 1.

# %%
report = cdopt.indeterminacy(table)

print(f"{report.nc} forces - {report.rank} equations = nullity {report.nullity}")
pattern = report.self_stress.toarray()[0].round(6)
print("forces that cancel:", dict(zip(legs, pattern.tolist(), strict=True)))
for leg, low, high in zip(legs, report.lower, report.upper, strict=True):
    print(f"{leg:>12}: anything from {low:.3g} N to {high:.3g} N")

# %% [markdown]
# The forces that cancel press on one diagonal and lift on the other. So a quarter each, 2.5 N, is
# one answer. The table is held just as well by the two legs of one diagonal alone, 5 N each, and
# by everything in between: each leg carries **anything from nothing to half the weight**.
#
# Balance alone does not imply "a quarter". Symmetry *of the legs* does: four equally stiff legs
# are squeezed equally.
#
# ## Put something on it
#
# Now let the whole weight act at another place, x metres to the right of the middle and y metres
# to the back. A load there pushes the top down and turns it: down with 10 N, about x with −10 y
# and about y with 10 x newton metres.


# %%
def loaded_at(x, y):
    """The table with its whole weight acting at (x, y), in m from the middle."""
    return table.replace(F_ext=[-weight, -weight * y, weight * x])


# %% [markdown]
# ## Give it bad legs
#
# A *soft* leg has a rubber foot, half as stiff as the others. A *short* leg ends one millimetre
# above the floor: its gap is 0.001 m where the others have 0. And next to them is a round stool
# of 10 N on three legs.

# %%
short = 1e-3  # m
stool = bank.generators.tripod().replace(contact_ids=["back", "front left", "front right"])
cases = {
    "weight in the middle": table,
    "weight off centre": loaded_at(0.2, 0.1),
    "a soft leg, back left": table.replace(stiffness=[1.0, 1.0, 1.0, 0.5]),
    "a short leg, back right": table.replace(phi=[0.0, 0.0, short, 0.0]),
    "a stool on three legs": stool,
}
reports = {name: cdopt.indeterminacy(step) for name, step in cases.items()}
forces = {name: cdopt.CompatibleCD(step).solve("newton").f for name, step in cases.items()}

for name, one in reports.items():
    print(f"\n{name} (nullity {one.nullity})")
    for leg, f, low, high in zip(one.names, forces[name], one.lower, one.upper, strict=True):
        range_ = "nothing else" if high - low < 1e-6 else f"or {low:.3g} to {high:.3g} N"
        print(f"{leg:>12}: {f:6.3f} N  {range_}")

# %% [markdown]
# Take them one by one; the first number is the compatible force, the rest is what balance permits.
#
# **Off centre.** The leg nearest the load gets more, its opposite less, as you would expect. Yet
# the intervals are still 3 N wide.
#
# **A soft leg.** It carries less: 2 N. The leg *opposite* carries 2 N as well, though nothing is
# wrong with it, and the other two take 3 N each. The count explains this: there is one free
# number, so the forces can only change along the pattern that cancels, both ends of a diagonal
# together. The intervals have not changed, because balance does not depend on the material of a
# leg.
#
# **A short leg.** It touches nothing and carries nothing, and now balance is enough: three legs
# are left, three equations, nullity 0. With the weight in the middle, the two legs of the other
# diagonal carry 5 N each and the third merely touches. That is the café table: it balances on a
# diagonal, and the next elbow rocks it.
#
# **A stool on three legs.** Three forces, three equations: 10/3 N each, whatever the legs are
# made of. On an uneven floor the stool leans a little, and stands. That is why cameras have
# tripods.
#
# A caveat about the millimetre. A rigid leg that is short by a *micrometre* carries nothing
# either. The legs of a real table are squeezed by micrometres, so that such a small gap would
# close, and the forces would lie in between. Rigid contact is a limit, taken here with fixed
# gaps.
#
# ## What happens if…
#
# 1. … the weight acts further out, `loaded_at(0.3, 0.3)`? Which leg has lost its load in the
#    compatible answer, and must it have?
# 2. … it acts right above a leg, `loaded_at(0.5, 0.5)`? The count still says 1. What is left to
#    choose, if no leg can pull?
# 3. … the leg is short by only `short = 1e-6`, a micrometre?
# 4. … the stool has a soft leg? Put `stool.replace(stiffness=[1.0, 1.0, 0.1])` among the cases.
#    Guess first.
#
# Next: `04_mixed_stiffness.py`, where the stiffness varies from soft to hard.


# %%
def draw():
    """Compatible forces of every case, over what balance permits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.subplots(2, 3, sharey=True).ravel()
    for panel, (name, report) in zip(axes, reports.items(), strict=False):
        where, height = np.arange(report.nc), report.width
        panel.bar(where, height, 0.7, bottom=report.lower, color="#cfe0f0", edgecolor="#6f8fb0")
        panel.hlines(forces[name], where - 0.4, where + 0.4, color="#1a1a1a", linewidth=3)
        for i, f in enumerate(forces[name]):
            panel.text(i, f + 0.12, f"{f:.2f}", ha="center", fontsize=9)
        panel.set_xticks(where, [leg.replace(" ", "\n") for leg in report.names], fontsize=9)
        panel.set_title(f"{name}: nullity {report.nullity}", fontsize=10)
        panel.set(xlim=(-0.6, 3.6), ylim=(0, 1.1 * max(r.upper.max() for r in reports.values())))
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("force of the leg [N]")
    axes[3].set_ylabel("force of the leg [N]")
    axes[5].axis("off")
    axes[5].text(0, 0.9, "band: every force that balance permits", color="#3d5f80", va="top",
                 transform=axes[5].transAxes)  # fmt: skip
    axes[5].text(0, 0.75, "line: the force of elastic legs\nin the limit of perfect stiffness",
                 va="top", transform=axes[5].transAxes)  # fmt: skip
    return figure


if __name__ == "__main__":
    plots.save(draw(), "03_table_on_four_legs.png")
    print("\nThe picture is in 03_table_on_four_legs.png")
