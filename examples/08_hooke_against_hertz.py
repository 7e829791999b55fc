# %% [markdown]
# # Hooke against Hertz
#
# Elasticity decides among the many answers. But which law of elasticity? Squeeze a spring twice
# as far and it pushes twice as hard: that is **Hooke**, force ∝ squeeze. Squeeze two *balls*
# together twice as far and they push 2.8 times as hard, because the spot where they touch grows:
# that is **Hertz**, force ∝ squeeze to the power 3/2. **What does the law change, and what can it
# not change?**
#
# You need lessons 4 and 7. In cdopt a law is one number: the power p of the energy, 2 for Hooke and
# 2.5 for Hertz, and force ∝ squeeze to the power p − 1.

# %%
import numpy as np

import cdopt
from cdopt import plots

n, HOOKE, HERTZ = 6, 2.0, 2.5
law = HERTZ  # the one to compare with Hooke


def settled(power, material="uniform", **changes):
    """The last frame of a pyramid at rest and the weight of a ball, N."""
    scene = cdopt.scene.pyramid(n, power, material, separation=0.0, **changes)
    return cdopt.simulate(scene, 1e-3, 1e-3).final, scene.bodies.mass[-1] * 9.81


# %% [markdown]
# ## What the law changes: who carries
#
# The pyramid of lesson 7, all balls alike, forces in weights of a ball.

# %%
hooke, ball = settled(HOOKE)
hertz, _ = settled(law)
apart = np.abs(hertz.f - hooke.f).max() / ball
for name, frame in (("Hooke", hooke), ("Hertz", hertz)):
    print(f"{name}: largest force {frame.f.max() / ball:.4f}, smallest on a loaded contact "
          f"{frame.f[frame.f > 1e-6 * ball].min() / ball:.4f}")  # fmt: skip
between = np.linalg.norm(hertz.f - hooke.f) / np.linalg.norm(hooke.f)
print(
    f"the two differ by up to {apart:.3f} of a ball's weight at one contact, {between:.1%} in all"
)

# %% [markdown]
# The law changes forces by a few per cent of a ball's weight, far less than the differences
# between the solvers of lesson 5. Under Hertz a contact gets stiffer when it is squeezed, so that
# large forces grow, and the largest rises. Extreme powers p show this clearly.

# %%
powers = [1.2, 1.5, 2.0, 2.5, 4.0, 10.0]
swept = [settled(power)[0].f.max() / ball for power in powers]
for power, top in zip(powers, swept, strict=True):
    print(f"p = {power:4.1f}: largest force {top:.4f}")

# %% [markdown]
# Near p = 1 a contact pushes almost equally hard however little it is squeezed: the forces become
# nearly equal, and the largest is as small as balance allows. For large p a contact hardly pushes
# at first and then like a wall.
#
# ## What the law cannot change
#
# 1. **The motion.** The law enters the second problem of a step only, the one for the forces.
# 2. **What the contacts of a ball add up to.** Every ball is held, so every sum is its weight.
# 3. **A force that balance determines.** Where there is one answer there is nothing to choose: a
#    table on three legs (lesson 3) does not know the law of its feet.

# %%
motion = np.abs(hertz.v - hooke.v).max()  # m/s
sums = np.abs(hertz.body_forces() - hooke.body_forces())[n * n :].max() / ball
stool = cdopt.bank.load("tripod").step
feet = [cdopt.CompatibleCD(stool, power).solve("newton").f for power in (HOOKE, law)]
print(f"\nvelocities differ by {motion:.0e} m/s, sums on the balls by {sums:.0e} of a weight,")
print(f"the feet of a stool by {np.abs(feet[1] - feet[0]).max():.0e} N")

# %% [markdown]
# ## Only ratios matter
#
# A force law has a stiffness, in newtons per metre (to some power). The answer does not depend on
# it. Make all balls ten thousand times softer, or a hundred times larger and heavier: in weights
# of a ball nothing changes, under either law.

