"""CSV and Markdown: text of unknown origin stays text."""

from __future__ import annotations

import csv
import io

from cdopt._util.documents import csv_text, markdown_table

TEXTS = ("=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "plain", "a,\"b\"\n",
         "-", "-5", "+1e3")  # fmt: skip
SHOWN = ("'=1+2", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "'\t=1", "'\n=1", "plain",
         "a,\"b\"\n", "'-", "-5", "+1e3")  # fmt: skip


def test_text_starts_no_formula_and_numbers_stay_numbers() -> None:
    numbers = (-1.5, -2, 1e-300, None, float("inf"))
    text = csv_text(["=name", "x"], [TEXTS, numbers])
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == ["'=name", "x"]
    assert tuple(rows[0]) == SHOWN
    assert rows[1] == ["-1.5", "-2", "1e-300", "", "inf"]


def test_markdown_has_no_html_and_keeps_its_columns() -> None:
    lines = markdown_table(("a", "b"), [("<script>|x\ny", "1 & 2")], (False, True))
    assert lines == ["| a | b |", "|---|---:|", "| &lt;script&gt;\\|x y | 1 &amp; 2 |"]
