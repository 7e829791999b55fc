"""The page "What it costs", written from the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import drawing, readme
from benchmarks.child import STOLEN
from benchmarks.record import COUNTED, Row
from benchmarks.suites import GROUPS

_PARTS = ("detect", "assemble", "classic", "forces", "output", "other")
_KEY = ("problem", "task", "form", "solver", "method", "product", "threads", "n", "t", "spheres")


def write(record: dict[str, Any], out: Path) -> Path:
    """``costs.md``, the log ``study/costs.md`` and the pictures in a folder."""
    log = _log(record)
    for name, section in SECTIONS.items():
        rows = record["groups"].get(name)
        if rows:
            log += ["", f"## {_heading(name)}", "", *section(rows, out)]
    log += ["", "## What failed", "", *_failures(record["groups"])]
    path = out / "costs.md"
    path.write_text("\n".join(_summary(record, out)) + "\n")
    path = out / "study" / "costs.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(log) + "\n")
    return path


def _summary(record: dict[str, Any], out: Path) -> list[str]:
    drawn = [name for name in _DRAWN if (out / f"costs-{name}.png").is_file()]
    return [
        "# What it costs",
        "",
        *readme.lines(record),
        "",
        "Quote ratios of these times, not seconds: another machine has other times. "
        "[How it was measured, and all rows](study/costs.md).",
        *(f"\n![{name}](costs-{name}.png)\n\n*{_DRAWN[name]}*" for name in drawn),
    ]


_DRAWN = {  # pictures of the summary, and their captions
    "trusses": "Compatible forces: times of general solvers divided by that of `newton`. "
    f"Pale bars are not counted: their residual is above {COUNTED:g}.",
    "rigid": "Motion: times of general solvers divided by that of the quickest solver of cdopt.",
    "scaling": "Time of `newton` over the number of contacts.",
    "memory": "Memory of `newton` over the number of contacts.",
    "trajectory": "Twenty steps of a dropped pyramid: the share of each part in the time.",
}


def _log(record: dict[str, Any]) -> list[str]:
    machine, settings = record["machine"], record["settings"]
    packages = ", ".join(f"{k} {v}" for k, v in machine["versions"].items() if v)
    missing = ", ".join(k for k, v in machine["versions"].items() if not v)
    lines = ["# What it costs: the log", ""]
    if settings["quick"]:
        lines += ["**A quick run with small sizes: it tests the suite, and measures "
                  "nothing.**", ""]  # fmt: skip
    lines += [
        "`python -m benchmarks.run` measures one group after another, writes `costs.json`, and "
        "makes this page and its pictures from that file alone. The numbers are those of the "
        "version of cdopt of that day.",
        "",
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB; "
        f"{machine['system']}; Python {machine['python']}; {machine['date']}",
        f"- {packages}" + (f"; not installed: {missing}" if missing else ""),
        f"- Medians of {settings['repeats']:,} runs, compiled code warmed; fewer where they would "
        "take more than a minute or two fifths of the time limit. Every row is a separate "
        "process with a hard time limit; a row that reached it gives the limit.",
        f"- `residual` is the worst residual of cdopt's certificate, the same for all solvers. "
        f"Rows above {COUNTED:g} are marked *not counted*: they are run once, and left out of all "
        "ratios and fits.",
        f"- A run is repeated if the host of this virtual machine took more than {STOLEN:.0%} of "
        f"its processors. The largest share in a run that was kept is "
        f"{_stolen(record['groups']):.1%}.",
        "- General solvers get data that CVXPY compiled beforehand, and only the solver is timed, "
        "with a tolerance of 1e-10 unless the row states another. The time of `newton` goes from "
        "matrices to certified forces.",
        *([f"- {record['note']}"] if "note" in record else []),
        "",
        "Limits of the machine, measured in the same run:",
        "",
        *_table(
            record["limits"],
            [
                ("limit", lambda r: _LIMITS[r["limit"]]),
                ("threads", lambda r: r["threads"]),
                ("rate", lambda r: f"{r['per_second'] / 1e9:.1f} G{_UNITS[r['limit']]}/s"),
            ],
        ),
    ]
    return lines


_LIMITS = {"memory": "memory bandwidth (a = b + s c above all caches)", "dgemm": "dense product"}
_UNITS = {"memory": "B", "dgemm": "flop"}


# --- sections --------------------------------------------------------------------------


def _products(rows: list[Row], out: Path) -> list[str]:
    done = [r for r in rows if "ratio" in r]
    moved = [r for r in done if r["task"] == "products"]
    factored = [r for r in rows if r["task"] == "factorisation" and "ratio" in r]
    swept = [r for r in done if r["task"] == "sweep"]
    named = [(f"{r['problem']}, {_threads(r)}", r["product"], r["ratio"], True) for r in moved]
    lines = [
        "The bound of a product is the time to move its data through memory once: the entries of "
        "B, two body numbers for each contact, and every vector. A product whose arrays fit into a "
        "cache can be faster than this bound. The second ratio compares it with a = b + s c on the "
        "same number of bytes, which uses the same caches. `iteration` is one iteration of the "
        "preconditioned conjugate gradients.",
        "",
        *_picture("products", lambda p: drawing.bars(named, p, "time / bound"), named, out),
        *_table(moved, [
            ("problem", lambda r: r["problem"]), ("product", lambda r: r["product"]),
            ("threads", lambda r: r["threads"]), ("MB", lambda r: f"{r['bytes'] / 1e6:.2f}"),
            ("time", _seconds), ("time / bound", lambda r: f"{r['ratio']:.2f}"),
            ("of the same size", lambda r: f"{r['ratio_same_size']:.2f}"),
        ]),
    ]  # fmt: skip
    lines += [
        "",
        "Factorisations of newton's matrix with all contacts closed, compared with dgemm on the "
        "same number of threads. Operations are the sum of the squared column counts of the "
        "factor, or the library's count.",
        "",
        *_table(factored, [
            ("problem", lambda r: r["problem"]), ("library", lambda r: r["library"]),
            ("dofs", lambda r: f"{r['dofs']:,}"),
            ("factor entries", lambda r: f"{r['factor_entries']:,}"),
            ("Gflop", lambda r: f"{r['flops'] / 1e9:.3g}"), ("threads", lambda r: r["threads"]),
            ("time", _seconds), ("time / bound", lambda r: f"{r['ratio']:.3g}"),
        ]),
    ]  # fmt: skip
    if swept:
        lines += ["", "One projected Gauss–Seidel sweep:", "", *_table(swept, [
            ("problem", lambda r: r["problem"]), ("contacts", lambda r: f"{r['contacts']:,}"),
            ("MB", lambda r: f"{r['bytes'] / 1e6:.2f}"), ("time", _seconds),
            ("time / bound", lambda r: f"{r['ratio']:.2f}"),
        ])]  # fmt: skip
    return lines


def _preconditioners(rows: list[Row], out: Path) -> list[str]:
    return [
        "The settled pyramid on the contacts that carry force, to 1e-8. `products` is the cost of "
        "one iteration, in products with the matrix. The coarse problem of the clusters is solved "
        "exactly, so these rows bound what multigrid over the same clusters could reach. It does "
        "not help, because the soft modes of such a network are not rigid motions of clusters: "
        "loaded contacts lie in straight lines, and whole planes slide with little resistance. "
        "Therefore newton uses block SSOR, with one block for each body.",
        "",
        *_table(rows, [
            ("problem", lambda r: r["problem"]), ("dofs", lambda r: f"{r['dofs']:,}"),
            ("preconditioner", lambda r: r["preconditioner"]),
            ("iterations", lambda r: str(r.get("iterations", "failed"))),
            ("products", lambda r: f"{r['products']:.1f}"),
            ("together", lambda r: f"{r['products'] * r['iterations']:.0f}"
             if "iterations" in r else ""),
        ]),
    ]  # fmt: skip


def _neighbours(rows: list[Row], out: Path) -> list[str]:
    done = [r for r in rows if "failed" not in r]
    return [
        "Medians of wall time while no, one and two other processes keep the processors busy. The "
        "targets are at most 2.5 and 5 times the time on an idle machine.",
        "",
        *_table(done, [
            ("problem", lambda r: r["problem"]), ("kind", lambda r: r["kind"]),
            ("solver", lambda r: r["solver"]), ("threads", lambda r: r["threads_ran"]),
            *[(title, lambda r, k=k: _time(r[f"seconds_{k}"]))
              for k, title in enumerate(("idle", "one busy", "two busy"))],
            *[(f"{word} / idle", lambda r, k=k: f"{r[f'ratio_{k}']:.2f}")
              for k, word in ((1, "one"), (2, "two"))],
            ("residual", _residual),
        ]),
    ]  # fmt: skip


def _against(name: str) -> Callable[[list[Row], Path], list[str]]:
    """cdopt's and general solvers on the same problems, with the ratios of their times."""

    def section(rows: list[Row], out: Path) -> list[str]:
        ours = _base(rows)
        for r in rows:
            base = ours.get(r["problem"])
            if base is not None and "seconds" in r and not _ours(r):
                r["ratio"] = r["seconds"] / base["seconds"]
        named = [
            (f"{r['problem']}, {r.get('form', 'force')}", _solver(r), r["ratio"], _counted(r))
            for r in rows if "ratio" in r
        ]  # fmt: skip
        best = [_best(base, rows) for base in ours.values()]
        none = best.count("")
        return [
            *[line for line in best if line],
            *([f"- Problems that no general solver answered: {none}."] if none else []),
            "",
            *_picture(
                name, lambda p: drawing.bars(named, p, "time / cdopt's time"), named, out
            ),
            *_table([r for r in rows if "refused" not in r], _SOLVED),
        ]  # fmt: skip

    return section