# %%
changes = {"of rubber": {"young": 5e6}, "large and heavy": {"diameter": 0.25, "density": 7800.0}}
unmoved = 0.0
for power in (HOOKE, law):
    plain, own = settled(power)
    for change in changes.values():
        other, weight = settled(power, **change)
        unmoved = max(unmoved, np.abs(other.f / weight - plain.f / own).max())
print(f"\nlargest change of any force: {unmoved:.0e} of a ball's weight")

# %% [markdown]
# Why? In the rigid limit all squeezes shrink together. A power law has no length scale to
# compare them with, so doubling every stiffness halves every squeeze (or whatever p makes of it)
# and leaves the forces alone. A law with a length in it, such as a spring that stiffens after a
# micrometre, would not do that.
#
# What does *not* cancel is a ratio. Let every second ball be five times as stiff. Contacts are
# then soft–soft, soft–hard or hard–hard, as 1 : 5/3 : 5. Here p matters once more: at equal
# force, a contact k times as stiff is squeezed less by a factor of k under Hooke, but only k to
# the power 2/3 under Hertz. So the same material has a smaller effect.

# %%
pairs = np.array([1.0, 5 / 3, 5.0])  # stiffness of the pairs
mixed = {}
print("\ntwo species     squeezes at equal force   largest force   change by the species")
for name, power, plain in (("Hooke", HOOKE, hooke), ("Hertz", law, hertz)):
    mixed[name] = settled(power, "species")[0]
    squeezes = pairs ** (-1.0 / (power - 1.0))
    change = np.linalg.norm(mixed[name].f - plain.f) / np.linalg.norm(plain.f)
    words = " : ".join(f"{x:.2f}" for x in squeezes)
    print(f"{name:>11}     {words:23}   {mixed[name].f.max() / ball:13.4f}   {change:.1%}")

# %% [markdown]
# Five times the stiffness moves the forces by nearly a third, more than ten times what
# Hooke or Hertz does. If you can measure only one thing about your grains, measure how they differ,
# not by which law they are squeezed.
#
# ## What happens if…
#
# 1. … the law is much steeper, `law = 10.0`? What becomes of the change by the species?
# 2. … the hard balls are a hundred times as stiff, `settled(power, "species", modulus_ratio=100.0)`
#    in the last cell? Does the largest force grow without end? (Compare lesson 4.)
# 3. … the pile is a small one, `n = 2`? How many forces are free, and does the law still matter?
#
# Next: `09_random_packings_hide_it.py`, a heap in which no law matters at all.


# %%
def draw():
    """Largest force against p, and force against force under the two laws."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogx(powers, swept, color="#0072B2", marker="o")
    for name, power, up in (("Hooke", HOOKE, -16), ("Hertz", HERTZ, -16)):
        top = np.interp(power, powers, swept)
        left.annotate(name, (power, top), (6, up), textcoords="offset points")
    left.set_xticks(powers, [f"{p:g}" for p in powers])
    left.minorticks_off()
    left.set(xlabel="power p of the contact law", ylabel="largest force [weights of a ball]")
    left.set_title("the steeper the law, the stronger the strongest", fontsize=10)
    top = 1.05 * max(frame.f.max() for frame in mixed.values()) / ball
    right.plot([0, top], [0, top], color="#d9d9d9", zorder=0)
    right.plot(mixed["Hooke"].f / ball, mixed["Hertz"].f / ball, "o", markersize=3,
               color="#D55E00", label="two species, 1 : 5")  # fmt: skip
    right.plot(hooke.f / ball, hertz.f / ball, "o", markersize=3, color="#0072B2", label="uniform")
    right.set(xlabel="under Hooke [weights of a ball]", ylabel="under Hertz", aspect="equal")
    right.set_title("the same contacts under two laws", fontsize=10)
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "08_hooke_against_hertz.png")
    print("\nThe picture is in 08_hooke_against_hertz.png")
