# %% [markdown]
# # The cannonball pyramid
#
# So far everything was at rest. Now something falls: a pyramid of balls, six by six at the bottom
# and one at the top, its layers first lifted a little off one another, then let go. It drops,
# closes up and comes to rest. **Do all programs agree on its motion? And on the forces on the
# floor?**
#
# This is the larger experiment of [Olsen & Kamrin](https://arxiv.org/abs/1805.07437) (2018, section
# 8.2), who drop 2,870 balls; it also runs with `n = 20`, in half a minute. You need lesson 5.

# %%
import numpy as np

import cdopt
from cdopt import plots

n = 6  # balls along a side of the base, which is glued to the floor
lift = 0.05  # of each layer over the one below, in radii
scene = cdopt.scene.pyramid(n, separation=lift)
ball = scene.bodies.mass[-1] * 9.81  # N, the weight of one
print(scene)

# %% [markdown]
# ## One time step
#
# A simulation repeats four things, here every thousandth of a second: find which balls are about to
# touch; write down B and the gaps, as you did by hand in lesson 6; solve for the new velocities and
# the forces; move. `cdopt.simulate` does this, and certifies every step.
#
# *Classic* contact dynamics solves one problem a step, by a solver of your choice. *Compatible*
# contact dynamics solves the same problem for the motion, then a second one for the forces that
# elastic balls would carry in the limit of infinite stiffness.

# %%
dt, duration = 1e-3, 0.02  # s
runs = {
    "PGS": cdopt.simulate(scene, dt, duration, "classic-cd", backend="pgs"),
    "APGD": cdopt.simulate(scene, dt, duration, "classic-cd", backend="apgd"),
    "compatible": cdopt.simulate(scene, dt, duration),
}
for name, run in runs.items():
    print(f"{name:>10}: {run}")

# %% [markdown]
# ## They agree on the motion
#
# Watch the fastest ball. For seven steps the layers fall; then the pile closes, and from the
# tenth step on nothing moves any more but the last digits. (Nothing bounces: these contacts have
# no restitution.) Nor does any ball sink into another.

# %%
compatible = runs["compatible"]
speeds = np.linalg.norm(compatible.v[:, :, :3], axis=2).max(axis=1)  # m/s
for k in range(1, len(speeds), 3):
    print(f"t = {compatible.t[k] * 1e3:4.0f} ms: fastest ball {speeds[k]:.1e} m/s")
deepest = compatible.diagnostics["overlap"].max()  # m
apart = max(np.abs(run.q - compatible.q).max() for run in runs.values())  # m
print(f"deepest overlap {deepest:.0e} m; the three runs differ by at most {apart:.0e} m in place")

# %% [markdown]
# After twenty steps the positions by the three solvers differ by at most a hundred-millionth of a
# ball. There is a theorem behind it: the velocity at the end of a step is unique. Films of the
# three runs look the same.
#
# ## They do not agree on the forces
#
# At the end 300 contacts hold 55 balls up. With three ways to move each, balance gives at most 165
# equations, so at least 135 numbers are free.


# %%
def floor(run):
    """What each ball of the base is pressed down with (n, n), in weights of a ball."""
    on_base = run.final.body_forces()[: n * n, 2]
    return -on_base.reshape(n, n) / ball


def lopsided(table):
    """How far a table of the floor is from its mirror images."""
    return max(np.abs(table - table.T).max(), np.abs(table - table[::-1]).max())


floors = {name: floor(run) for name, run in runs.items()}
largest = {name: run.final.f.max() / ball for name, run in runs.items()}
exact = floors["compatible"]
off = {name: np.linalg.norm(f - exact) / np.linalg.norm(exact) for name, f in floors.items()}
print(f"{'':10}  largest force  on the floor  most on a ball  floor off by  lopsided by")
for name, table in floors.items():
    print(f"{name:>10}  {largest[name]:13.3f}  {table.sum():12.6f}  {table.max():14.3f}"
          f"  {off[name]:12.1%}  {lopsided(table):11.0e}")  # fmt: skip

# %% [markdown]
# Read the columns from left to right.
#
# - **Largest force.** PGS returns a fifth more than elastic balls would have, APGD two per cent.
# - **On the floor.** All compute 55 weights, as balance requires.
# - **Floor off by.** But *where* the weight goes is wrong by several per cent. On the paper's pile
#   of 2,870 balls it is 17 per cent for APGD and 19 for PGS.
# - **Lopsided by.** The pile looks the same from all four sides, but the forces by PGS do not: the
#   loads of balls that are mirror images differ by a quarter of a weight, only because of the order
#   in which contacts are numbered. APGD changes all forces at once and keeps the symmetry; so
#   symmetry is no proof that a force is right.
#
# ## Does the fall matter?
#
# The forces of elastic balls at rest do not depend on the fall, as long as the same contacts
# close. Start from a pile that was never lifted, and compare.

# %%
at_rest = cdopt.simulate(cdopt.scene.pyramid(n, separation=0.0), dt, dt).final
forgotten = np.abs(at_rest.f - compatible.final.f).max() / ball
print(f"\ncompatible forces, dropped or not, differ by {forgotten:.0e} of a ball's weight")

# %% [markdown]
# ## Keep it, turn it around
#
# The same from the command line, with a file that ParaView opens as well:
#
#     cdopt simulate pyramid:n=6 --out pile.vtkhdf
#     cdopt show pile.vtkhdf --plot pile.png --page pile.html
#
# The page (`pip install k3d`) shows all steps in space, with the forces of both kinds.
#
# ## What happens if…
#
# 1. … the pile is larger, `n = 10`? Which columns grow, and which stay?
# 2. … it falls from higher, `lift = 0.5`, and you give it `duration = 0.06`? What is the same in
#    the end?
# 3. … steps are twice as long, `dt = 2e-3`? Is the pile sooner at rest? Does it still rest on the
#    same forces?
#
# Next: `08_hooke_against_hertz.py`, where the contacts have another law.


# %%
def draw():
    """The floor as three methods see it, and how the pile comes to rest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.25))
    low = min(table.min() for table in floors.values())
    top = max(table.max() for table in floors.values())
    for axes, (name, table) in zip(panels, floors.items(), strict=False):
        image = axes.imshow(table, cmap="inferno_r", vmin=low, vmax=top, origin="lower")
        axes.set_title(f"{name}: off by {off[name]:.1%}", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    bar = figure.colorbar(image, ax=panels[:3], orientation="horizontal", fraction=0.06)
    bar.set_label("pressed onto each ball of the base [weights of a ball]")
    axes = panels[3]
    axes.semilogy(compatible.t[1:] * 1e3, speeds[1:], color="#0072B2", marker="o", markersize=3)
    axes.set(xlabel="time [ms]", ylabel="fastest ball [m/s]")
    axes.set_title("the pile comes to rest", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "07_cannonball_pyramid.png")
    print("\nThe picture is in 07_cannonball_pyramid.png")
