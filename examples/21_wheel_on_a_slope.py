# %% [markdown]
# # A wheel held on a slope by rolling friction
#
# A box stays at rest on a slope as long as friction holds it. A wheel rolls down, however rough
# the slope is. And yet a cart left on a gentle slope stays at rest. **What holds a wheel, and up
# to which slope?**
#
# You need lesson 15 for friction.

# %%
import numpy as np

import cdopt
from cdopt import plots

r, m, g = 0.3, 10.0, 9.81  # m, kg, m/s²
dt = 1e-3  # s

# %% [markdown]
# ## A wheel without rolling friction
#
# The degrees of freedom are the displacement down the slope, that normal to the slope, and the
# angle, positive when the wheel rolls down. The tangential row is the velocity of the wheel's
# lowest point down the slope, $v - r\omega$.


# %%
def wheel(slope: float, rolling: float, speed: float = 0.0) -> cdopt.ContactStep:
    """A disc on a slope (rad) with a coefficient of rolling in m, which rolls at a speed in m/s."""
    friction = cdopt.Friction(0.8, B_t=[[1.0, 0.0, -r]], rolling=rolling, B_r=[[0.0, 0.0, 1.0]])
    return cdopt.ContactStep(
        M=np.diag([m, m, 0.5 * m * r**2]),
        B=[[0.0, 1.0, 0.0]],
        phi=[0.0],
        v=[speed, 0.0, speed / r],
        F_ext=[m * g * np.sin(slope), -m * g * np.cos(slope), 0.0],
        dt=dt,
        friction=friction,
    )


slope = np.arctan(0.02)  # a fall of 2 cm in 1 m
free = cdopt.FrictionalCD(wheel(slope, rolling=0.0)).solve("newton")
print(f"acceleration {free.v_next[0] / dt:.4f} m/s²; by hand 2/3 g sin θ = "
      f"{2.0 / 3.0 * g * np.sin(slope):.4f} m/s²")  # fmt: skip
print(f"friction {-free.f_t[0, 0]:.4f} N; its limit is {0.8 * free.f[0]:.1f} N")

# %% [markdown]
# Friction is far from its limit, and a larger limit would not help: friction acts at a point that
# does not slide. It only makes the wheel turn.
#
# ## A moment that resists
#
# A real wheel and its ground are flattened at the contact. When the wheel rolls, the ground
# presses more in front of the centre than behind it, so that the normal force acts ahead of the
# centre, by at most a length $\mu_r$. Its moment $m_r$ opposes rolling, with a limit like that of
# friction:
#
# $$ |m_r| \le \mu_r f_n , $$
#
# Here $\mu_r$ is in metres: `Friction(..., rolling=0.009, B_r=...)`, where the row `B_r` is the
# angular velocity of the wheel. (Acary & Bourrier, European Journal of Mechanics A/Solids 85,
# 2021.)

# %%
mu_r = 0.009  # m: 9 mm, so that μ_r / r = 0.03
held = cdopt.FrictionalCD(wheel(slope, mu_r)).solve("newton")
print(f"speed after a millisecond: {abs(held.v_next[0]):.1e} m/s")
print(f"moment {held.f_r[0, 0]:.4f} N·m of at most {mu_r * held.f[0]:.4f} N·m")
print(f"friction {held.f_t[0, 0]:.4f} N, the weight's component along the slope")

# %% [markdown]
# The wheel stays at rest. Friction prevents its lowest point from sliding. The moment $f_T r$ of
# friction tends to turn the wheel, and rolling friction must balance it. So the wheel stays at
# rest as long as $m g \sin\theta\, r \le \mu_r m g \cos\theta$, or
#
# $$ \tan\theta \le \mu_r / r . $$
#
# A larger wheel rolls more easily. The mass makes no difference.
#
# ## Steeper and steeper