def _base(rows: Iterable[Row]) -> dict[str, Row]:
    """The quickest counted row of cdopt's solvers for each problem."""
    counted = [r for r in rows if _ours(r) and _counted(r)]
    return {r["problem"]: r for r in sorted(counted, key=lambda r: -r["seconds"])}


def _best(base: Row, rows: Iterable[Row]) -> str:
    """A sentence on the quickest general solver of a problem; empty if none counts."""
    problem = base["problem"]
    others = [
        r for r in rows
        if r["problem"] == problem and r["task"].startswith("general") and "ratio" in r
        and _counted(r)
    ]  # fmt: skip
    if not others:
        return ""
    least = min(others, key=lambda r: r["ratio"])
    return (
        f"- `{problem}`: {_solver(least)}, the quickest counted general solver, takes "
        f"{least['ratio']:.3g} times as long as {_solver(base)} ({least['form']} form)."
    )


_LARGE = 14_000  # contacts from which on an exponent says how time grows


def _scaling(rows: list[Row], out: Path) -> list[str]:
    groups = {
        f"{who}, {material}": [
            r for r in rows
            if _counted(r) and "seconds" in r and f"-{material}:" in r["problem"]
            and r.get("solver", "newton") == who
        ]
        for material in ("hooke", "hertz") for who in ("newton", "Clarabel")
    }  # fmt: skip
    lines = {name: [(r["contacts"], r["seconds"]) for r in group] for name, group in groups.items()}
    memory = {name: [(r["contacts"], r["peak_mb"]) for r in group]
              for name, group in groups.items()}  # fmt: skip
    large = {name: [p for p in points if p[0] >= _LARGE] for name, points in lines.items()}
    return [
        *_grow(large), "",
        *_picture("scaling", lambda p: drawing.growth(lines, p, "time", least=_LARGE), rows, out),
        *_picture("memory", lambda p: drawing.growth(memory, p, "peak memory", "MB", _LARGE),
                  rows, out),
        *_table(rows, _SOLVED),
    ]  # fmt: skip


