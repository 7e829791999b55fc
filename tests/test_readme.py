"""The README's Python is run, and its commands are those that continuous integration runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_say_what_the_readme_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    exec(compile(code, str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("[2. 6. 2.]")
    assert "minimize" in printed
    assert "rigid step: ok" in printed
    assert "Trajectory(compatible-cd: 21 frames, 20 steps to t=0.02 s, ok)" in printed
    assert "[[-0.5  1.  -0.5]]" in printed
    assert re.search(r"106 contacts.* 45 self-stress states. 34 of 106 forces determined", printed)
    assert "coulomb: it rises by 0 mm" in printed
    assert 0.9 * 294 < float(re.search(r"associated: it rises by (\d+) mm", printed)[1]) < 1.1 * 294
    assert (tmp_path / "pile.vtkhdf").stat().st_size > 0


@pytest.mark.parametrize("marker", ["main job", "tests"])
def test_the_commands_are_marked_for_continuous_integration(marker: str) -> None:
    text = README.read_text()
    block = text.partition(f"<!-- run: {marker} -->")[2].split("```")[1]
    assert block.startswith("bash\n")
    assert ".venv/bin/" in block


def test_the_readme_is_short_and_its_files_are_there() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    links = re.findall(r"\]\(((?!http)[^)#]+)", text)
    assert len(links) > 20
    for link in links:
        assert (README.parent / link).exists(), link
