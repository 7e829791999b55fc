"""The bank on disk: where it lies, and that its manifests are what they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt._util.files import problems_folder
from cdopt.bank import manifests, quantities

WANTED = {
    "beam-uniform", "beam-stiff-middle", "beam-middle-open", "stiffness-ratio", "supports",
    "supports-delassus", "duplicated-contacts", "table", "tripod", "ten-orders",
    "pyramid-hooke", "pyramid-hertz", "pyramid-species", "pyramid-falling", "crystal-2d",
    "free-flying", "lone-drop", "rising-floor", "zero-contacts", "impact", "rank-deficient",
    "fan", "unreachable-load", "squeezed",
    "fclib-box-stacks", "fclib-capsules", "fclib-periodic-box", "fclib-boxes", "fclib-spheres",
}  # fmt: skip

MANIFEST = """
title = "t"
description = "d"
source = "cdopt"
units = "SI"
kind = "step"
power = 2.0
feasible = true
step = "step.npz"
[unique]
v_next = true
contact_sum = true
f_classic = false
f_compatible = true
because = "b"
"""


def test_the_bank_holds_every_problem() -> None:
    assert set(bank.names()) == WANTED
    assert bank.names() == sorted(bank.names())


@pytest.mark.parametrize("name", sorted(WANTED))
def test_manifests_say_what_a_reader_needs(name: str) -> None:
    known = bank.manifest(name)
    for text in (known.title, known.description, known.source, known.units, known.unique.because):
        assert len(text.split()) >= 1
    assert known.power > 1.0
    assert known.reference or not known.feasible
    unique = known.unique
    assert known.feasible or not (unique.v_next or unique.contact_sum or unique.f_compatible)
    for reference in known.reference:
        asked = reference.quantity
        assert getattr(unique, asked, True), f"{asked} has a reference and is not unique"
        assert set(reference.parameters) <= set(known.parameters)


def test_files_stay_small() -> None:
    sizes = {path: path.stat().st_size for path in problems_folder().rglob("*") if path.is_file()}
    stored = {path: size for path, size in sizes.items() if path.suffix == ".hdf5"}
    ours = {path: size for path, size in sizes.items() if path not in stored}
    assert max(ours.values()) < 100_000
    assert sum(ours.values()) < 400_000
    assert max(stored.values()) < 200_000  # as published: bytes that nobody has repacked
    assert sum(stored.values()) < 700_000


def test_every_quantity_is_documented() -> None:
    names = manifests.Quantity.__args__
    assert len(names) == 9
    for name in names:
        assert name in quantities.__doc__


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("title", "titel"), "titel"),
        (("power = 2.0", 'power = "two"'), "power"),
        (('kind = "step"', 'kind = "steps"'), "kind"),
        (('because = "b"\n', ""), "because"),
        (("v_next = true", "v_next = 1"), "v_next"),
        (('step = "step.npz"\n', ""), "either a generator or a frozen step"),
        (('kind = "step"', 'kind = "truss"'), "frozen step"),
        (("feasible = true", "feasible ="), "Invalid value"),
    ],
)
def test_bad_manifests_are_refused_by_field(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(MANIFEST)
    assert manifests.decode(path).title == "t"
    path.write_text(MANIFEST.replace(*change))
    with pytest.raises(cdopt.InvalidInput, match=told) as caught:
        manifests.decode(path)
    assert str(path) in caught.value.argument


@pytest.mark.parametrize(
    "fields",
    [
        "",
        'values = 1.0\nfile = "a.npz"\nkey = "f"',
        'file = "a.npz"',
        'key = "f"',
        "values = 1.0\nunit = 3",
    ],
)
def test_a_reference_is_either_inline_or_in_a_file(tmp_path: Path, fields: str) -> None:
    path = tmp_path / "manifest.toml"
    entry = f'[[reference]]\nquantity = "nullity"\ntolerance = 0.0\nsource = "s"\n{fields}\n'
    path.write_text(MANIFEST + entry)
    with pytest.raises(cdopt.InvalidInput, match=r"reference\[0\]|reference\[\.\.\.\]"):
        manifests.decode(path)


def test_missing_and_binary_manifests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(cdopt.InvalidInput, match="manifest file"):
        manifests.decode(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(cdopt.InvalidInput, match=r"binary\.toml"):
        manifests.decode(tmp_path / "binary.toml")


def test_the_folder_is_found_in_a_wheel_and_in_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "site" / "cdopt"
    package.mkdir(parents=True)
    with pytest.raises(cdopt.CdoptError, match=r"missing.*_problems.*problems"):
        problems_folder(package)
    checkout = tmp_path / "site" / "problems"
    checkout.mkdir()
    assert problems_folder(package) == checkout
    wheel = package / "_problems"
    wheel.mkdir()
    assert problems_folder(package) == wheel
    assert problems_folder().name in ("problems", "_problems")


def test_the_frozen_step_is_the_file() -> None:
    loaded = bank.load("pyramid-falling").step
    stored = cdopt.ContactStep.load(problems_folder() / "pyramid-falling" / "step.npz")
    for name in ("phi", "v", "F_ext", "stiffness", "bodies", "normals", "points", "dof_body"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(stored, name))
    for name in ("M", "B"):
        assert abs(getattr(loaded, name) - getattr(stored, name)).max() == 0.0
    opened = np.count_nonzero(loaded.phi)
    assert opened == round(0.3 * loaded.nc)
    assert 0.0 < loaded.phi.max() < 0.3 * loaded.dt**2
    assert loaded.v[2::3].max() < 0.0


def test_the_frozen_step_has_the_contacts_of_its_generator() -> None:
    frozen, made = bank.load("pyramid-falling").step, bank.generators.pyramid_falling()
    np.testing.assert_array_equal(frozen.bodies, made.bodies)
    assert abs(frozen.B - made.B).max() < 1e-14
    assert np.count_nonzero(made.phi) == np.count_nonzero(frozen.phi)