# %%
falls = np.linspace(0.0, 0.1, 21)  # tan θ
accelerations = []
for fall in falls:
    step = wheel(np.arctan(fall), mu_r)
    accelerations.append(cdopt.FrictionalCD(step).solve("newton").v_next[0] / dt)
angle = np.arctan(falls)
by_hand = 2.0 / 3.0 * g * np.maximum(np.sin(angle) - mu_r / r * np.cos(angle), 0.0)
for k in (4, 6, 8, 20):
    print(f"tan θ = {falls[k]:.3f}: {accelerations[k]:.6f} m/s², by hand {by_hand[k]:.6f}")

# %% [markdown]
# Up to $\tan\theta = 0.03$ the wheel stays at rest. Beyond, it accelerates slowly, because
# rolling friction balances most of the weight along the slope.
#
# ## Where the energy goes
#
# On level ground the wheel rolls at 1 m/s. The moment is at its limit, opposes the rotation, and
# dissipates the power $\mu_r\, \omega f_n$. How far does the wheel roll?

# %%
rolling = cdopt.FrictionalCD(wheel(0.0, mu_r, speed=1.0)).solve("newton")
power = -float(rolling.f_r[0, 0] * rolling.spin[0, 0])
print(f"power lost {power:.4f} W, by the formula {mu_r * rolling.spin[0, 0] * rolling.f[0]:.4f} W")
brake = (1.0 - rolling.v_next[0]) / dt
energy = 0.75 * m * 1.0**2  # of a disc that rolls at 1 m/s
print(f"deceleration {brake:.4f} m/s²; the wheel comes to rest after {0.5 / brake:.3f} m")
print(f"by energy: {energy:.1f} J / {mu_r / r * m * g:.3f} N = {energy / (mu_r / r * m * g):.3f} m")

# %% [markdown]
# The wheel slows down as if a force of $\mu_r / r$ times its weight braked it. Tables list this
# ratio, 0.03 here: 0.001 for a railway, 0.01 for a car, 0.3 for loose sand.
#
# ## Is the moment determined?
#
# One wheel has one contact, whose three forces follow from balance. A cart on two wheels has six
# forces and, with a body and two axles, fewer equations for them. Its moments are not determined,
# like the friction forces in lesson 19.
#
# ## What happens if…
#
# 1. … the ground is ice, `Friction(0.01, ...)`? Does rolling friction hold the wheel on this slope?
# 2. … the wheel has twice the radius, `r = 0.6`? Twice the mass, `m = 20.0`?
# 3. … it is a hoop, whose inertia is $m r^2$? Which of the numbers above change?
#
# The page *Cones* of the guide describes rolling and spinning friction in space, the page *Which
# law* the rolling friction of engines. This is the last lesson. The first is `00_counting.py`.


# %%
def draw():
    """The acceleration of a wheel over the slope, with rolling friction and without."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(0.0, mu_r / r, color="#cfe0f0")
    axes.text(0.5 * mu_r / r, 0.4, "the wheel\nrests", ha="center")
    axes.plot(falls, 2.0 / 3.0 * g * np.sin(angle), "--", color="#777777",
              label="without rolling friction")  # fmt: skip
    axes.plot(falls, by_hand, color="#1a1a1a", label="with rolling friction, by hand")
    axes.plot(falls, accelerations, "o", color="#1a1a1a", clip_on=False,
              label="contact dynamics")  # fmt: skip
    axes.axvline(mu_r / r, color="#1a1a1a", linewidth=0.8)
    axes.annotate(r"$\tan\theta = \mu_r / r$", (mu_r / r, 0.4), xytext=(6, 0),
                  textcoords="offset points")  # fmt: skip
    axes.set(xlabel=r"slope $\tan\theta$", ylabel="acceleration of the wheel [m/s²]")
    axes.set_xlim(0.0, falls[-1])
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="upper left", bbox_to_anchor=(0.31, 1.02), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    plots.save(draw(), "21_wheel_on_a_slope.png")
    print("\nThe picture is in 21_wheel_on_a_slope.png")
