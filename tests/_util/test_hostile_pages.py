"""Every kind of page with hostile names in every place for text: no script runs in a browser."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from browser import PROGRAM, browser
from matplotlib.figure import Figure
from papers.report import Number, Report, TextTable, make_folder

import cdopt
from cdopt import InvalidInput
from cdopt._util import documents
from cdopt.plots import explore, report
from cdopt.plots.page import save_page
from cdopt.study.results import Results
from cdopt.study.table import Table


def helper(path: str) -> ModuleType:
    """A module next to the tests of another folder."""
    place = Path(__file__).parents[1] / path
    spec = importlib.util.spec_from_file_location(f"{place.stem}_of_documents", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MACHINE, record = (getattr(helper("study/made_records.py"), name) for name in ("MACHINE", "record"))
RAN = "window.ran = 1"
NAMES = (
    f"<script>{RAN}</script>", f"</script><script>{RAN}</script>",
    f"</style><script>{RAN}</script>", f'"><img src=x onerror="{RAN}">',
    f"'><img src=x onerror='{RAN}'>", f"`${{{RAN}}}`",
    f"]]><!--</title><svg onload={RAN}>", f"\u2028{RAN}\u2029//", f"{{{{ {RAN} }}}}{{% x %}}",
    f"javascript:{RAN}", "[DATA][ADDITIONAL][K3D_SOURCE]", f"');{RAN};('", "\\", "&lt;&amp;",
)  # fmt: skip
ALL = " ".join(NAMES)


def run_page(folder: Path) -> Path:
    """Title, method and names of forces come from a file; ids of contacts are not shown."""
    run = cdopt.simulate(cdopt.scene.pyramid(2), dt=1e-3, duration=2e-3)
    frames = tuple(
        dataclasses.replace(frame, forces={**frame.forces, **dict.fromkeys(NAMES, frame.f)})
        for frame in run
    )

    class Hostile(cdopt.Trajectory):
        """A run as a file with such names gives it."""

        method, dt, q, final, scene = ALL, run.dt, run.q, frames[-1], run.scene

        def __init__(self) -> None:
            """Nothing is kept here."""

        def __len__(self) -> int:
            return len(frames)

        def __getitem__(self, k: int) -> cdopt.dynamics.Frame:
            return frames[k]

    return save_page(Hostile(), folder / "run.html", title=ALL)


def study_page(folder: Path) -> Path:
    machine = dataclasses.replace(MACHINE, host=ALL, processor=ALL, versions={ALL: ALL})
    made = [record(name, NAMES[3], "crash", message=ALL, machine=machine) for name in NAMES]
    made += [record(f"{p}:n={n}", NAMES[0], seconds=0.1 * n, contacts=n, machine=machine)
             for p in NAMES[:2] for n in (2, 4, 8)]  # fmt: skip
    more = Table(ALL.replace("/", ""), ALL, ALL, NAMES, (NAMES,))
    more = dataclasses.replace(more, name="more")
    return report.write(Results.of(made), folder / "study", ALL, [more])


def reproduction_page(folder: Path) -> Path:
    place = folder / "reproduction"
    make_folder(place, ["1"])
    picture = place / "figure-01.png"
    Figure(figsize=(1, 1)).savefig(picture)
    rows = tuple(Number(name, name, 1.0, 2.0, note=name) for name in NAMES)
    made = Report(place, {1: (picture, ALL)}, rows, dict.fromkeys(NAMES, ALL), ALL)
    made.save(ALL, NAMES, TextTable(ALL, ALL, NAMES, [NAMES]))
    return made.page


def explore_page(folder: Path) -> Path:
    step = cdopt.bank.load("beam-uniform").step.replace(contact_ids=np.array(NAMES[:3]))
    posed = explore.of_step(step, name=ALL, title=ALL)
    return explore.save_page(posed, folder / "explore.html")


PAGES = {
    "run": (run_page, "document.body && document.body.dataset.frame"),
    "study": (study_page, "document.readyState === 'complete'"),
    "reproduction": (reproduction_page, "document.readyState === 'complete'"),
    "explore": (explore_page, "document.body && document.body.dataset.shown"),
}


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="no chromium here to open a page with")
def test_no_script_in_a_name_runs(tmp_path) -> None:
    pytest.importorskip("k3d", reason="pages need the extra 'pages'")
    with browser(tmp_path / "profile") as view:
        for kind, (make, ready) in PAGES.items():
            view.open(make(tmp_path), 400, 800)
            view.until(ready)
            assert view.run("window.ran === undefined"), kind
            for name in NAMES[:4]:  # shown as they are
                if kind != "explore" or name in NAMES[:3]:
                    assert name in view.run("document.body.innerText"), (kind, name)
            assert view.run("document.title").split() == ALL.split()
            if kind == "run":
                view.run("el = document.getElementById('force'); el.value = el.options[3].value;"
                         " el.oninput(); 0")  # fmt: skip
                view.until("document.body.dataset.frame")
            spoken = [words for words in view.said if '"type": "log"' not in words]
            asked = [name for name in view.asked if name.startswith(("http", "ws"))]
            assert spoken == asked == [], kind
            assert view.run("window.ran === undefined"), kind


def test_what_stands_in_a_script_cannot_end_it() -> None:
    text = documents.render("run_script.js", content={name: name for name in NAMES})
    first = text.partition("\n")[0]
    assert not set("<>&\u2028\u2029") & set(first)
    with pytest.raises(ValueError, match="not JSON compliant"):
        documents.render("run_script.js", content=float("nan"))


def test_files_of_others_are_not_overwritten(tmp_path) -> None:
    mine = tmp_path / "index.html"
    mine.write_text("<p>mine</p>")
    with pytest.raises(InvalidInput, match="no page of cdopt"):
        documents.save_page("text", mine)
    for make in (lambda place: report.write(Results.of([record("table", "osqp")]), place),
                 lambda place: make_folder(place, ["1"])):  # fmt: skip
        with pytest.raises(InvalidInput, match="not written by cdopt"):
            make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert mine.read_text() == "<p>mine</p>"
    page = explore_page(tmp_path)
    assert explore_page(tmp_path) == page  # its own it may
