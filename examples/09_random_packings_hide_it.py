# %% [markdown]
# # Random packings hide it
#
# If contact forces are so undetermined, why do people who compute heaps of sand not complain?
# **Because in a heap of random grains the forces are determined**, every one of them. This lesson
# shows why, and how little it takes to change this.
#
# You need lessons 3 and 7. All is in the plane: discs in a box, without friction.

# %%
import numpy as np

import cdopt
from cdopt import plots
from cdopt.scene import Body, HalfSpace, Scene, Sphere, Spheres, State

spread = 0.3  # radii of the random discs lie within ± this share
rows, columns = 6, 8  # of the crystal


def at_rest(scene, dt=4e-3, duration=0.8):
    """The contact step of a scene after it has settled."""
    end = cdopt.simulate(scene, dt, duration, "classic-cd", every=1_000_000).final
    state = State(0.0, end.q, np.zeros_like(end.v))
    contacts = cdopt.collision.detect(scene, state)
    return cdopt.collision.step(scene, state, contacts, dt)


def count(name, step):
    """Count contacts, equations and free numbers; return the report."""
    report = cdopt.indeterminacy(step, contacts=0)
    unique = report.unique[report.closed].mean()
    print(f"{name:>16}: {report.closed_count:3} contacts - {report.rank:3} equations = nullity "
          f"{report.nullity:2}, {report.nullity / report.closed_count:.2f} per contact; "
          f"{unique:.0%} of the forces are unique")  # fmt: skip
    return report


# %% [markdown]
# ## A heap and a crystal
#
# Forty discs of random sizes fall into a box and come to rest. Next to them, a crystal: 45 discs of
# one size, in rows, every second row shifted by half a disc.

# %%
heap_scene = cdopt.scene.random_packing(40, dim=2, across=6, spread=spread)
heap = at_rest(heap_scene)
crystal_scene = cdopt.scene.crystal(rows, columns)
crystal = at_rest(crystal_scene, 1e-3, 5e-3)
reports = {"random heap": count("random heap", heap), "crystal": count("crystal", crystal)}

# %% [markdown]
# The heap has 80 contacts and 40 discs with two ways to move each: 80 equations. **Not one
# contact too many.** Every force follows from balance, every solver returns it, and stiffness
# does not matter. Engineers call this *isostatic*. In the crystal 33 numbers are free and not one
# force is unique.
#
# ## Why exactly as many as needed?
#
# *At least* as many, because a heap at rest holds each disc against each way to move; with fewer
# contacts something would still roll. *At most* as many, because a contact is a coincidence: two
# rigid discs touch when their gap is *exactly* zero. Forty discs have 80 numbers for where they
# are, and with these one can make 80 gaps zero. An 81st gap would be zero only by coincidence,
# which does not happen with random radii. So the count of contacts settles between "at least" and
# "at most", which are the same number.
#
# In a crystal this coincidence is built in: once the first gaps close, the others close too,
# because all discs are equal.
#
# ## How equal is equal?
#
# Make the discs of the crystal a little smaller, each at random by up to a given share of its
# radius, and let it settle again.


# %%
def disordered(share, seed=0):
    """The crystal, each radius smaller by a random share of up to this."""
    bodies = crystal_scene.bodies
    walls, discs = bodies.table(HalfSpace), bodies.table(Sphere)
    smaller = 1.0 - share * np.random.default_rng(seed).random(discs.body.size)
    return Scene(
        [
            *(Body(HalfSpace(n), bodies.position[i])
              for i, n in zip(walls.body, walls.columns["normal"], strict=True)),
            Spheres(bodies.position[discs.body], discs.columns["radius"] * smaller, density=2000.0),
        ],
        dim=2,
    )  # fmt: skip


nearly = {share: at_rest(disordered(share), 1e-3, 0.1) for share in (1e-2, 1e-5)}
for share, step in nearly.items():
    reports[f"equal to {share:g}"] = count(f"equal to {share:g}", step)

# %% [markdown]
# If radii differ in the *fifth digit*, all 33 free numbers are gone. You could not see the
# difference to the perfect crystal. It still has 123 places where discs nearly touch, but in 33
# of them there is now a gap, perhaps of a few nanometres, and rigid discs do not push across a
# gap.
#
# Does this settle the question? Look at the answer it gives: 33 contacts without any force, chosen
# by digits that nobody measured. Draw other digits, and others are chosen.

# %%
answers = [nearly[1e-5], *(at_rest(disordered(1e-5, seed), 1e-3, 0.1) for seed in (1, 2))]
forces = []
for step in answers:
    f = cdopt.ClassicCD(step).solve("newton").f
    number = {tuple(pair): i for i, pair in enumerate(crystal.bodies.tolist())}
    places = [number[tuple(pair)] for pair in step.bodies.tolist()]
    everywhere = np.zeros(crystal.nc)
    everywhere[places] = f
    forces.append(everywhere)
