"""Docstrings with entries ``name : meaning``, in the form that Napoleon reads.

Napoleon takes the text after the colon for a type. Here types are annotations, so the meaning
moves to a separate line. References to an object by the module that defines it lead to its public
name.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.ext.napoleon import Config, NumpyDocstring

ROOMS = [
    "cdopt", "cdopt.backends", "cdopt.bank", "cdopt.bank.generators",
    "cdopt.bank.quantities",
    "cdopt.collision", "cdopt.problem.contact_law", "cdopt.problem", "cdopt.dynamics",
    "cdopt.dynamics.analysis", "cdopt.plots.explore", "cdopt.formulations",
    "cdopt.dynamics.spheres", "cdopt.gradients", "cdopt.gradients.jax", "cdopt.gradients.torch",
    "cdopt.hyperstatic",
    "cdopt.interop.fclib", "cdopt.interop.mujoco", "cdopt.interop.petsc",
    "cdopt.interop.quadratic_programs", "cdopt.plots", "cdopt.plots.report",
    "cdopt.scene", "cdopt.study",
    "cdopt.study.results", "cdopt.study.tables",
    "cdopt.study.statistics", "cdopt.backends.linalg",
]  # fmt: skip
SECTIONS = ("Parameters", "Attributes", "Raises", "Returns", "Yields", "Notes", "Examples")
LISTS = ("Parameters", "Attributes", "Raises")
ENTRY = re.compile(r"^(?P<names>[\w*.]+(?:, [\w*.]+)*) : (?P<meaning>.*)$")
ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[[^\]]*\], ~?(?:numpy\.)?dtype\[~?(?:\w+\.)*(?P<kind>\w+)\]\]"
)
NEXT = re.compile(r"(?<=\.) (?=\w+(?:, \w+)* : )")
RESULT = "Result"  # a text, where Napoleon would take every line of "Returns" for a type
STYLE = Config(
    napoleon_use_ivar=True, napoleon_attr_annotations=False, napoleon_use_rtype=False,
    napoleon_google_docstring=False, napoleon_custom_sections=[RESULT],
)  # fmt: skip


def readable(lines: list[str]) -> list[str]:
    """The same docstring with each meaning on a line below its names."""
    out: list[str] = []
    section, k = "", 0
    while k < len(lines):
        line, k = lines[k], k + 1
        under = lines[k].strip() if k < len(lines) else ""
        entry = ENTRY.match(line)
        if line in SECTIONS and set(under) == {"-"}:
            section = line
            line = RESULT if line in ("Returns", "Yields") else line
        elif section in LISTS and entry:
            end = next((e for e in range(k, len(lines)) if not lines[e].startswith("    ")), k)
            end = end if k < len(lines) and lines[k].startswith("    ") else k
            out += _entry(entry["names"], entry["meaning"], lines[k:end])
            k = end
            continue
        elif section in LISTS and line[:1].strip() and out and out[-1] == "":
            section = ""  # a text after the list
            out.append("")
        out.append(line)
    return out


def _entry(names: str, meaning: str, below: list[str]) -> list[str]:
    """One entry; names that share a meaning have an entry each, or they would pass for types.

    Short entries may share a line: ``a : the first. b : the second``.
    """
    if all(line.startswith("    ") and line[4:5].strip() for line in below):
        first, *others = NEXT.split(" ".join([meaning, *(line.strip() for line in below)]))
        if others:
            rest = [ENTRY.match(other) for other in others]
            found = [_entry(entry["names"], entry["meaning"], []) for entry in rest if entry]
            return [*_entry(names, first, []), *(line for lines in found for line in lines)]
    return [
        line for name in names.split(", ") for line in (name, f"    {meaning}", *below)
    ]  # fmt: skip


def _short(app: Sphinx, *about: Any) -> tuple[str, str | None] | None:
    """Signatures with arrays called as in the code, FloatArray."""
    signature, result = about[-2:]
    if signature is None:
        return None
    return ARRAY.sub(_array, signature), result and ARRAY.sub(_array, result)


def _array(found: re.Match[str]) -> str:
    kinds = {"float64": "FloatArray", "int64": "IntArray", "bool": "BoolArray"}
    return kinds.get(found["kind"], "AnyArray")


def plain_bars(lines: list[str]) -> list[str]:
    """Bars of |x| as they stand: in reStructuredText they would be substitutions."""
    out, literal, table = [], False, False
    for line in lines:
        table = line.startswith("==") or (table and line != "")
        if line and not line.startswith(" "):
            literal = False
        if literal or table or line.lstrip().startswith((">>>", "...")):
            out.append(line)
        else:
            pieces = line.split("``")
            pieces[::2] = [piece.replace("|", r"\|") for piece in pieces[::2]]
            out.append("``".join(pieces))
        literal = literal or line.endswith("::")
    return out


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Except for classes, Napoleon would take the words before a colon for a type."""
    lines[:] = plain_bars(lines)
    kind = what if what in ("class", "exception", "module") else "function"
    lines[:] = NumpyDocstring(readable(lines), STYLE, app, kind, name, obj, options).lines()


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of named tuples, which the class documents."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def public_names() -> dict[str, str]:
    """The public name of every object that has one, by the name of where it is defined."""
    found: dict[str, str] = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in public(module):
            thing = getattr(module, name)
            home = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
            found.setdefault(home, f"{room}.{name}")
            found.setdefault(name, f"{room}.{name}")
    return found


def public(module: ModuleType) -> list[str]:
    """What a module lists, or without a list what it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not isinstance(getattr(module, name), ModuleType)]
    return [
        name for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]  # fmt: skip


def _resolve(app: Sphinx, env: Any, node: Any, contnode: nodes.Node) -> nodes.Node | None:
    """A reference to the module that defines an object, changed to its public name.

    Objects of cdopt that are not public become plain text.
    """
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target:
        return None
    names = env.guide_public_names
    known = names.get(target) or names.get(target.rpartition(".")[2])
    if known is not None and known != target:
        domain = env.get_domain("py")
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", known, node, contnode)
        if found is not None:
            return found
    return contnode if _defined(target) else None


def _defined(target: str) -> bool:
    """Whether a full name, or a name of a type of ours, is of something in cdopt."""
    module, _, name = target.rpartition(".")
    if not module.startswith("cdopt"):
        return False
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


def _remember(app: Sphinx) -> None:
    app.env.guide_public_names = public_names()


def setup(app: Sphinx) -> dict[str, bool]:
    """In place of Napoleon's own extension: its parser is used, its guesses of types are not."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("builder-inited", _remember)
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _short)
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _resolve)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
