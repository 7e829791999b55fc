"""The arrow of the design: a room imports only rooms above it in the list."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cdopt

PACKAGE = Path(cdopt.__file__).parent
ROOMS = [
    "_util", "problem", "backends", "formulations", "interop", "geometry", "scene", "collision",
    "bank", "dynamics", "hyperstatic", "study", "plots", "cli",
]  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))
PLOTTING = {"matplotlib", "plotly", "k3d"}


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "cli" if first == "__main__" else first


def imports(tree: ast.AST) -> list[tuple[str, ast.AST]]:
    found: list[tuple[str, ast.AST]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "cdopt":
            found += [(f"cdopt.{alias.name}", node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "absolute imports only"
            found.append((node.module, node))
        elif isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
    return found


def typing_only(tree: ast.AST) -> set[ast.AST]:
    """Imports that only a type checker sees."""
    return {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    tree = ast.parse(path.read_text())
    assert room(path) in ROOMS, f"{path} is in no room of the list"
    hidden = typing_only(tree)
    for module, node in imports(tree):
        if module.startswith("cdopt.") and node not in hidden:
            first = module.split(".")[1]
            assert ROOMS.index(first) <= ROOMS.index(room(path)), f"{path.name} -> {module}"


def compiled(function: ast.FunctionDef) -> bool:
    """Whether a function is decorated as a loop that numba compiles."""
    words = [ast.unparse(word).partition("(")[0] for word in function.decorator_list]
    return not {"compiled", "part", "njit"}.isdisjoint(words)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_house_rules_that_code_can_check(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for module, _ in imports(tree):
        if module.split(".")[0] in PLOTTING:
            assert room(path) == "plots"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"{path.name}:{node.lineno} assert"
        if isinstance(node, ast.FunctionDef):
            inner = [m for m, _ in imports(node)]
            assert not any(m.startswith("cdopt") for m in inner), f"{path.name}:{node.lineno}"
            # what is compiled inside a function is not found again by the next process
            for one in ast.walk(node):
                nested = isinstance(one, ast.FunctionDef) and one is not node
                assert not (nested and compiled(one)), f"{path.name}:{one.lineno}"
