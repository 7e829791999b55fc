"""A file whose process dies at any of its writes is what it was at one commit or the next."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt
from cdopt.dynamics import journal
from cdopt.dynamics.journal import PAGE, CommittedFile, JournaledFile


class Killed(BaseException):
    """Stands for SIGKILL."""


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 4 * PAGE), st.binary(max_size=64),
                  st.integers(1, PAGE // 16)),
        st.tuples(st.just("cut"), st.integers(0, 4 * PAGE)),
        st.tuples(st.just("commit")),
    ),
    max_size=12,
)  # fmt: skip


@given(edits=EDITS)
@settings(max_examples=60)
def test_it_behaves_like_a_file_in_memory(edits: list, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("journal") / "file"
    path.touch()
    model, committed = io.BytesIO(), b""
    file = JournaledFile(path)
    for kind, *values in edits:
        if kind == "write":
            place, piece, times = values
            if place > len(model.getvalue()):
                model.seek(0, io.SEEK_END)
                model.write(bytes(place - model.tell()))
            for target in (model, file):
                target.seek(place)
                target.write(piece * times)
        elif kind == "cut":
            size = min(values[0], len(model.getvalue()))
            model.truncate(size)
            file.truncate(size)
        else:
            file.commit()
            committed = model.getvalue()
        file.seek(0)
        assert file.read() == model.getvalue()
        assert path.read_bytes() == committed
    file.close()
    assert path.read_bytes() == committed


REAL = (journal._write_all, Path.replace, Path.unlink)


class Fuse:
    """Lets so many operations on files through, and dies at the next one."""

    def __init__(self, allowed: int, patch: pytest.MonkeyPatch) -> None:
        self.left = allowed
        write, replace, unlink = REAL

        def write_in_halves(file, data) -> None:
            for start in range(0, len(data), PAGE // 2):
                self.burn()
                write(file, data[start : start + PAGE // 2])

        def burning(operation):
            def guarded(*arguments, **named):
                self.burn()
                return operation(*arguments, **named)

            return guarded

        patch.setattr(journal, "_write_all", write_in_halves)
        patch.setattr(Path, "replace", burning(replace))
        patch.setattr(Path, "unlink", burning(unlink))

    def burn(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


def test_killed_at_any_write_it_is_at_one_commit_or_the_next(tmp_path, monkeypatch) -> None:
    path = tmp_path / "file"
    before, after = b"a" * (3 * PAGE + 5), b"b" * (2 * PAGE + 17)
    found = []
    for allowed in range(12):
        path.write_bytes(before)
        file = JournaledFile(path)
        file.write(after)
        file.truncate(len(after))
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            Fuse(allowed, patch)
            file.commit()
        file._file.close()  # as the kernel would
        os.close(file._lock)
        file._lock = None
        folder = {place: place.read_bytes() for place in tmp_path.iterdir()}
        with CommittedFile(path) as read:
            seen = read.read()
        assert {place: place.read_bytes() for place in tmp_path.iterdir()} == folder
        JournaledFile(path).close()
        assert path.read_bytes() in (before, after)
        assert path.read_bytes() == seen
        found.append(path.read_bytes())
        assert not list(tmp_path.glob("*.journal"))
    assert found == sorted(found)  # once the journal is valid, the commit is certain
    assert set(found) == {before, after}


def test_hdf5_lives_in_it(tmp_path) -> None:
    path = tmp_path / "file.h5"
    path.touch()
    raw = JournaledFile(path)
    with h5py.File(raw, "w") as file:
        data = file.create_dataset("x", shape=(0,), maxshape=(None,), chunks=(100,), dtype="f8")
        for k in range(5):
            data.resize((k + 1) * 1000, axis=0)
            data[k * 1000 :] = k
            file.flush()
            raw.commit()
            with h5py.File(path, "r") as other:  # as any program sees it meanwhile
                np.testing.assert_array_equal(other["x"][()], np.repeat(np.arange(k + 1), 1000))
    raw.close()


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path) -> None:
    path = tmp_path / "run.vtkhdf"
    done = cdopt.simulate(cdopt.scene.beam(), 1e-3, 2e-3, out=path)
    first = JournaledFile(path)
    with pytest.raises(cdopt.InvalidInput, match="another run"):
        JournaledFile(path)
    assert len(cdopt.Trajectory.load(path)) == len(done)
    first.close()
    assert [p.name for p in tmp_path.iterdir()] == ["run.vtkhdf"]


def test_a_damaged_journal_is_named(tmp_path) -> None:
    path = tmp_path / "file"
    path.touch()
    (tmp_path / "file.journal").write_bytes(b"nonsense")
    for kind in (CommittedFile, JournaledFile):
        with pytest.raises(cdopt.InvalidInput, match="damaged journal"):
            kind(path)
