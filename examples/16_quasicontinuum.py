# %% [markdown]
# # The quasicontinuum method: a few hundred discs instead of ten thousand
#
# A crystal of discs is pressed between walls, and an indenter pushes on its top. Far from the
# indenter neighbouring discs move nearly alike, and the displacement of a disc is almost the mean
# of those around it. This holds for thousands of discs. **Must every one of them be computed?**
#
# They need not be, by the *quasicontinuum method* (Tadmor, Ortiz and Phillips, 1996, for atoms).
# It selects *representative* discs, computes their displacements, and interpolates those of the
# others linearly. It assumes no material law: the energy is still the sum over every single
# contact. De Klerk and others name this method as the aim of their integrator for grains.
#
# In symbols: the displacements of all discs are u = P ū, where ū are those of the
# representatives. Equilibrium is the minimum of the energy, a convex problem. So is the
# equilibrium *among the motions P ū*, which has fewer unknowns. You need lesson 10. This lesson
# is in the plane and without friction.

# %%
import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

import cdopt
from cdopt import plots

columns, rows = 120, 80
overlap = 1e-3  # of the pressed discs, in diameters; a diameter and a stiffness are the units
load = 2.0  # on each disc under the indenter, in forces of a pressed contact

# %% [markdown]
# ## The crystal
#
# Rows of discs lie in the notches of the row below. `B` gives the rate of each contact's gap: the
# relative velocity of the two discs along the line of centres. Floor and side walls hold the
# outer discs. The load that presses the crystal together is chosen such that without the indenter
# nothing moves.

# %%
x = np.array([(i + 0.5 * (j % 2), j * np.sqrt(0.75))
              for j in range(rows) for i in range(columns - j % 2)])  # fmt: skip
pairs = cKDTree(x).query_pairs(1.001, output_type="ndarray")
normal = x[pairs[:, 1]] - x[pairs[:, 0]]
dofs = np.stack([2 * pairs[:, 0], 2 * pairs[:, 0] + 1, 2 * pairs[:, 1], 2 * pairs[:, 1] + 1], 1)
entries = (
    np.hstack([-normal, normal]).ravel(),
    (np.repeat(np.arange(len(pairs)), 4), dofs.ravel()),
)
B = sp.csr_array(entries, shape=(len(pairs), x.size))

held = (x[:, 1] < 0.1) | (x[:, 0] < 0.6) | (x[:, 0] > columns - 1.6)
free = ~np.repeat(held, 2)
pressed = np.full(len(pairs), overlap)
applied = -(B.T @ pressed)  # balances the pressed contacts
under = (x[:, 1] > x[:, 1].max() - 0.1) & (np.abs(x[:, 0] - x[:, 0].max() / 2) < 4.1)
applied[1::2] -= load * overlap * under

whole = cdopt.QuasiStatic(B, -pressed, applied, free_dofs=free,
                          dof_body=np.repeat(np.arange(len(x)), 2))  # fmt: skip
truth = whole.solve("newton")
print(f"{len(x)} discs, {len(pairs):,} contacts, {free.sum():,} unknowns: {truth.certificate.ok}")

# %% [markdown]
# ## Representative discs
#
# `Representatives.spread` selects the disc nearest to each point of a coarse grid, and the
# corners. These discs are the nodes of a triangulation, and `matrix` returns P. `cdopt.reduced`
# states the smaller problem, for the same solvers and with the same certificate.
#
# How large is the error? We measure it by the energy of indentation. A reduced crystal allows
# fewer motions, so it is always too stiff: its energy is above the exact minimum, whatever the
# mesh.


# %%
def energy(u):
    """The elastic energy beyond that of the pressed crystal, minus the work of the load."""
    c = np.maximum(pressed - B @ u, 0.0)
    return 0.5 * (c @ c - pressed @ pressed) - applied @ u


def missing(model, solution):
    """The relative error of the energy of indentation of a reduced crystal."""
    return 1.0 - energy(model.expanded(solution)) / energy(truth.u)