def _grow(lines: Mapping[str, Sequence[tuple[float, float]]]) -> list[str]:
    """A sentence for each line of points (contacts, s) on how fast time grows."""
    told = []
    for name, points in lines.items():
        slope = drawing.exponent(points)
        if slope is not None:
            sizes = [contacts for contacts, _ in points]
            told.append(
                f"- {name}: time grows as contacts to the power {slope:.2f}, from "
                f"{min(sizes):,.0f} to {max(sizes):,.0f} contacts."
            )
    return told


def _piles(rows: list[Row], out: Path) -> list[str]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for r in filter(_counted, rows):
        lines.setdefault(f"{r['law']} law", []).append((r["contacts"], r["seconds"]))
    return [
        *_grow(lines), "",
        *_picture("piles", lambda p: drawing.growth(lines, p, "time"), rows, out),
        *_table(rows, _SOLVED),
    ]  # fmt: skip


def _families(rows: list[Row], out: Path) -> list[str]:
    return [
        "Stiffness is random, log-uniform; `ratio` is the largest over the smallest. `made` is the "
        "time to set up the problem.",
        "",
        *_against("families")(rows, out),
    ]


def _trajectory(rows: list[Row], out: Path) -> list[str]:
    done = [r for r in rows if "failed" not in r]
    points = [(r["contacts"], r["seconds"]) for r in done]
    return [
        *_grow({"compatible-cd": points}), "",
        *_picture("trajectory", lambda p: drawing.shares(done, _PARTS, p), done, out),
        *_table(done, [
            ("layers", lambda r: r["n"]), ("steps", lambda r: r["steps"]),
            ("contacts", lambda r: f"{r['contacts']:,.0f}"), ("time", _seconds),
            *[(p, lambda r, p=p: f"{r[f'seconds_{p}'] / r['seconds']:.0%}") for p in _PARTS],
            ("residual", _residual),
        ]),
    ]  # fmt: skip


