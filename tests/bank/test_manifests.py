"""The bank on disk: where it lies, and that its manifests are what they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt._util.files import problems_folder
from cdopt.bank import manifests, quantities

PROBLEMS = {
    "beam-uniform", "beam-stiff-middle", "beam-middle-open", "stiffness-ratio", "supports",
    "supports-delassus", "duplicated-contacts", "table", "tripod", "ten-orders",
    "pyramid-hooke", "pyramid-hertz", "pyramid-species", "pyramid-falling", "crystal-2d",
    "free-flying", "lone-drop", "rising-floor", "zero-contacts", "impact", "rank-deficient",
    "fan", "unreachable-load", "squeezed",
    "fclib-box-stacks", "fclib-capsules", "fclib-periodic-box", "fclib-boxes", "fclib-spheres",
    "incline", "launched-box", "wedge", "painleve-rod", "ladder", "rough-wall", "rough-arch",
    "rough-pile", "rolling-sphere", "rolling-cube", "rolling-rockfall",
    "masonry",
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
REFERENCE = '[[reference]]\nquantity = "nullity"\ntolerance = 0.0\nsource = "s"\n'


def test_manifests_say_what_a_reader_needs() -> None:
    published = {name for name in PROBLEMS if name.startswith("fclib-")}
    rough = {f"{name}-friction" for name in published}
    siconos = {name for name in bank.names() if name.startswith("siconos-")}
    assert set(bank.names()) == PROBLEMS | rough | siconos
    assert len(siconos) == 28
    for name in bank.names():
        stated = bank.manifest(name)
        unique = stated.unique
        texts = (stated.title, stated.description, stated.source, stated.units, unique.because)
        assert all(text.strip() for text in texts)
        assert stated.power > 1.0
        assert bool(stated.reference) == stated.feasible
        assert stated.feasible or not (unique.v_next or unique.contact_sum or unique.f_compatible)
        for reference in stated.reference:
            assert getattr(unique, reference.quantity, True), f"{name}: {reference.quantity}"
            assert set(reference.parameters) <= set(stated.parameters)


def test_files_stay_small() -> None:
    sizes = {path: path.stat().st_size for path in problems_folder().rglob("*") if path.is_file()}
    published = [size for path, size in sizes.items() if path.suffix == ".hdf5"]
    assert max(published) < 200_000  # bytes that nobody has repacked
    assert sum(published) < 700_000
    assert sum(sizes.values()) - sum(published) < 1_200_000


def test_every_quantity_is_documented() -> None:
    assert len(manifests.Quantity.__args__) == 12
    for name in manifests.Quantity.__args__:
        assert name in quantities.__doc__


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("title", "titel"), "titel"),
        (('kind = "step"', 'kind = "steps"'), "kind"),
        (('because = "b"\n', ""), "because"),
        (('step = "step.npz"\n', ""), "either a generator or a frozen step"),
        (('step = "step.npz"', 'step = "a.npz"\nfclib = "a.hdf5"'), "either a generator or"),
        (('kind = "step"', 'kind = "truss"'), "frozen step"),
        (('kind = "step"', 'kind = "frictional"'), "coulomb and f_associated"),
        (("f_classic = false\n", ""), "f_classic and f_compatible"),
        (("feasible = true", "feasible ="), "Invalid value"),
        (("", REFERENCE), "reference"),
        (("", f'{REFERENCE}values = 1.0\nfile = "a.npz"\nkey = "f"'), "reference"),
        (("", f"{REFERENCE}values = 1.0\nunit = 3"), "reference"),
    ],
)
def test_bad_manifests_are_refused_by_field(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(MANIFEST)
    assert manifests.decode(path).title == "t"
    path.write_text(MANIFEST.replace(*change) if change[0] else MANIFEST + change[1])
    with pytest.raises(cdopt.InvalidInput, match=expected) as caught:
        manifests.decode(path)
    assert str(path) in caught.value.argument


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


def test_the_frozen_step_is_the_file_and_has_the_contacts_of_its_generator() -> None:
    loaded = bank.load("pyramid-falling").step
    stored = cdopt.ContactStep.load(problems_folder() / "pyramid-falling" / "step.npz")
    for name in ("phi", "v", "F_ext", "stiffness", "bodies", "normals", "points", "dof_body"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(stored, name))
    assert np.count_nonzero(loaded.phi) == round(0.3 * loaded.nc)
    assert 0.0 < loaded.phi.max() < 0.3 * loaded.dt**2
    assert loaded.v[2::3].max() < 0.0
    generated = bank.generators.pyramid_falling()
    np.testing.assert_array_equal(loaded.bodies, generated.bodies)
    assert abs(loaded.B - generated.B).max() < 1e-14
    assert np.count_nonzero(generated.phi) == np.count_nonzero(loaded.phi)