even = []
for spacing in (40.0, 20.0, 10.0, 5.0):
    mesh = cdopt.Representatives.spread(x, spacing)
    model = cdopt.reduced(whole, mesh.matrix(free))
    even.append((model.P.shape[1], missing(model, model.solve("newton"))))
    print(f"a grid of {spacing:4.0f} diameters: {even[-1][0]:5d} unknowns, error {even[-1][1]:.1%}")

# %% [markdown]
# ## Where to refine
#
# An even grid uses too many discs far from the indenter, where the motion is *affine*, as in a
# stretched sheet of rubber, and linear interpolation is exact. Near the indenter it is not. There
# the forces on the interpolated discs do not balance, and moving one such disc alone would reduce
# the energy. `unbalanced_energy` computes this reduction. `refined` adds representatives where it
# is largest.

# %%
mesh = cdopt.Representatives.spread(x, 15.0)
adapted = []
while not adapted or adapted[-1][1] > 0.02:
    model = cdopt.reduced(whole, mesh.matrix(free))
    solution = model.solve("newton")
    adapted.append((model.P.shape[1], missing(model, solution)))
    last, mesh = mesh, mesh.refined(model.unbalanced_energy(solution))
unknowns, error = adapted[-1]
print(
    f"\nadapted: {unknowns:,} unknowns, {free.sum() / unknowns:.0f} times fewer; error {error:.1%}"
)
print(f"contacts in the sum: {model.data.nc} of {len(pairs)}")

# %% [markdown]
# The last line uses a property of crystals. Within a triangle all contacts of one direction
# change alike, so that one of them, with the stiffness of all, gives the same energy *exactly*.
# Only contacts that cross an edge of the mesh are summed one by one.
#
# ## Summing over a few contacts only
#
# A random packing does not have this property. There one sums over *clusters* of discs around the
# representatives and multiplies by weights. This summation rule is not exact.

# %%
for radius in (1.01, 2.01, 3.01):
    weights = last.clusters(pairs, radius)
    sampled = cdopt.reduced(whole, last.matrix(free), weights)
    answer = sampled.solve("newton")
    print(f"clusters of radius {radius:.0f}: {np.count_nonzero(weights):6d} contacts, "
          f"error {missing(sampled, answer):.1%}")  # fmt: skip

# %% [markdown]
# The error of the sum adds to that of the mesh, and can be of either sign.
#
# ## What happens if…
#
# 1. … the crystal is larger, `columns, rows = 400, 250`? How many unknowns do 2 % need now?
# 2. … the indenter pushes ten times as hard, `load = 20.0`, and contacts near it open?
# 3. … the contacts follow Hertz's law, `power=2.5` in `QuasiStatic`? (Change `energy` too.)
#
# Next: `17_grasp.py`, on a box held by two fingers and by three.


# %%
def draw():
    """The mesh and the displacements around the indenter; errors of both kinds of mesh."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.9, 1))
    depth = np.linalg.norm(model.expanded(solution).reshape(-1, 2), axis=1) / overlap
    shades = left.scatter(*x.T, c=depth, s=3, cmap="Blues", vmin=0.0, linewidths=0)
    nodes = x[last.indices]
    left.triplot(*nodes.T, last.mesh.simplices, color="#555555", linewidth=0.4)
    left.scatter(*nodes.T, s=5, color="#D55E00", linewidths=0, zorder=3)
    left.set_aspect("equal")
    left.axis("off")
    left.set_title(f"{len(last.indices)} of {len(x)} discs are computed", fontsize=10)
    bar = figure.colorbar(shades, ax=left, shrink=0.7, pad=0.01)
    bar.set_label("displacement [overlaps]", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    for name, curve, colour in (("even grid", even, "#0072B2"), ("adapted", adapted, "#D55E00")):
        right.loglog(*np.transpose(curve), "o-", color=colour, markersize=3, label=name)
    right.set(xlabel="unknowns", ylabel="missing energy [%]")
    right.yaxis.set_minor_formatter("")
    right.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], labels=["2", "5", "10", "20", "50"])
    right.set_title(f"the whole crystal has {free.sum()}", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    right.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "16_quasicontinuum.png")
    print("\nThe picture is in 16_quasicontinuum.png")
