# %% [markdown]
# # Where does the thrust of an arch act?
#
# An arch of ten stones without mortar stands between two abutments. The stones press against each
# other and push the abutments apart. **How large is this thrust, where in the joints does it act,
# and when does the arch collapse?** Engineers have drawn *thrust lines* since 1675. This lesson
# draws six.
#
# You need lesson 15 for friction.

# %%
import numpy as np

import cdopt
from cdopt import plots

INNER, OUTER, ANGLE, STONES = 1.0, 1.15, 1.2, 10  # m, m, rad from the crown to the springing
DENSITY, MU = 2000.0, 0.7  # kg/m³, in the plane 1 m deep
geometry = {"radius": INNER, "thickness": OUTER - INNER, "angle": ANGLE}


def stone_arch(**changes):
    """The arch with friction in its joints."""
    stones = {"voussoirs": STONES, "density": DENSITY} | geometry | changes
    return cdopt.scene.arch(**stones).with_friction(MU)


arch = stone_arch()
touching = cdopt.collision.detect(arch, arch.initial)
step = cdopt.collision.step(arch, arch.initial, touching, dt=1e-3, friction=True)

# %% [markdown]
# ## Count
#
# A joint has two corners, each with a normal and a tangential force: eleven joints have 44 force
# components. Ten stones have 30 equations. Of the 14 undetermined numbers eleven only move
# friction from one corner of a joint to the other. The other three are the same as in a beam
# clamped at both ends: once you know thrust, height and moment in one joint, you know the
# resultant in each.

# %%
report = cdopt.indeterminacy(step, law="associated", contacts=[])
print(f"{2 * step.nc} forces, {step.nv} equations, nullity {report.nullity}")
print(f"{report.nullity - step.nc // 2} of them change the resultants of the joints")

# %% [markdown]
# ## A thrust line for every solution
#
# The sum of the forces at the two corners is the force of a joint. It acts at the *centre of
# pressure*, the point where it has the same moment as the two forces. The line through these
# points is the thrust line. It stays within the stones, because the corners can only push. The
# horizontal component of the force is the thrust. It is the same in all joints, because the
# weights are vertical.


# %%
def thrust_line(step, f, f_t):
    """Centres of pressure (joints, 2) m and the horizontal thrust, N."""
    points, normal = step.points.reshape(-1, 2, 2), f.reshape(-1, 2, 1)
    forces = step.contact_vectors(f, f_t).reshape(-1, 2, 2).sum(axis=1)
    return (normal * points).sum(axis=1) / normal.sum(axis=1), abs(forces[:, 0]).mean()


lines, thrusts = {}, {}
for backend in ("newton", "nsgs", "clarabel"):
    answer = cdopt.FrictionalCD(step, "associated").solve(backend)
    lines[backend], thrusts[backend] = thrust_line(step, answer.f, answer.f_t)
elastic = cdopt.CompatibleFriction(step, "associated", flow="associated").solve()
lines["elastic"], thrusts["elastic"] = thrust_line(step, elastic.f, elastic.f_t)
for name, thrust in thrusts.items():
    print(f"{name:>9}: thrust {thrust:.0f} N")

# %% [markdown]
# All solutions are certified, and each has a different thrust line. *Elastic* is the solution for
# equally stiff joints between abutments that do not move. Real abutments move a little.
#
# ## The least and the greatest thrust
#
# Let the right abutment slide, and push it inwards with a force. The smallest force that holds
# the arch is the least thrust; the largest force that the arch resists is the greatest. Both are
# limit loads. The position of the abutment is a new coordinate, and adds a column to the
# matrices: if all stones and the abutment moved to the right together, no gap would change. So
# the column is minus the sum of the other columns for motion to the right.


