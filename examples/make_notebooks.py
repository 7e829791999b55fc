"""Turn the lessons into Jupyter notebooks: ``python examples/make_notebooks.py [FOLDER]``.

Notebooks are made, not kept: the scripts are the lessons. Needs ``pip install jupytext``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

LESSONS = sorted(Path(__file__).parent.glob("[0-9]*.py"))


def notebook(lesson: Path) -> Any:
    """A lesson as a notebook, with a last cell that shows its picture."""
    import jupytext
    import nbformat

    made = jupytext.read(lesson)
    made.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    text = lesson.read_text(encoding="utf-8")
    if "import loading" in text or "import rigid_limit" in text:  # which are next to the lessons
        folder = str(Path(__file__).resolve().parent)
        path = nbformat.v4.new_code_cell(f"import sys\n\nsys.path.append({folder!r})")
        path.metadata["tags"] = ["remove-cell"]  # not shown in the guide
        made.cells.insert(1, path)
    show = f'from IPython.display import Image\n\nImage("{lesson.stem}.png", width=800)'
    made.cells.append(nbformat.v4.new_code_cell(show))
    return made


def main(folder: str = "notebooks") -> None:
    """Write every lesson into a folder, made if need be."""
    import nbformat

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for lesson in LESSONS:
        nbformat.write(notebook(lesson), target / f"{lesson.stem}.ipynb")
    print(f"{len(LESSONS)} notebooks in {target}: jupyter lab {target}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
