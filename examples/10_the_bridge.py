# %% [markdown]
# # The bridge
#
# Real contacts are springs: very stiff, but springs. Rigid contact dynamics leaves forces open and
# lets *compatibility* choose among them (lessons 1 and 4). **Is its choice the one that real
# springs make?** This lesson makes the springs stiffer and stiffer, measures how far their forces
# are from the compatible ones, and reads off how fast the distance shrinks.
#
# The two sides of the bridge are two papers: Olsen and Kamrin's rigid bodies with compatible
# forces, and De Klerk and others' elastic spheres with a variational integrator. You need lesson 4.

# %%
import numpy as np
import rigid_limit

import cdopt
from cdopt import plots
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

HOOKE, HERTZ = 2.0, 2.5  # power p of the contact energy
rows, columns = 4, 5
ratio = 5.0  # hard over soft


def two_halves(law):
    """A crystal of discs between rigid walls, its left half harder than its right."""
    plain = cdopt.scene.crystal(rows, columns, diameter=1.0).bodies
    walls, discs = plain.table(HalfSpace), plain.table(Sphere)
    places = plain.position[discs.body]
    normals = walls.columns["normal"]
    left = places[:, 0] < 0.48 * columns
    return Scene(
        [*(Body(HalfSpace(n), plain.position[i]) for i, n in zip(walls.body, normals, strict=True)),
         Spheres(places, 0.5, mass=1.0, material=["hard" if own else "soft" for own in left])],
        dim=2, power=law,
        materials=[Material(name="soft", stiffness=2.0),
                   Material(name="hard", stiffness=2.0 * ratio)],
    )  # fmt: skip


# %% [markdown]
# ## This side: rigid
#
# Eighteen discs of 1 kg stand in rows on a floor, between two walls. All gaps are exactly zero. The
# hard discs are five times as stiff as the soft ones, so a contact of two soft discs has stiffness
# 1, of two hard ones 5, of one and one 5/3.

# %%
scene = two_halves(HOOKE)
weight = 9.81  # N, of a disc
bridge = rigid_limit.bridge(scene)
print(f"{bridge.step.nc:,} contacts, {bridge.nullity:,} numbers that balance leaves free")
print(f"largest compatible force: {bridge.forces.max() / weight:.3f} weights of a disc")

# %% [markdown]
# ## The other side: springs
#
# `rigid_limit.bridge` computes this limit. Its argument is a scene at rest. It multiplies all
# stiffness by κ, and computes the state in which gravity has pressed the discs together, in three
# ways:
#
# - **quasi-static**: no time at all; look for the least energy;
# - **variational**: De Klerk and others' integrator, with damping, until nothing moves;
# - **velocity-Verlet**: the integrator that nearly all codes for granular matter use.
#
# The first has no time, the others do not minimise an energy. At rest all should agree.

# %%
still, *moving = bridge.lines
size = np.linalg.norm(bridge.forces)
agree = {
    line.name: np.linalg.norm(line.forces[0] - still.forces[0]) / size for line in moving
}  # at the softest κ
print()
for line in bridge.lines:
    print(f"{line.name:>16}: {line.steps[0]:6.0f} steps at the softest, "
          f"{line.seconds.sum():5.1f} s in all, "
          f"off quasi-static by {agree.get(line.name, 0.0):.0e}")  # fmt: skip

# %% [markdown]
# ## The walk
#
# Now the distance ‖f_κ − f‖ / ‖f‖ between the springs' forces and the compatible ones.

# %%
print(f"\n{bridge}")

# %% [markdown]
# Ten times as stiff, ten times as near: **the slope is −1**. The computation of the compatible
# forces contains neither κ nor time steps nor damping, and the integrators do not use
# compatibility. Yet they agree.
#
# Why 1/κ? Springs of stiffness κ yield by something like f/κ, which moves the discs by as much and
# turns the directions of the contacts a little. Forces that balance in slightly other directions
# are slightly other forces. (If the geometry were frozen there would be nothing left to change: the
# forces of a frozen network do not depend on κ at all.) Hertz contacts yield like (f/κ)^(2/3), and
# so the slope should be −2/3.

# %%
hertz = rigid_limit.bridge(two_halves(HERTZ), methods=["quasi-static"])
slope = {"Hooke": still.slope, "Hertz": hertz.line("quasi-static").slope}
print("\n" + ", ".join(f"{law}: slope {s:+.3f}" for law, s in slope.items()))

# %% [markdown]
# ## What does not lead across
#
# Two popular ways to select forces are to take those of least norm, and to add a small term ε/2
# ‖f‖² to the problem with decreasing ε. Both give a unique answer. The term is the energy of
# equal springs, whatever the discs are made of. So it leads to the forces of equal springs, which
# are those of least norm, and these remain wrong by a quarter.

# %%
ridge = bridge.uniform
print(f"\nleast force: {bridge.minimum_norm_error:.3f} away; uniform ridge, as it fades: "
      + ", ".join(f"{e:.3f}" for e in ridge.error))  # fmt: skip

# %% [markdown]
# Contact dynamics itself can take the right springs along: one step, with compliance ε/k at each
# contact instead of one ε for all, tends to the compatible forces, and is off by an error
# proportional to ε. It is one problem instead of two, and not exact for any ε; two steps know no ε.

# %%
one = bridge.one_step
print(f"one step: from {one.error[0]:.0e} to {one.error[-1]:.0e}, slope {one.slope:+.3f}; "
      f"{bridge.seconds_one_step * 1e3:.0f} ms a solve, two steps "
      f"{bridge.seconds_two_steps * 1e3:.0f} ms")  # fmt: skip

# %% [markdown]
# ## Where the bridge ends
#
# Look at the stars in the table. When discs overlap by a millionth of their size, the overlap is
# the difference of two numbers that agree to six digits, and a time step moves a disc by less
# than the last digit of its place. `rigid_limit.bridge` measures what round-off and unfinished
# motion make of the forces, and does not fit points where that is more than a twentieth of the
# distance. *Stiffer is not more exact*: beyond some κ elastic contacts get worse, and the rigid
# limit is the better number. The difference in cost is large: thousands of steps with springs
# against one rigid step.
#
# ## What happens if…
#
# 1. … all discs are alike, `ratio = 1.0`? Is the least force then the right one? Look at which
#    bodies have no material.
# 2. … the contrast grows, `ratio = 20.0`? Does the bridge get longer?
# 3. … the law is another, `HERTZ = 4.0`? What slope do you expect from −1/(p−1)?
# 4. … you stay at the soft end, `rigid_limit.bridge(scene, [500.0, 1000.0, 2000.0])`? How deep are
#    the overlaps, and how straight is the line?
#
# Next: `11_quasi_static_loading.py`, where springs at rest are squeezed further.


# %%
def draw():
    """The distance from the compatible forces against κ and ε."""
    return rigid_limit.bridge_lines(
        bridge,
        title="Elastic contacts tend to compatible forces",
        subtitle=f"{rows:,} rows of discs between walls, the left half {ratio:g} times as stiff: "
        f"{bridge.step.nc:,} contacts, {bridge.nullity:,} free numbers.",
    )


if __name__ == "__main__":
    plots.save(draw(), "10_the_bridge.png")
    print("\nThe picture is in 10_the_bridge.png")
