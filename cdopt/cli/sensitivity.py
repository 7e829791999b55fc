"""``cdopt sensitivity``: derivatives of the compatible forces by the contacts' stiffness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.ensemble import largest
from cdopt.cli.options import Frictionless, Json, Law, Picture, Power, ProblemName

if TYPE_CHECKING:
    from cdopt._util.checks import FloatArray
    from cdopt.study import NamedProblem

HELP = (
    "Differentiate the compatible forces of a problem: for each contact, whose stiffness moves its "
    "force most. Exit code: 0, 1 when the input is bad or derivatives are one-sided, 2 when the "
    "problem is proven infeasible."
)
_ALIKE = 1e-6  # relative difference of derivatives that are a tie
_ROUND = 1e-12  # of the largest force: smaller derivatives are shown as zero


def sensitivity(
    problem: ProblemName,
    power: Power = None,
    frictionless: Frictionless = False,
    law: Law = None,
    flow: Annotated[
        str, typer.Option(help="Beside --law: micro-slip by coulomb, or associated (Haar–Kármán).")
    ] = "coulomb",
    plot: Picture = None,
    as_json: Json = False,
) -> None:
    """Say whose stiffness moves each compatible force most."""
    with output.errors_in_one_line():
        if plot is not None:
            cdopt.plots.check_path(plot)
        if law is not None and plot is not None:
            raise cdopt.InvalidInput("--plot", plot, "nothing beside --law")
        named = output.open_problem(
            problem, "sensitivities", frictionless, law, None if law else power
        )
        if law is not None:
            rough = cdopt.sensitivity(output.step_of(named), power, law=law, flow=flow)
            matrices = {name: getattr(rough, name) for name in ("log_stiffness", "log_ratio")}
            _tell(named, rough, rough.f[:, 0], rough.log_stiffness[:, 0], as_json, matrices)
            return
        what = {"problem": named.name, "problem_title": named.title}
        with (
            output.proof_or_error("CompatibleCD", as_json, **what),
            output.solvers_kept_quiet(to_stderr=as_json),
        ):
            if named.step is not None:
                result = cdopt.sensitivity(named.step, named.power)
            else:
                result = cdopt.sensitivity(cdopt.NoTensionTruss.of(named.truss_data))
        matrices = {"log_stiffness": result.log_stiffness, "power_derivative": result.power}
        _tell(named, result, result.f, result.log_stiffness, as_json, matrices)
        if plot is not None:
            figure = cdopt.plots.stiffness_influence(
                result, named.contact_names, title=named.name, subtitle=named.title
            )
            output.save_picture(figure, plot)


def _tell(
    named: NamedProblem,
    result: Any,
    forces: FloatArray,
    matrix: FloatArray,
    as_json: bool,
    derivatives: dict[str, FloatArray],
) -> None:
    """Normal forces (nc,) and their derivatives (nc, nc) by log k; all of them as JSON."""
    names = named.contact_names
    if as_json:
        content = {"problem": named.name, "power": named.power, "contacts": names}
        output.print_json({**content, "forces": result.f, **derivatives})
        return
    output.say(f"{named.name}: {named.title}", "dim")
    output.say(repr(result))
    columns = ("contact", "force", "own", "most moved by", "gains")
    table = output.table(*columns, numbers=columns)
    least = _ROUND * max(forces.tolist(), default=0.0)
    for i in largest(abs(matrix).max(axis=1, initial=0.0)):
        force, *row = (x if abs(x) > least else 0.0 for x in (forces[i], *matrix[i].tolist()))
        by, gains = _strongest(row, i, names)
        table.add_row(names[i], f"{force:,.4g}", f"{row[i]:,.4g}", by, f"{gains:,.4g}")
    output.console().print(table)
    output.say(
        "forces in N; own: ∂f/∂log k by the contact's own stiffness: 1 % stiffer gains a "
        "hundredth of it; gains: by that of the other contact that moves it most",
        "dim",
    )


def _strongest(row: list[float], i: int, names: Sequence[str]) -> tuple[str, float]:
    """Which other contacts move force i most, and the derivative by the first of them."""
    others = {j: abs(x) for j, x in enumerate(row) if j != i and x}
    most = max(others.values(), default=0.0)
    alike = [j for j, x in others.items() if x >= (1.0 - _ALIKE) * most]
    if not alike:
        return "none", 0.0
    more = f" (+ {len(alike) - 1} alike)" if len(alike) > 1 else ""
    return f"{names[alike[0]]}{more}", row[alike[0]]
