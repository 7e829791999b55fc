"""The report of a study in a folder: a page, its tables as Markdown and CSV, its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cdopt._util import checks, documents
from cdopt._util.documents import markdown_cell
from cdopt._util.errors import InvalidInput
from cdopt._util.files import TEXT as TEXT_SIZE
from cdopt._util.files import read_bytes, write_text
from cdopt._util.formatting import count
from cdopt.plots import canvas, save
from cdopt.plots.palette import PALETTE, QUIET, RESERVE, look
from cdopt.study.results import Results
from cdopt.study.statistics import Profile, power_fit
from cdopt.study.table import Table
from cdopt.study.tables import (
    facts,
    growth,
    limitations,
    profiles_of,
    profiles_to_certificate,
    settings,
    tables,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]

PAGE, TEXT, LIMITS = FILES = "index.html", "report.md", "limitations.md"
_FORMATS = (".svg", ".png")
_MARK = re.compile(r"<!-- table: ([a-z]+) -->")
_MARKED = re.compile(_MARK.pattern + r"(?:(?!<!-- table: ).)*?<!-- end -->", re.DOTALL)


class ReportPicture(NamedTuple):
    """A picture to draw."""

    name: str  # fit for a file.
    caption: str  # what it shows.
    draw: Callable[[], Any]  # makes the matplotlib figure


def write(
    study: Results | str | Path,
    folder: str | Path,
    title: str = "Solvers on contact problems",
    more: Sequence[Table] = (),
    first: Sequence[Table] = (),
) -> Path:
    """Write the report of a study; returns its page.

    Parameters
    ----------
    study : its results, or its file or folder.
    folder : made where it is missing: ``index.html``, ``report.md``, ``limitations.md``, a CSV
        file for each table, an SVG and a PNG for each picture.
    title : of the page.
    more : further tables, such as ``cdopt.study.network_labels.table_of_labels`` makes.
    first : tables that come before all others.

    Raises
    ------
    InvalidInput : no records, or the folder cannot be written or has files of these names that
        are not cdopt's.
    """
    title = checks.text("title", title)
    first, more = checks.instances("first", first, Table), checks.instances("more", more, Table)
    results = study if isinstance(study, Results) else Results.read(study)
    if not results.records:
        raise InvalidInput("study", checks.describe(study), "a study with records")
    every = (*first, *tables(results), settings(results), *more)
    limits, known, shown = limitations(results), facts(results), pictures(results)
    names = [PAGE, TEXT, LIMITS, *(f"{table.name}.csv" for table in every)]
    names += [f"{picture.name}{ending}" for picture in shown for ending in _FORMATS]
    target = documents.folder_of_documents("folder", folder, names)
    embedded = []
    for picture in shown:
        figure = picture.draw()
        for ending in _FORMATS:
            save(figure, target / f"{picture.name}{ending}")
        address = documents.picture((target / f"{picture.name}.svg").read_bytes(), "svg+xml")
        embedded.append({"name": picture.name, "caption": picture.caption, "address": address})
    filled = [table for table in every if table.rows]
    contents = [*((table.name, table.title) for table in filled), ("limitations", "Limitations")]
    content = {"tables": filled, "limits": limits, "facts": known, "pictures": embedded}
    page = documents.render("study.html", title=title, contents=contents, **content)
    write_text(target / PAGE, page)
    heading, bullets = markdown_cell(title), [f"- {markdown_cell(limit)}" for limit in limits]
    text = [f"# {heading}", ""]
    for picture in shown:
        text += [f"![{picture.name}]({picture.name}.svg)", "", markdown_cell(picture.caption), ""]
    text += [table.markdown() for table in filled]
    text += ["## Limitations", "", *bullets, "", "## How it was made", ""]
    text += [f"- {markdown_cell(f'{name}: {fact}')}" for name, fact in known.items()]
    write_text(target / TEXT, "\n".join([*text, ""]))
    write_text(target / LIMITS, "\n".join([f"# {heading}: limitations", "", *bullets, ""]))
    for table in every:
        table.save_csv(target / f"{table.name}.csv")
    return target / PAGE


# --- tables in another text -------------------------------------------------------------


def write_into(path: str | Path, study: Results) -> None:
    """Write tables of a study into a Markdown file, between ``<!-- table: NAME -->`` and an end.

    Raises
    ------
    InvalidInput : no text file, no mark in it, one without an end, or with the name of no table.
    """
    path = checks.path("path", path)
    checks.instance("study", study, Results)
    known = {table.name: table for table in tables(study)}
    text = _marked(path, tuple(known))

    def replacement(match: re.Match[str]) -> str:
        rows = known[match[1]].markdown(heading=False)
        return f"<!-- table: {match[1]} -->\n{rows}<!-- end -->"

    write_text(Path(path), _MARKED.sub(replacement, text))


def check_into(path: str | Path, study: Results) -> None:
    """Check that tables can be written into a Markdown file; raises as ``write_into``."""
    checks.instance("study", study, Results)
    _marked(checks.path("path", path), tuple(table.name for table in tables(study)))


def _marked(path: Path, known: tuple[str, ...]) -> str:
    """The text of a file with marks, its line ends unchanged."""
    try:
        text = read_bytes(path, "a Markdown file", at_most=TEXT_SIZE).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("path", f"{path}: {error}", "a Markdown file") from error
    names = _MARK.findall(text)
    if not names or len(names) != len(_MARKED.findall(text)):
        found = f"{path}: " + ("a mark without an end" if names else "no mark")
        raise InvalidInput("path", found, "<!-- table: NAME --> … <!-- end -->")
    for name in names:
        checks.choice("table", name, known)
    return text


# --- pictures --------------------------------------------------------------------------


def pictures(study: Results) -> tuple[ReportPicture, ...]:
    """The pictures of a study: profiles by formulation, accuracy, growth by family."""
    shown = []
    profiles: dict[str, Panels] = {}
    for tolerance, form in study.comparisons:
        known = profiles_of(study, tolerance, form)
        if any(profile.ratios.size for profile in known.values()):
            number = count(next(iter(known.values())).problems, "problem")
            profiles.setdefault(form, {})[f"tolerance {tolerance}, {number}"] = known
    for form in profiles if len(study.tolerances) > 1 else ():
        known = profiles_to_certificate(study, form)
        number = count(next(iter(known.values())).problems, "problem")
        profiles[form][f"to a certificate at 1e-6, {number}"] = known
    for form, panels in profiles.items():
        caption = (
            f"{form}: the share of problems that a solver solves, by the certificate, within a "
            "multiple of the time of the fastest on each. To a certificate: with the quickest "
            "tolerance whose answer is certified at 1e-6."
        )
        draw = partial(_curves, panels, _profiles, f"Performance profiles, {form}")
        shown.append(ReportPicture(_file_name(f"profiles-{form}"), caption, draw))
    if accuracy := _accuracy(study):
        caption = (
            "Worst residual and time of the whole solve, medians over the problems that the "
            "solver answered, joined from loose to tight tolerance."
        )
        draw = partial(accuracy_against_time, accuracy, "Accuracy against time")
        shown.append(ReportPicture("accuracy", caption, draw))
    families: dict[str, Panels] = {}
    for (family, form, tolerance, name), runs in growth(study):
        panel = families.setdefault(family, {}).setdefault(f"{form}, {tolerance}", {})
        panel[name] = sorted(zip(runs["contacts"], runs["seconds"], strict=True))
    for family, panels in families.items():
        caption = (
            f"{family}: time of the whole solve over the number of contacts, certified runs, with "
            "the exponent of the line through them."
        )
        draw = partial(_curves, panels, _growth, f"Growth with size, {family}")
        shown.append(ReportPicture(_file_name(f"growth-{family}"), caption, draw))
    return tuple(shown)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", name)


def _accuracy(study: Results) -> Panels:
    """Median (seconds, residual) by formulation and solver, one for each tolerance."""
    runs = study.plain[study.plain["worst"].notna() & (study.plain["seconds"] > 0.0)]
    points: Panels = {}
    for (form, name), group in runs.groupby(["formulation", "solver"], sort=False):
        medians = group.groupby("tolerance")[["seconds", "worst"]].median()
        medians = medians.loc[[t for t in study.tolerances if t in medians.index]]
        pairs = list(zip(medians["seconds"], medians["worst"], strict=True))
        points.setdefault(form, {})[name] = pairs
    return points


# --- lines of a study ----------------------------------------------------------------------

_HEIGHT = 2.7  # inches
_FAR = 1e3  # times the fastest, where profiles end

Styles = dict[str, dict[str, Any]]  # by solver, of matplotlib's lines
Draw = Callable[[Any, dict[str, Any], Styles], None]
Panels = dict[str, dict[str, Any]]  # by panel and solver, what is drawn


def accuracy_against_time(points: dict[str, dict[str, Any]], title: str = "") -> Figure:
    """The residual and time of each solver, a panel for each formulation.

    ``points`` are (seconds, residual) by formulation and solver, joined in this order.

    Raises
    ------
    InvalidInput : no points, or a panel without any.
    """
    if not points or not all(points.values()):
        raise InvalidInput("points", "nothing to draw", "at least one solver in each panel")
    return _curves(points, _accuracies, title)


def _curves(panels: Panels, draw: Draw, title: str) -> Figure:
    """A panel of lines for each entry, drawn by ``draw``, and one key for all panels or each."""
    figure, axes = canvas.panels(len(panels), min(2, len(panels)), _HEIGHT)
    known: dict[str, Any] = {}
    styles = _styles(name for by_solver in panels.values() for name in by_solver)
    for panel, (name, by_solver) in zip(axes, panels.items(), strict=True):
        draw(panel, by_solver, styles)
        _name(panel, name)
        handles, labels = panel.get_legend_handles_labels()
        if draw is _growth:  # exponents differ between panels
            canvas.legend_below(panel, handles, _HEIGHT, fontsize=canvas.SMALL - 1.5, ncols=2)
        else:
            known |= {k: h for k, h in zip(labels, handles, strict=True) if k not in known}
    if known:
        style = {"ncols": min(len(known), 6), "handlelength": 2.2}
        canvas.legend(figure, known.values(), "outside lower left", **style)
    return canvas.headline(figure, title)


def _profiles(panel: Any, by_solver: Mapping[str, Profile], styles: Styles) -> None:
    ratios = [float(p.ratios.max()) for p in by_solver.values() if p.ratios.size]
    most = min(max(2.0, 1.1 * max(ratios, default=1.0)), _FAR)
    for name, profile in by_solver.items():
        tau, share = profile.steps(most)
        style = styles[name] | {"markersize": 4.5, "markevery": max(tau.size // 4, 1)}
        panel.step(tau, 100.0 * share, where="post", label=_label(name), **style)
    panel.set(xscale="log", xlim=(1.0, most), ylim=(0.0, 103.0))
    panel.set(xlabel="time over the fastest [–]", ylabel="problems solved [%]")


def _accuracies(panel: Any, by_solver: Mapping[str, Points], styles: Styles) -> None:
    for name, pairs in by_solver.items():
        x, y = np.array(pairs, dtype=np.float64).T
        panel.loglog(x, np.maximum(y, 1e-17), label=_label(name), **styles[name])
    panel.set(xlabel="time of the whole solve [s]", ylabel="worst residual [–]")


def _growth(panel: Any, by_solver: Mapping[str, Points], styles: Styles) -> None:
    for name, pairs in by_solver.items():
        x, y = np.array(pairs, dtype=np.float64).T
        label = _label(name)
        if np.unique(x).size > 1:
            label += f", ∝ n^{power_fit(x.tolist(), y.tolist()).exponent:.2f}"
        panel.loglog(x, y, label=label, **styles[name])
    panel.set(xlabel="contacts", ylabel="time of the whole solve [s]")


def _name(panel: Any, title: str) -> None:
    canvas.quiet_axes(panel)
    panel.minorticks_off()
    for axis in (panel.xaxis, panel.yaxis):
        axis.label.set_fontsize(canvas.SMALL)
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high < 20.0 * low:  # powers of ten would be too few
            subs = (1.0, 2.0, 5.0) if high > 4.0 * low else tuple(range(1, 10))
            axis.get_major_locator().set_params(subs=subs)
            axis.set_major_formatter("{x:g}")
    panel.set_title(canvas.literal(title), fontsize=canvas.TEXT, color=QUIET, loc="left")


def _label(name: str) -> str:
    backend, _, how = name.partition(" ")
    return canvas.literal(f"{look(backend).name} {how}".strip())


def _styles(names: Iterable[str]) -> Styles:
    """Line style of each solver: "osqp", or dashed for "osqp (direct)"; new styles for others."""
    styles, new = Styles(), dict[str, int]()
    for name in dict.fromkeys(names):
        backend, _, how = name.partition(" ")
        known = backend in PALETTE
        k = 0 if known else new.setdefault(backend, len(new))
        entry = look(backend) if known else RESERVE[k % len(RESERVE)]
        dash = (0, (4, 1.2)) if how else (0, (2, 1)) if k >= len(RESERVE) else "-"
        line = {"color": entry.colour, "linestyle": dash, "linewidth": 1.6}
        styles[name] = {**line, "marker": entry.marker, "markersize": 5.0}
    return styles
