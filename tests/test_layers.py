"""The structure of the package: a room imports only rooms before it, and no room is nameless."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import cdopt

PACKAGE = Path(cdopt.__file__).parent
ROOMS = [
    "_util", "problem", "backends", "formulations", "interop", "geometry", "scene", "collision",
    "bank", "dynamics", "hyperstatic", "study", "plots", "cli",
]  # fmt: skip
PLOTTING = {"matplotlib", "mpl_toolkits", "plotly", "k3d"}


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "cli" if first == "__main__" else first


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Modules that a tree imports, those for the type checker alone left out."""
    unseen = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "absolute imports only"
            names = [alias.name for alias in node.names]
            yield from ((f"cdopt.{n}", node) for n in names if node.module == "cdopt")
            if node.module != "cdopt":
                yield node.module, node
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)


def compiled(function: ast.FunctionDef) -> bool:
    """Whether a function is decorated as a loop that numba compiles."""
    names = [ast.unparse(name).partition("(")[0] for name in function.decorator_list]
    return not {"compiled", "part", "njit"}.isdisjoint(names)


def test_the_rooms_are_those_of_the_list_and_each_says_what_it_is() -> None:
    rooms = {room(path) for path in trees()} - {"__init__"}
    assert rooms == set(ROOMS)
    for name in ROOMS:
        assert ast.get_docstring(trees()[PACKAGE / name / "__init__.py"]), name


def test_a_room_imports_only_rooms_before_it() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path, tree in trees().items()
        if path.parent != PACKAGE
        for module, _ in imports(tree)
        if module.startswith("cdopt.")
        and ROOMS.index(module.split(".")[1]) > ROOMS.index(room(path))
    ]
    assert wrong == []


def test_only_plots_imports_plotting_libraries() -> None:
    wrong = [
        str(path.relative_to(PACKAGE))
        for path, tree in trees().items()
        if room(path) != "plots" and PLOTTING & {m.split(".")[0] for m, _ in imports(tree)}
    ]
    assert wrong == []


def test_no_assert_no_import_inside_a_function_and_no_compiled_closure() -> None:
    wrong = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            place = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Assert):
                wrong.append(f"{place}: assert")
            if isinstance(node, ast.FunctionDef):
                inside = list(ast.walk(node))
                some = any(isinstance(part, ast.Import | ast.ImportFrom) for part in inside)
                if some and any(module.startswith("cdopt") for module, _ in imports(node)):
                    wrong.append(f"{place}: import inside a function")
                # numba's cache does not find closures again in the next process
                inner = [f for f in inside if isinstance(f, ast.FunctionDef)]
                if any(compiled(f) for f in inner if f is not node):
                    wrong.append(f"{place}: compiled closure")
    assert wrong == []