def _compatible(rows: list[Row], out: Path) -> list[str]:
    return [
        "`off` is the distance of the one-step forces, at the default ε, from the two-step forces. "
        "The certificate of the one-step method is that of the one-step problem.",
        "",
        *_table(rows, [
            ("problem", lambda r: r["problem"]), ("method", lambda r: r["method"]),
            ("time", _seconds), ("residual", _residual),
            ("off", lambda r: f"{r['off']:.1e}" if "off" in r else ""),
        ]),
    ]  # fmt: skip


def _overhead(rows: list[Row], out: Path) -> list[str]:
    return [
        "Clarabel with default settings through CVXPY: `solver` is the time that Clarabel reports; "
        "the rest is compiling and reading back by CVXPY, and cdopt's certificate. The last rows "
        "are the beam on three supports.",
        "",
        *_table(rows, [
            ("problem", lambda r: r.get("problem", "beam-uniform")),
            ("form", lambda r: r.get("form", "complementary")),
            ("backend", lambda r: r["solver"]), ("time", _seconds),
            ("solver", lambda r: _time(r.get("own"))),
            ("overhead", lambda r: f"{r['overhead']:.0%}" if "overhead" in r else ""),
            ("residual", _residual),
        ]),
    ]  # fmt: skip


def _elastic(rows: list[Row], out: Path) -> list[str]:
    grown = [r for r in rows if r["task"] == "growth" and "seconds" in r]
    lines = {"variational step": [(r["contacts"], r["seconds"]) for r in grown]}
    return [
        "A step of 218 settling spheres (the published code of De Klerk et al. takes 0.34 s, "
        "LAMMPS 16 µs); touching layers of growing size; an impact through CVXPY. `certified` is "
        "the share of steps that cdopt's certificate accepts.",
        "",
        *_picture("elastic", lambda p: drawing.growth(lines, p, "time a step"), grown, out),
        *_table(rows, [
            ("task", lambda r: r["task"]),
            ("method", lambda r: r.get("method", r.get("solver", "variational"))),
            ("spheres", lambda r: r.get("spheres", 218 if r["task"] == "settling" else 2)),
            ("t", lambda r: f"{r['t']:.2f} s" if "t" in r else ""), ("time", _seconds),
            ("conjugate gradients",
             lambda r: f"{r['conjugate_gradients']:.1f}" if "conjugate_gradients" in r else ""),
            ("certified", lambda r: f"{r['certified']:.0%}" if "certified" in r else ""),
        ]),
    ]  # fmt: skip


def _polyhedra(rows: list[Row], out: Path) -> list[str]:
    return _table(rows, [
        ("t", lambda r: f"{r['t']:.2f} s" if "t" in r else ""),
        ("contacts", lambda r: f"{r['contacts']:,.0f}" if "contacts" in r else ""),
        *[(p, lambda r, p=p: _time(r.get(f"seconds_{p}")))
          for p in ("detect", "assemble", "classic")],
        ("a step", _seconds), ("slowest", lambda r: _time(r.get("slowest"))),
        ("certified", lambda r: f"{r['certified']:.0%}" if "certified" in r else ""),
    ])  # fmt: skip


SECTIONS: dict[str, Callable[[list[Row], Path], list[str]]] = {
    "products": _products,
    "preconditioners": _preconditioners,
    "neighbours": _neighbours,
    "trusses": _against("trusses"),
    "scaling": _scaling,
    "rigid": _against("rigid"),
    "families": _families,
    "trajectory": _trajectory,
    "piles": _piles,
    "compatible": _compatible,
    "overhead": _overhead,
    "elastic": _elastic,
    "polyhedra": _polyhedra,
}


