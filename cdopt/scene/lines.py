"""Where a field stands in a TOML text: tomllib gives values without their lines."""

from __future__ import annotations

import re

_LONG_TEXT = re.compile(r'"""[\s\S]*?"""|' + r"'''[\s\S]*?'''")
_HEADER = re.compile(r"^[ \t]*(\[{1,2})[ \t]*([\w.\"'-]+)[ \t]*\]{1,2}[ \t]*(?:#.*)?$", re.M)
_TOKEN = re.compile(r"#.*|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|[\[\]{},]")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def line_of(text: str, path: str) -> int:
    """The line, from 1, of a field such as ``bodies[17].position[1]``.

    As much of the path as can be found is followed: an entry of a list that has its own lines,
    else the key, else the header of its table.
    """
    text = _LONG_TEXT.sub(lambda m: "\n" * m.group().count("\n"), text.replace("\r\n", "\n"))
    steps = [(name, int(index or 0)) for name, index in _STEP.findall(path)]
    headers = list(_HEADER.finditer(text))
    start, end = 0, headers[0].start() if headers else len(text)
    found = start
    if steps and any(_name(h) == steps[0][0] for h in headers):
        (name, _), *steps = steps
        index = steps.pop(0)[1] if steps and not steps[0][0] else 0
        mine = [k for k, header in enumerate(headers) if _name(header) == name]
        k = mine[min(index, len(mine) - 1)]
        found = start = headers[k].start()
        end = headers[k + 1].start() if k + 1 < len(headers) else len(text)
    if steps:
        key = re.compile(rf"^[ \t]*[\"']?{re.escape(steps[0][0])}[\"']?[ \t]*=", re.M)
        match = key.search(text, start, end)
        if match:
            found = match.start()
            if len(steps) > 1 and not steps[1][0]:
                found = _entry(text, match.end(), end, steps[1][1]) or found
    return text.count("\n", 0, found) + 1


def _name(header: re.Match[str]) -> str:
    return header.group(2).strip("\"'")


def _entry(text: str, start: int, end: int, index: int) -> int | None:
    """Where entry ``index`` of the list after ``start`` begins; None if there is no such list."""
    depth, count = 0, 0
    for token in _TOKEN.finditer(text, start, end):
        word = token.group()
        if word in "[{":
            depth += 1
        elif word in "]}":
            depth -= 1
        wanted = (word == "[" and depth == 1 and index == 0) or (word == "," and depth == 1)
        if wanted:
            count += word == ","
            if count == index:
                rest = re.compile(r"(?:\s|#.*)*").match(text, token.end(), end)
                return rest.end() if rest else token.end()
        if depth == 0 and word[0] not in "#\"'":
            return None
    return None
