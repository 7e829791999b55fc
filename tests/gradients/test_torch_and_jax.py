"""Steps as functions of tensors and arrays: one batch, one solve, and derivatives of all."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from steps import random_step

import cdopt
from cdopt.gradients.step_function import StepFunction

BEAM = cdopt.bank.load("beam-uniform").step
NAMES = ("F_ext", "v", "phi", "B", "M", "gap_rate")


def sliding(rng: np.random.Generator | None = None) -> cdopt.ContactStep:
    """A block on a floor, pressed and pushed aside: one contact, which slides."""
    return cdopt.ContactStep(
        np.diag([2.0, 2.0]), [[0.0, 1.0]], [0.0], [1.0, 0.0], [30.0, -20.0], 0.01,
        friction=cdopt.Friction(0.5, [[1.0, 0.0]]),
    )  # fmt: skip


def pressed() -> cdopt.ContactStep:
    """Two contacts of a body with three degrees of freedom, whose forces are determined."""
    return cdopt.ContactStep(
        [[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 1.5]],
        [[1.0, 0.5, 0.2], [0.9, -0.5, 0.1]],
        [1e-3, 0.0], [0.1, -0.2, 0.0], [-20.0, 0.4, 1.0], 0.01,
        stiffness=[1.0, 2.0], gap_rate=[0.01, 0.0],
    )  # fmt: skip


CASES: dict[str, tuple[Any, Any, Any, tuple[str, ...]]] = {
    "classic": (cdopt.ClassicCD, pressed(), ("v_next", "load", "f"), NAMES),
    "compatible": (cdopt.CompatibleCD, BEAM, ("f",), ("F_ext", "stiffness", "power", "v")),
    "coulomb": (
        cdopt.FrictionalCD,
        sliding(),
        ("v_next", "f", "f_t"),
        ("F_ext", "mu", "v", "B_t", "rate", "dt"),
    ),
    "associated": (
        lambda step: cdopt.FrictionalCD(step, "associated"),
        sliding(),
        ("v_next",),
        ("F_ext", "mu", "phi"),
    ),
}


def values_of(name: str, many: int = 3) -> dict[str, np.ndarray]:
    """The data of a case, and again near there: (n, …) each."""
    names = CASES[name][3]
    rng, function = np.random.default_rng(5), StepFunction(*CASES[name][:3])
    near = {}
    for key in names:
        base = function.data[key]
        size = 1e-3 * (np.abs(base) if key in ("M", "B", "B_t") else np.abs(base).max() or 1e-3)
        near[key] = base + size * rng.standard_normal((many, *base.shape))
    near |= {"M": np.repeat(function.data["M"][None], many, 0)} if "M" in names else {}
    return near


@pytest.mark.parametrize("name", CASES)
def test_a_batch_has_results_and_cotangents_of_each_step(name: str) -> None:
    make, step, outputs, names = CASES[name]
    function, values = StepFunction(make, step, outputs), values_of(name)
    solved, rng = function.solve(values), np.random.default_rng(2)
    weights = {key: rng.standard_normal(rows.shape) for key, rows in solved.results.items()}
    pulled = solved.vjp(weights, names)
    for k in range(3):
        posed = make(function._at({key: rows[k] for key, rows in values.items()}))
        alone = cdopt.gradients.of(posed)
        own = alone.vjp(**{key: rows[k] for key, rows in weights.items()})
        assert alone.outputs.keys() >= set(outputs)
        for key in names:
            entries = own[key].data if hasattr(own[key], "data") and key in "MBB_t" else own[key]
            entries = np.asarray(entries)
            at = 1e-8 * max(1.0, np.abs(entries).max())
            np.testing.assert_allclose(pulled[key][k], entries, atol=at, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_torch_gradcheck(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, step, outputs, _ = CASES[name]
    run = cdopt.gradients.torch.layer(make, step, outputs)
    tensors = [
        torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for value in values_of(name, 2).values()
    ]

    def function(*given: Any) -> Any:
        return run(**dict(zip(values_of(name, 2), given, strict=True)))

    assert torch.autograd.gradcheck(function, tensors, eps=1e-6, atol=1e-4, rtol=1e-5)


BANK = ("beam-uniform", "supports", "tripod", "rank-deficient", "duplicated-contacts",
        "beam-middle-open", "table", "lone-drop", "impact", "rising-floor")  # fmt: skip
OF_BANK = [(cdopt.ClassicCD, "v_next", "v"), (cdopt.CompatibleCD, "f", "stiffness")]


@pytest.mark.parametrize("name", BANK)
@pytest.mark.parametrize(("make", "output", "other"), OF_BANK)
def test_small_problems_of_the_bank(name: str, make: Any, output: str, other: str) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from jax.test_util import check_grads

    step, names = cdopt.bank.load(name).step, ("F_ext", other)
    data = StepFunction(make, step, output).data
    values = [torch.tensor(data[key].copy(), requires_grad=True) for key in names]
    run = cdopt.gradients.torch.layer(make, step, output)

    def function(*given: Any) -> Any:
        return run(**dict(zip(names, given, strict=True)))

    assert torch.autograd.gradcheck(function, values, eps=1e-6, atol=1e-4, rtol=1e-4)
    with jax.enable_x64(True):
        mapped = cdopt.gradients.jax.layer(make, step, output)
        given = {key: jax.numpy.asarray(data[key]) for key in names}
        how = {"order": 1, "modes": ("rev",), "eps": 1e-6, "atol": 1e-3, "rtol": 1e-3}
        check_grads(lambda values: mapped(**values), (given,), **how)


def test_torch_batches_and_refusals() -> None:
    torch = pytest.importorskip("torch")
    run = cdopt.gradients.torch.layer(cdopt.ClassicCD, BEAM, "v_next")
    load = torch.tensor([[10.0, 0.0], [20.0, 0.0]], dtype=torch.float64, requires_grad=True)
    start = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    moved = run(F_ext=load, v=start)  # both are lifted: free flight
    flight = load.detach().numpy() * BEAM.dt / BEAM.mass.diagonal
    np.testing.assert_allclose(moved.detach().numpy(), flight, atol=1e-12)
    moved.sum().backward()
    np.testing.assert_allclose(start.grad.numpy(), [2.0, 2.0], atol=1e-9)  # of both steps
    assert run(F_ext=load[0].detach()).shape == (2,)
    with pytest.raises(cdopt.InvalidInput, match="float64"):
        run(F_ext=load.float())
    with pytest.raises(cdopt.InvalidInput, match="no such data"):
        run(weight=load)
    with pytest.raises(cdopt.InvalidInput, match="one of v_next"):
        cdopt.gradients.torch.layer(cdopt.ClassicCD, BEAM, "forces")
    with pytest.raises(cdopt.InvalidInput, match="leading axes"):
        run(F_ext=load, v=torch.zeros((3, 2), dtype=torch.float64))
    force = cdopt.gradients.torch.layer(cdopt.ClassicCD, BEAM, "f")
    down = torch.tensor([-10.0, 0.0], dtype=torch.float64, requires_grad=True)
    with pytest.raises(cdopt.Unsupported, match="not determined"):
        force(F_ext=down)[0].backward()


@pytest.mark.parametrize("name", CASES)
def test_jax_check_grads(name: str) -> None:
    jax = pytest.importorskip("jax")
    from jax.test_util import check_grads

    make, step, outputs, _ = CASES[name]
    with jax.enable_x64(True):
        run = cdopt.gradients.jax.layer(make, step, outputs)
        given = {key: jax.numpy.asarray(rows) for key, rows in values_of(name, 2).items()}

        def function(data: Any) -> Any:
            return run(**data)

        check_grads(function, (given,), order=1, modes=("rev",), eps=1e-6, atol=1e-3, rtol=1e-4)


def test_jax_compiles_and_maps() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        run = cdopt.gradients.jax.layer(cdopt.CompatibleCD, BEAM, "f")
        stiffness = jax.numpy.asarray([[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [2.0, 1.0, 3.0]])

        def middle(k: Any) -> Any:
            return run(stiffness=k)[..., 1]

        each = jax.jit(jax.vmap(jax.grad(middle)))(stiffness)
        together = jax.grad(lambda k: middle(k).sum())(stiffness)
        np.testing.assert_allclose(each, together, atol=1e-9)
        for k, found in zip(np.asarray(stiffness), np.asarray(each), strict=True):
            legs = cdopt.CompatibleCD(BEAM.replace(stiffness=k))
            alone = cdopt.gradients.vjp(legs, f=[0.0, 1.0, 0.0])["stiffness"]
            np.testing.assert_allclose(found, alone, atol=1e-9)
        with pytest.raises(cdopt.InvalidInput, match="float64"):
            run(stiffness=jax.numpy.ones(3, dtype="float32"))


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "jax"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(cdopt.Unsupported, match=f"not installed: pip install {name}$"):
            getattr(cdopt.gradients, name).layer(cdopt.ClassicCD, BEAM)


def test_random_steps_side_by_side() -> None:
    """Matrices, joints and restitution of each step by itself."""
    rng = np.random.default_rng(8)
    step = random_step(rng, 3, 6, 1, 2)
    function = StepFunction(cdopt.ClassicCD, step, ("v_next", "load"))
    names = ("F_ext", "v", "J", "joint_rate", "dt")
    values = {
        key: function.data[key] * (1.0 + 1e-2 * rng.standard_normal((2, *function.shapes[key])))
        for key in names
    }
    solved = function.solve(values)
    weights = {key: rng.standard_normal(rows.shape) for key, rows in solved.results.items()}
    pulled = solved.vjp(weights, names)
    size = 1e-6
    for key in names:
        way = rng.standard_normal(values[key].shape)
        ends = []
        for sign in (1.0, -1.0):
            there = {**values, key: values[key] + sign * size * way}
            found = function.solve(there).results
            ends.append(sum(float((found[r] * weights[r]).sum()) for r in found))
        slope = (ends[0] - ends[1]) / (2.0 * size)
        assert slope == pytest.approx(float((pulled[key] * way).sum()), rel=1e-5, abs=1e-6), key
