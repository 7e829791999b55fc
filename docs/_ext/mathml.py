"""Formulas as MathML, which browsers draw with no script and no font from elsewhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def inline(self: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """A displayed formula, with its number where it has one."""
    text = node.astext()
    if r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{align*}}{text}\end{{align*}}"
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(convert(text, display="block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the renderer of formulas."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