unit = crystal_scene.bodies.mass[-1] * 9.81  # N, the weight of a disc
differ = np.ptp(forces, axis=0).max() / unit
print(f"\nthree crystals, equal to five digits: forces differ by up to {differ:.1f} weights")

# %% [markdown]
# Each of the three is *determined*, every solver agrees, and they differ by fifteen times a
# disc's weight. The forces are as uncertain as before: now they depend on the fifth digit of the
# radii instead of the solver.
#
# ## What brings it back
#
# Real grains are not rigid. Under load they flatten, and a flattened contact closes the gaps near
# it. Let gaps up to some width count as closed, and count again.

# %%
widths = np.logspace(-9, -4, 26)  # m
radius = 0.005  # m


def free_numbers(step, width):
    """Nullity per contact when gaps up to a width (m) are closed."""
    closed = step.B.toarray()[step.phi <= width]
    return 1.0 - np.linalg.matrix_rank(closed, tol=1e-6) / len(closed)


curves = {"random heap": heap, "equal to 0.01": nearly[1e-2], "equal to 1e-05": nearly[1e-5]}
curves = {name: [free_numbers(step, w) for w in widths] for name, step in curves.items()}
for w in (1e-9, 1e-7, 1e-6, 1e-5):
    row = ", ".join(f"{name} {np.interp(w, widths, c):.2f}" for name, c in curves.items())
    print(f"flattening by {w * 1e9:6.0f} nm, free numbers per contact: {row}")

# %% [markdown]
# For the crystal equal to five digits, a micrometre is enough for all of the perfect crystal's
# freedom, and with it for the need to ask about stiffness. The heap stays determined until its
# grains are squeezed by thousandths of their size.
#
# So indeterminacy comes back with **order** (crystals, walls of bricks), with **flat faces** (a box
# on a floor touches at four corners, lesson 3), with **stiff bodies on many supports** (lesson 1),
# with **softness or pressure** that close more gaps than motion needs, and with **friction**, which
# adds unknown forces but no contacts. A benchmark made of random spheres has none of these: every
# solver agrees on it, and nothing has been tested.
#
# ## What happens if…
#
# 1. … the discs of the heap are all of one size, `spread = 0.0`? Is falling at random enough?
# 2. … the crystal is larger, `rows, columns = 10, 12`? What becomes of the nullity per contact?
# 3. … the disorder is smaller still, `nearly[1e-5] = at_rest(disordered(1e-9), 1e-3, 0.1)` before
#    the curves are drawn? At some point the certificates' own tolerance calls a gap closed. Who
#    decides, then, what is determined?
#
# Next: `10_the_bridge.py`, where contacts are springs, ever stiffer ones.


# %%
def draw():
    """Heap and crystal with their forces, and how softness brings the freedom back."""
    from matplotlib.collections import EllipseCollection, LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.4, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=(1, 1.15, 1.25))
    shown = [("random heap", heap, heap_scene), ("crystal", crystal, crystal_scene)]
    for axes, (name, step, scene) in zip(panels, shown, strict=False):
        discs = scene.bodies.table(Sphere)
        radii = np.zeros(scene.nb)
        radii[discs.body] = discs.columns["radius"]
        f = cdopt.CompatibleCD(step).solve("newton").f
        reach = radii[step.bodies]
        ends = np.stack([step.points - reach[:, :1] * step.normals,
                         step.points + reach[:, 1:] * step.normals], axis=1)  # fmt: skip
        at = {int(b): ends[i, s] for i, pair in enumerate(step.bodies) for s, b in enumerate(pair)}
        seen = [b for b in discs.body.tolist() if b in at]
        wide = 2 * radii[seen]
        axes.add_collection(EllipseCollection(
            wide, wide, 0 * wide, units="xy", offsets=[at[b] for b in seen],
            offset_transform=axes.transData, facecolors="#f1f1ef", edgecolors="#c4c4c4",
        ))  # fmt: skip
        colour = "#0072B2" if reports[name].nullity == 0 else "#D55E00"
        axes.add_collection(LineCollection(
            list(ends), linewidths=0.2 + 4.0 * f / f.max(), colors=colour, capstyle="round"
        ))  # fmt: skip
        axes.margins(0.09, 0.16)
        axes.autoscale_view()
        axes.set_aspect("equal")
        axes.axis("off")
        axes.set_title(f"{name}: {reports[name].nullity} free numbers", fontsize=10)
    axes = panels[2]
    colours = ("#0072B2", "#009E73", "#AA4499")
    for (name, curve), colour in zip(curves.items(), colours, strict=True):
        axes.semilogx(widths / radius, curve, color=colour, label=name)
    whole = reports["crystal"].nullity / reports["crystal"].closed_count
    axes.axhline(whole, color="#D55E00", linestyle="--", linewidth=1, label="perfect crystal")
    axes.set(xlabel="gaps that close [radii]", ylabel="free numbers per contact")
    axes.set_title("softness brings it back", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc=(0.46, 0.4))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "09_random_packings_hide_it.png")
    print("\nThe picture is in 09_random_packings_hide_it.png")
