"""``cdopt sensitivity``: derivatives of the compatible forces with respect to stiffness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import cdopt
from cdopt.cli import output
from cdopt.cli.ensemble import largest
from cdopt.cli.output import option

if TYPE_CHECKING:
    from cdopt._util.checks import FloatArray

_ALIKE = 1e-6  # relative difference of derivatives that are a tie
_ROUND = 1e-12  # of the largest force: smaller derivatives are shown as zero


def sensitivity(
    problem: output.ProblemName,
    power: output.Power = None,
    frictionless: output.Frictionless = False,
    law: output.Law = None,
    flow: Annotated[
        str, option("Micro-slip, with --law: coulomb or associated (Haar–Kármán).")
    ] = "coulomb",
    plot: output.Picture = None,
    as_json: output.Json = False,
) -> None:
    """Differentiate the compatible forces with respect to stiffness.

    The table shows which contact's stiffness changes each force most. Exit code: 0, 1 if the input
    is bad or derivatives are one-sided, 2 if the problem is proven infeasible.
    """
    if law is not None and plot is not None:
        raise cdopt.InvalidInput("--plot", plot, "no such option together with --law")
    named = output.open_problem(problem, "sensitivities", frictionless, law, None if law else power)
    result: Any
    if law is not None:
        result = cdopt.sensitivity(output.step_of(named), power, law=law, flow=flow)
        derivatives = {name: getattr(result, name) for name in ("log_stiffness", "log_ratio")}
    else:
        with output.solving("CompatibleCD", as_json, problem=named.name, problem_title=named.title):
            if named.step is not None:
                result = cdopt.sensitivity(named.step, named.power)
            else:
                result = cdopt.sensitivity(cdopt.NoTensionTruss.of(named.truss_data))
        derivatives = {"log_stiffness": result.log_stiffness, "power_derivative": result.power}
    names = named.contact_names
    if as_json:
        content = {"problem": named.name, "power": named.power, "contacts": names}
        output.print_json({**content, "forces": result.f, "forces_t": result.f_t, **derivatives})
    else:
        output.say(f"{named.name}: {named.title}", "dim")
        output.say(repr(result))
        _print_derivatives(names, result.f, result.log_stiffness[:: result.d])
    if plot is not None:
        draw = cdopt.plots.stiffness_influence
        output.save_picture(draw(result, names, title=named.name, subtitle=named.title), plot)


def _print_derivatives(names: Sequence[str], forces: FloatArray, matrix: FloatArray) -> None:
    """Normal forces (nc,), and which stiffness changes them most, by ``matrix`` (nc, nc)."""
    rows, least = [], _ROUND * max(forces.tolist(), default=0.0)
    for i in largest(abs(matrix).max(axis=1, initial=0.0)):
        force, *row = (x if abs(x) > least else 0.0 for x in (forces[i], *matrix[i].tolist()))
        others = {j: abs(x) for j, x in enumerate(row) if j != i and x}
        most = max(others.values(), default=0.0)
        alike = [j for j, x in others.items() if x >= (1.0 - _ALIKE) * most]
        by, gains = (names[alike[0]], row[alike[0]]) if alike else ("none", 0.0)
        by += f" (+ {len(alike) - 1} alike)" if len(alike) > 1 else ""
        rows.append((names[i], f"{force:,.4g}", f"{row[i]:,.4g}", by, f"{gains:,.4g}"))
    columns = ("contact", "force", "own", "most moved by", "gains")
    output.print_table(columns, rows, columns)
    output.say(
        "forces in N; own: ∂f/∂log k by the contact's own stiffness: 1 % stiffer gains a "
        "hundredth of it; gains: by that of the other contact that moves it most; alike: others "
        "that move it as much, up or down",
        "dim",
    )
