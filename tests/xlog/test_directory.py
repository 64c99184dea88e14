"""Which files of a directory belong together, and what is missing between them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from tests.xlog.build import INSTANCE, log

from headwater.env.disk import RealDisk
from headwater.errors import BoxError, Er, XlogError, XlogGapError
from headwater.vclock import VClock
from headwater.xlog import SNAP, XLOG, Meta, after, file_name, gaps, inprogress, scan

OTHER = UUID(int=5)


def put(
    directory: Path,
    vclock: dict[int, int],
    prev: dict[int, int] | None = None,
    *,
    filetype: str = XLOG,
    name: str | None = None,
    instance: UUID = INSTANCE,
) -> Path:
    meta = Meta(filetype, instance, VClock(vclock), None if prev is None else VClock(prev))
    path = directory / (name or file_name(meta.signature, filetype))
    path.write_bytes(log([], meta=meta))
    return path


def signatures(directory: Path, filetype: str = XLOG) -> list[int]:
    return [file.signature for file in scan(RealDisk(), str(directory), filetype)]


def test_files_in_order(tmp_path: Path) -> None:
    put(tmp_path, {1: 100}, {1: 9})
    put(tmp_path, {})
    put(tmp_path, {1: 9}, {})
    put(tmp_path, {1: 9}, filetype=SNAP)
    (tmp_path / "notes.txt").write_text("not ours")
    put(tmp_path, {1: 500}, name="00000000000000000500.xlog.inprogress")
    assert signatures(tmp_path) == [0, 9, 100]
    assert signatures(tmp_path, SNAP) == [9]
    assert inprogress(RealDisk(), str(tmp_path)) == [f"{tmp_path}/00000000000000000500.xlog.inprogress"]
    assert signatures(tmp_path / ".") == [0, 9, 100]


def test_missing_directory_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        signatures(tmp_path / "nowhere")


def broken_files(directory: Path) -> dict[str, Path]:
    put(directory, {1: 5})
    cut = directory / file_name(20, XLOG)
    cut.write_bytes(b"XLOG\n0.13\n")
    empty = directory / file_name(21, XLOG)
    empty.write_bytes(b"")
    return {
        "invalid xlog order": put(directory, {2: 7}),
        "Invalid xlog type: expected XLOG, got SNAP": put(directory, {1: 8}, filetype=SNAP, name=file_name(8, XLOG)),
        "signature check failed": put(directory, {1: 9}, name=file_name(10, XLOG)),
        "the head is not complete": cut,
        "head is not complete": empty,
        "invalid instance UUID": put(directory, {1: 30}, instance=OTHER),
    }


def test_files_that_do_not_belong_are_errors_or_listed(tmp_path: Path) -> None:
    expected = broken_files(tmp_path)
    problems: list[BoxError] = []
    found = scan(RealDisk(), str(tmp_path), XLOG, instance_uuid=INSTANCE, problems=problems)
    assert [file.signature for file in found] == [5]
    assert len(problems) == len(expected)
    for words, path in expected.items():
        assert any(words in problem.message for problem in problems), words
        path.unlink()
    assert signatures(tmp_path) == [5]


def test_first_problem_is_raised_without_a_list(tmp_path: Path) -> None:
    put(tmp_path, {1: 8}, filetype=SNAP, name=file_name(8, XLOG))
    with pytest.raises(BoxError) as caught:
        signatures(tmp_path)
    assert caught.value.code == Er.INVALID_XLOG_TYPE
    put(tmp_path, {1: 8}, instance=OTHER)
    with pytest.raises(XlogError, match="invalid instance UUID") as named:
        scan(RealDisk(), str(tmp_path), XLOG, instance_uuid=INSTANCE)
    assert named.value.path.endswith("8.xlog")


def test_chain_without_gaps(tmp_path: Path) -> None:
    put(tmp_path, {})
    put(tmp_path, {1: 9}, {})
    put(tmp_path, {1: 9, 2: 1}, {1: 9})
    files = scan(RealDisk(), str(tmp_path), XLOG)
    assert gaps(files) == []
    assert gaps(files, VClock()) == []
    assert gaps(files[1:], VClock({1: 20})) == []


def test_file_that_is_missing_in_the_middle(tmp_path: Path) -> None:
    put(tmp_path, {})
    put(tmp_path, {1: 30}, {1: 9})
    (gap,) = gaps(scan(RealDisk(), str(tmp_path), XLOG))
    assert (str(gap.begin), str(gap.end)) == ("{}", "{1: 30}")
    assert gap.path.endswith("30.xlog")
    error = gap.error()
    assert isinstance(error, XlogGapError)
    assert error.message == "Missing .xlog file between LSN 0 {} and 30 {1: 30}"


def test_first_file_begins_too_late(tmp_path: Path) -> None:
    put(tmp_path, {1: 30}, {1: 9})
    files = scan(RealDisk(), str(tmp_path), XLOG)
    assert len(gaps(files, VClock({1: 20}))) == 1
    assert len(gaps(files, VClock({2: 40}))) == 1
    assert gaps(files, VClock({1: 30})) == []


def test_old_files_that_do_not_say_pass(tmp_path: Path) -> None:
    put(tmp_path, {})
    put(tmp_path, {1: 30})
    assert gaps(scan(RealDisk(), str(tmp_path), XLOG)) == []


def test_files_after_a_vclock(tmp_path: Path) -> None:
    """vclockset_match: begin with the last file that is not ahead; if all are ahead, with the first."""
    for lsn in (10, 20, 30):
        put(tmp_path, {1: lsn})
    files = scan(RealDisk(), str(tmp_path), XLOG)
    for lsn, first in ((5, 10), (10, 10), (19, 10), (20, 20), (35, 30)):
        assert after(files, VClock({1: lsn}))[0].signature == first
    assert after(files, VClock({2: 50}))[0].signature == 10
    assert list(after([], VClock())) == []
