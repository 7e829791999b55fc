"""What the build makes from the code: pictures, pages, lessons, reference, commands, gallery."""

from __future__ import annotations

import html
import importlib
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import make_notebooks
import nbformat
import pictures
import readable_docstrings
import typer
from PIL import Image
from sphinx.application import Sphinx
from typer.cli import get_docs_for_click

import cdopt
from cdopt.cli.main import app
from cdopt.plots import explore
from cdopt.plots.page import run_page

PLAYED: dict[str, tuple[str, dict[str, float]]] = {  # scenes with friction, each a page to play
    "arch": ("arch-without-keystone", {"dt": 4e-3, "duration": 0.2}),
    "stack": ("box-stack:n=5,dim=2,shift=0.25", {"dt": 4e-3, "duration": 0.6, "friction": 0.5}),
    "column": ("grain-column:n=40", {"dt": 5e-3, "duration": 0.5}),
}
EXPLORED = ("beam", "table", "arch", "pyramid:n=3")  # scenes, each a page with sliders
GALLERY = "<!-- gallery of lessons -->"
THUMBNAIL = 480, 320  # pixels
SCRIPT = re.compile(r"\]\(\.\./examples/(\d\d_\w+)\.py\)")  # as the repository has them


def make(app: Sphinx) -> None:
    """Write all of it; files that would not change are left alone."""
    source = Path(app.srcdir)
    pictures.write(source / "_static" / "pictures")
    for name in EXPLORED:
        page = explore.page(explore.of_scene(cdopt.scene.load(name)))
        _write(source / "_static" / "explore" / f"{name.partition(':')[0]}.html", page)
    for name, (scene, settings) in PLAYED.items():
        run = cdopt.simulate(cdopt.scene.load(scene), **settings)
        _write(source / "_static" / "runs" / f"{name}.html", run_page(run))
    for lesson in make_notebooks.LESSONS:
        _write(source / "lessons" / f"{lesson.stem}.ipynb", notebook(lesson))
    names = readable_docstrings.public_names()
    for page in (source / "api").glob("cdopt*.md"):
        if page.stem not in readable_docstrings.ROOMS:
            page.unlink()
    for room in readable_docstrings.ROOMS:
        _write(source / "api" / f"{room}.md", reference(room, names))
    _write(source / "commands.md", commands())


def notebook(lesson: Path) -> str:
    """A lesson as a notebook whose picture's code is folded away."""
    made = make_notebooks.notebook(lesson)
    for k, cell in enumerate(made.cells):
        cell["id"] = f"cell-{k}"  # the same each time, so that what was run is found again
        if cell.cell_type == "code" and "def draw(" in cell.source:
            cell.metadata["tags"] = ["hide-input"]
        elif cell.cell_type == "code" and cell is made.cells[-1]:
            cell.metadata["tags"] = ["remove-input"]
        elif cell.cell_type == "markdown":
            cell.source = re.sub(r"`(\d\d_\w+)\.py`", r"[`\1`](\1.ipynb)", cell.source)
    made.metadata.pop("jupytext", None)
    return str(nbformat.writes(made)) + "\n"


def reference(room: str, names: dict[str, str]) -> str:
    """The page of one module: what is at home there in full, a link to what is shown elsewhere."""
    module = importlib.import_module(room)
    public = readable_docstrings.public(module)
    things = {name: getattr(module, name) for name in public}
    shown = {name: thing for name, thing in things.items() if inspect.isroutine(thing)
             or inspect.isclass(thing)}  # fmt: skip
    home = [name for name, thing in shown.items() if names[_defined(thing)] == f"{room}.{name}"]
    text = [f"# {room}", "", "```{eval-rst}", f".. automodule:: {room}"]
    text += [f"   :members: {', '.join(home)}" if home else "   :no-members:", ""]
    for name in sorted(set(things) - set(shown)):
        text += [f".. py:data:: {room}.{name}", "", f"   {_listing(things[name])}", ""]
    elsewhere = sorted(set(shown) - set(home))
    if elsewhere:
        links = ", ".join(f":py:obj:`~{names[_defined(shown[name])]}`" for name in elsewhere)
        text += [f"Here too: {links}.", ""]
    return "\n".join([*text, "```", ""])


def _defined(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _listing(thing: Any) -> str:
    """What a table or a constant holds, in a line."""
    if isinstance(thing, Mapping):
        return "A table of " + ", ".join(f"``{key}``" for key in thing) + "."
    if isinstance(thing, tuple | list):
        return (
            "One of "
            + ", ".join(f"``{getattr(entry, '__name__', entry)}``" for entry in thing)
            + "."
        )
    return f"``{thing!r}``"


def commands() -> str:
    """The reference of the command line, from the commands themselves."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="cdopt")
    return str(get_docs_for_click(obj=command, ctx=context, name="cdopt", title="Command line"))


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links to scripts of lessons lead to their pages; the gallery is put in its place."""
    source[0] = SCRIPT.sub(r"](lessons/\1.ipynb)", source[0]).replace(GALLERY, gallery())


def gallery() -> str:
    """Every lesson as a picture that leads to it; ``thumbnails`` makes the pictures."""
    cards = []
    for lesson in make_notebooks.LESSONS:
        title = re.search(r"^# # (.+)$", lesson.read_text(encoding="utf-8"), re.MULTILINE)
        words = html.escape(title[1] if title else lesson.stem)
        picture = f'<img src="_static/thumbnails/{lesson.stem}.png" alt="" loading="lazy">'
        cards.append(f'<a href="lessons/{lesson.stem}.html">{picture}<span>{words}</span></a>')
    return "\n".join(["```{raw} html", '<div class="gallery">', *cards, "</div>", "```"])


def thumbnails(app: Sphinx, failure: Exception | None) -> None:
    """Small copies of the pictures that the lessons drew while the guide was built."""
    if failure or app.builder.format != "html":
        return
    out = Path(app.outdir)
    target = out / "_static" / "thumbnails"
    target.mkdir(parents=True, exist_ok=True)
    left_out = app.config.nb_execution_excludepatterns
    for lesson in make_notebooks.LESSONS:
        if f"lessons/{lesson.stem}.ipynb" in left_out:
            continue
        page = (out / "lessons" / f"{lesson.stem}.html").read_text(encoding="utf-8")
        shown = re.findall(r'<img[^>]* src="\.\./(_images/[^"]+\.png)"', page)
        with Image.open(out / shown[-1]) as picture:
            small = picture.convert("RGB")
            small.thumbnail((THUMBNAIL[0], 10_000))
            card = Image.new("RGB", THUMBNAIL, "white")
            card.paste(small, (0, max((THUMBNAIL[1] - small.height) // 2, 0)))
            card.save(target / f"{lesson.stem}.png")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Before Sphinx looks for pages."""
    app.connect("builder-inited", make)
    app.connect("source-read", prepare)
    app.connect("build-finished", thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