# %%
def with_sliding_abutment(step):
    """The step with one more coordinate: the motion of the right abutment to the right."""
    everything = np.tile([1.0, 0.0, 0.0], step.nv // 3)
    last = np.arange(step.nc) >= step.nc - 2  # the two corners of the last joint
    rows = [(matrix @ everything) * last for matrix in (step.B, step.friction.B_t)]
    both = (step.B, step.friction.B_t)
    B, B_t = (np.column_stack([m.toarray(), -row]) for m, row in zip(both, rows, strict=True))
    M = np.diag(np.append(step.M.diagonal(), 1.0))
    loads, nothing = np.append(step.F_ext, 0.0), np.zeros(step.nv + 1)
    friction = cdopt.Friction(step.friction.mu, B_t)
    return cdopt.ContactStep(M, B, step.phi, nothing, loads, step.dt, friction=friction)


sliding = with_sliding_abutment(step)
outward = np.append(np.zeros(step.nv), 1.0)  # N on the abutment
for name, live, sign in (("least", outward, -1.0), ("greatest", -outward, 1.0)):
    limit = cdopt.limit_load(sliding, live)
    lines[name], thrusts[name] = thrust_line(step, limit.f, limit.f_t)
    print(f"{name} thrust {sign * limit.value:.1f} N, certified: {limit.ok}")

# %% [markdown]
# ## By hand
#
# Coulomb found both in 1773. Cut the arch at its crown, and consider the part from there to a
# joint. Its weight tends to turn it inwards; the thrust at the crown prevents this. For the least
# thrust, assume that it acts at the highest point of the crown, take moments about the inner
# corner of the joint, and use the joint that requires the largest thrust. For the greatest
# thrust, use the lowest point of the crown, the outer corners, and the joint that resists the
# smallest thrust.

# %%
joints = np.linspace(0.0, ANGLE, STONES // 2 + 1)[1:]  # right of the crown
masses, places = arch.bodies.mass[1:-1], arch.initial.position[1:-1, 0]
right = places > 0.0
weight = 9.81 * np.cumsum(masses[right])
centre = 9.81 * np.cumsum((masses * places)[right]) / weight
needs = weight * (INNER * np.sin(joints) - centre) / (OUTER - INNER * np.cos(joints))
height = INNER - OUTER * np.cos(joints)  # of the crown's lowest point over the outer corner
bears = (weight * (OUTER * np.sin(joints) - centre) / height)[height > 0]
by_hand = needs.max(), bears.min()
print(f"by hand: {by_hand[0]:.1f} and {by_hand[1]:.1f} N")

# %% [markdown]
# ## How thin may it be?
#
# If a thrust line fits into the arch, the same line fits when all stones weigh twice as much. So
# not strength but *shape* determines whether an arch stands. (In 1966 Heyman made this the basis
# of the theory of masonry.) Take the weight itself as the live load: the arch bears either any
# multiple of it, or none. A half circle stands if it is thicker than 10.75 % of its mean radius,
# as Milankovitch showed in 1907 for infinitely many joints.


# %%
def stands(share):
    """Whether a half circle stands, by its thickness over its mean radius."""
    shape = {"radius": 1.0 - 0.5 * share, "thickness": share, "angle": 1.57, "voussoirs": 30}
    return np.isinf(cdopt.limit_load(stone_arch(**shape), [0.0, -1.0]).value)


thin = {share: stands(share) for share in (0.106, 0.109)}
for share, upright in thin.items():
    print(f"{100 * share:.1f} %: {'stands' if upright else 'falls'}")

# %% [markdown]
# ## A load on one stone
#
# Now load the third stone. As the load grows, the thrust line moves towards it until it touches
# the edge of the arch in four joints, alternately above and below. Each of these joints becomes a
# hinge. An arch with four hinges is a mechanism.

# %%
stone = 2  # counted from 0
loaded = cdopt.limit_load(arch, {f"voussoir {stone}": [0.0, -1000.0]})
print(loaded)
opening = loaded.rates[:, 0] > 1e-6 * loaded.rates.max()
hinges = np.flatnonzero(opening) ^ 1  # where one corner opens, the other one is the hinge
print("hinges:", [step.contact_names[i] for i in hinges])

# %% [markdown]
# By hand: let (H, V) be the force of the left abutment, and M its moment about the origin. The
# forces on the part to the left of a hinge have no moment about that hinge. Four hinges give four
# equations for H, V, M and λ.

# %%
x, y = step.points[hinges].T
left = np.arange(STONES) < hinges[:, None] // 2  # stones to the left of each hinge
dead = (9.81 * masses * left * (x[:, None] - places)).sum(axis=1)
live = 1000.0 * left[:, stone] * (x - places[stone])
if hinges.size == 4:  # else something slides
    H, V, M, multiple = np.linalg.solve(np.column_stack([y, -x, np.ones(4), live]), -dead)
    print(f"by hand: {multiple:.4f} kN, with a thrust of {H:.0f} N")

# %% [markdown]
# ## What happens if…
#
# 1. … the friction coefficient is smaller, `MU = 0.3`? Which load does the arch bear then, and
#    where does it slide? (Look at `loaded.rates[:, 1]`.)
# 2. … the arch is thicker, `OUTER = 1.3`? Which of the two thrusts changes more?
# 3. … the load is next to the crown, `stone = 4`? Is the arch stronger there?
#
# Next: `19_four_legs_with_friction.py`, on the table of lesson 3 with a horizontal force.


# %%
def draw():
    """Thrust lines of the arch under its weight, and its collapse under the load."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    standing, falling = figure.subplots(1, 2)
    beta = np.linspace(-ANGLE, ANGLE, STONES + 1)
    edges = np.array([INNER, OUTER])[:, None, None] * np.stack([np.sin(beta), np.cos(beta)], axis=1)
    velocity = 0.07 * loaded.mechanism.reshape(-1, 3) / np.abs(loaded.mechanism).max()
    for k, (v_x, v_y, turning) in enumerate(velocity):
        corners = edges[[0, 1, 1, 0], [k, k, k + 1, k + 1]]
        x, y = (corners - arch.initial.position[k + 1, :2]).T
        moved = corners + np.column_stack([v_x - turning * y, v_y + turning * x])
        for panel in (standing, falling):
            panel.fill(*corners.T, facecolor="#f3f1ec", edgecolor="#8a8a8a")
        falling.fill(*moved.T, facecolor="none", edgecolor="#0072B2", linestyle="--", zorder=3)
    colours = ("#56B4E9", "#009E73", "#E69F00", "#1a1a1a", "#D55E00", "#0072B2")
    for (name, line), colour in zip(lines.items(), colours, strict=True):
        label = f"{name}, {thrusts[name]:.0f} N"
        standing.plot(*line.T, marker="o", markersize=3, color=colour, label=label)
    standing.legend(frameon=False, loc="lower center")
    standing.set_title("thrust lines under the weight")
    line, _ = thrust_line(step, loaded.f, loaded.f_t)
    falling.plot(*line.T, color="#1a1a1a", linewidth=1, label="thrust line at collapse")
    falling.plot(*step.points[hinges].T, "o", color="#D55E00", label="hinges", zorder=4)
    falling.plot([], [], "--", color="#0072B2", label="how it falls, magnified")
    falling.legend(frameon=False, loc="lower center")
    falling.set_title(f"collapse under {loaded.value:.2f} kN on stone {stone + 1}")
    for panel in (standing, falling):
        panel.set_aspect("equal")
        panel.axis("off")
    return figure


if __name__ == "__main__":
    plots.save(draw(), "18_arch.png")
    print("\nThe picture is in 18_arch.png")
