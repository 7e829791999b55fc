"""The structure of the package: a room imports only rooms before it, and no room is nameless."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import Path

import cdopt

PACKAGE = Path(cdopt.__file__).parent
ROOMS = [
    "_util", "problem", "backends", "formulations", "interop", "geometry", "scene", "collision",
    "bank", "dynamics", "hyperstatic", "gradients", "study", "plots", "cli",
]  # fmt: skip
PLOTTING = {"matplotlib", "mpl_toolkits", "plotly", "k3d"}


class Reader(ast.NodeVisitor):
    """What a file imports (those for the type checker alone left out), and what it must not do."""

    def __init__(self, name: str) -> None:
        self.name, self.depth = name, 0
        self.modules: list[str] = []
        self.classes: list[str] = []
        self.wrong: list[str] = []

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """What is inside, but not expressions: they have no statements."""
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):
                self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        self._imports(node, [alias.name for alias in node.names])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, "absolute imports only"
        inside = [f"cdopt.{alias.name}" for alias in node.names]
        self._imports(node, inside if node.module == "cdopt" else [node.module or ""])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self._blame(node, "assert")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # numba's cache does not find closures again in the next process
        decorators = {ast.unparse(name).partition("(")[0] for name in node.decorator_list}
        if self.depth and decorators & {"compiled", "part", "njit"}:
            self._blame(node, "compiled closure")
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def _imports(self, node: ast.AST, modules: list[str]) -> None:
        self.modules += modules
        if self.depth and any(module.startswith("cdopt") for module in modules):
            self._blame(node, "import inside a function")

    def _blame(self, node: ast.AST, what: str) -> None:
        self.wrong.append(f"{self.name}:{getattr(node, 'lineno', 0)}: {what}")


@functools.cache
def files() -> dict[Path, Reader]:
    readers = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        readers[path] = Reader(str(path.relative_to(PACKAGE)))
        readers[path].visit(ast.parse(path.read_text()))
    return readers


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "cli" if first == "__main__" else first


def test_the_rooms_are_those_of_the_list_and_each_says_what_it_is() -> None:
    rooms = {room(path) for path in files()} - {"__init__"}
    assert rooms == set(ROOMS)
    for name in ROOMS:
        assert ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text())), name


def test_a_room_imports_only_rooms_before_it() -> None:
    wrong = [
        f"{reader.name} imports {module}"
        for path, reader in files().items()
        if path.parent != PACKAGE
        for module in reader.modules
        if module.startswith("cdopt.")
        and ROOMS.index(module.split(".")[1]) > ROOMS.index(room(path))
    ]
    assert wrong == []


def test_only_plots_imports_plotting_libraries() -> None:
    wrong = [
        reader.name
        for path, reader in files().items()
        if room(path) != "plots" and PLOTTING & {m.split(".")[0] for m in reader.modules}
    ]
    assert wrong == []


def test_no_assert_no_import_inside_a_function_and_no_compiled_closure() -> None:
    assert [wrong for reader in files().values() for wrong in reader.wrong] == []


def test_no_two_classes_have_the_same_name() -> None:
    names = Counter(name for reader in files().values() for name in reader.classes)
    assert [name for name, count in names.items() if count > 1] == []