# --- parts -----------------------------------------------------------------------------


def _failures(groups: dict[str, list[Row]]) -> list[str]:
    """By problem, the runs without an answer or with one that does not count; what was refused."""
    failed: dict[str, list[str]] = {}
    for name, rows in groups.items():
        for r in rows:
            why = r.get("failed")
            if why is None and "refused" not in r and not _counted(r):
                why = f"residual {r['worst']:.1e}"
            if why is not None:
                failed.setdefault(f"{name}, {r.get('problem', '')}", []).append(f"{_name(r)} {why}")
    lines = [f"- {problem}: {'; '.join(runs)}" for problem, runs in failed.items()]
    refused = sorted({r["solver"] for rows in groups.values() for r in rows if "refused" in r})
    if refused:
        lines.append(f"- {', '.join(refused)} take quadratic programs only: no Hertz contacts.")
    return lines or ["Nothing."]


def _stolen(groups: dict[str, list[Row]]) -> float:
    return max((r.get("stolen", 0.0) for rows in groups.values() for r in rows), default=0.0)


def _name(row: Row) -> str:
    """What tells a row from the others of its problem."""
    told = [_solver(row) if k == "solver" else str(row[k]) for k in _KEY[1:] if k in row]
    return " ".join(told)


def _heading(group: str) -> str:
    told = (GROUPS[group].__doc__ or group).strip()
    return told.rstrip(".")


def _ours(row: Row) -> bool:
    return row["task"] in ("newton_truss", "own_rigid")


def _counted(row: Row) -> bool:
    return bool(row.get("counted")) and "failed" not in row and "refused" not in row


def _threads(row: Row) -> str:
    return "one thread" if row["threads"] == 1 else f"{row['threads']} threads"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _seconds(row: Row) -> str:
    return "failed" if "failed" in row else _time(row.get("seconds"))


def _residual(row: Row) -> str:
    if row.get("worst") is None:
        return ""
    return f"{row['worst']:.1e}" + ("" if _counted(row) else " *not counted*")


def _solver(row: Row) -> str:
    """The solver, and the accuracy that was asked of it."""
    name = str(row.get("solver", "newton"))
    if row["task"].startswith("warm"):
        return f"{name}, from the step before"
    if _ours(row) and "accuracy" in row:
        return f"{name}, asked for {row['accuracy']:g}"
    return name


_SOLVED: list[tuple[str, Callable[[Row], Any]]] = [
    ("problem", lambda r: r["problem"]),
    ("contacts", lambda r: f"{r['contacts']:,}" if "contacts" in r else ""),
    ("solver", lambda r: _solver(r)),
    ("form", lambda r: r.get("form", "")),
    ("time", _seconds),
    ("runs", lambda r: r.get("repeats", "")),
    ("/ cdopt's", lambda r: f"{r['ratio']:.3g}" if "ratio" in r else ""),
    ("residual", _residual),
    ("steps", lambda r: "" if r.get("iterations") is None else r["iterations"]),
    ("made", lambda r: _time(r.get("made_seconds"))),
    ("peak MB", lambda r: f"{r['peak_mb']:.0f}" if "peak_mb" in r else ""),
]


def _table(rows: Sequence[Row], columns: Sequence[tuple[str, Callable[[Row], Any]]]) -> list[str]:
    kept = [(h, [str(tell(r)) for r in rows]) for h, tell in columns]
    kept = [(h, cells) for h, cells in kept if any(cells)]
    if not kept or not rows:
        return ["Nothing was measured."]
    lines = ["| " + " | ".join(h for h, _ in kept) + " |", "|" + "---|" * len(kept)]
    lines += [
        "| " + " | ".join(cells[i].replace("|", "\\|") for _, cells in kept) + " |"
        for i in range(len(rows))
    ]
    return lines


def _picture(name: str, draw: Callable[[Path], None], rows: Sequence[Any], out: Path) -> list[str]:
    """A drawing and its line in the page, where there is something to draw."""
    if not rows:
        return []
    path = out / f"costs-{name}.png"
    draw(path)
    return [f"![{name}](../{path.name})", ""]
