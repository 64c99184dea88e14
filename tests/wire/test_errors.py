"""Codes, texts and payloads of errors."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.support.tarantool import EXECUTABLE, run_lua

from headwater.errors import (
    AccessDenied,
    BoxError,
    CustomError,
    Er,
    IllegalParams,
    OutOfMemory,
    Packed,
    SystemError_,
    TimedOut,
    XlogError,
    XlogGapError,
    er,
)


@pytest.mark.parametrize(
    ("error", "code", "type_name", "text"),
    [
        (er(Er.NO_SUCH_SPACE, "t"), 36, "ClientError", "Space 't' does not exist"),
        (er(Er.EXACT_MATCH, 2, 1), 19, "ClientError", "Invalid key part count in an exact match (expected 2, got 1)"),
        (er(Er.OLD_TERM, 2**63, 5), 245, "ClientError", "The term is outdated: old - 9223372036854775808, new - 5"),
        (er(Er.UPDATE_FIELD, 2, "why"), 29, "ClientError", "Field 2 UPDATE error: why"),
        (er(Er.ACTIVE_TIMER), 232, "ClientError", "Operation is not permitted if timer is already running"),
        (er(Er.ACCESS_DENIED, "R", "space", "s", "u"), 42, "AccessDeniedError", "R access to space 's' is denied for user 'u'"),  # noqa: E501
        (er(Er.ILLEGAL_PARAMS, "no"), 1, "IllegalParams", "no"),
        (er(Er.SYSTEM, "disk"), 115, "SystemError", "disk"),
        (er(Er.XLOG_GAP, "gap"), 219, "XlogGapError", "gap"),
        (IllegalParams("x"), 1, "IllegalParams", "x"),
        (OutOfMemory(5, "arena", "tuple"), 2, "OutOfMemory", "Failed to allocate 5 bytes in arena for tuple"),
        (TimedOut(), 115, "TimedOut", "timed out"),
        (SystemError_("can't open", errno.ENOENT), 115, "SystemError", "can't open: No such file or directory"),
        (CustomError("My", "text", 7), 7, "CustomError", "text"),
        (XlogError("bad", path="f.xlog", offset=9, lsn=4), 32, "XlogError", "f.xlog: bad (offset 9, last good LSN 4)"),
    ],
)  # fmt: skip
def test_code_class_and_text(error: BoxError, code: int, type_name: str, text: str) -> None:
    assert (error.code, error.type_name, error.message, str(error)) == (code, type_name, text, text)


def test_arguments_beyond_the_text_are_payload() -> None:
    error = er(Er.TUPLE_FOUND, "pk", "t", "[1]", "[1, 2]", b"\x91\x01", b"\x92\x01\x02")
    assert error.fields == {
        "name": "TUPLE_FOUND",
        "index": "pk",
        "space": "t",
        "old_tuple": b"\x91\x01",
        "new_tuple": b"\x92\x01\x02",
    }
    assert isinstance(error.fields["old_tuple"], Packed)
    assert er(Er.TUPLE_FOUND, "pk", "t", "", "").fields == {"name": "TUPLE_FOUND", "index": "pk", "space": "t"}


def test_stack_ends_even_if_causes_form_a_ring() -> None:
    one, two = er(Er.LOADING), er(Er.READONLY)
    one.cause, two.cause = two, one
    assert one.stack() == [one, two]


def test_every_text_can_be_filled() -> None:
    for code in Er:
        text = code.template % tuple("x" if "%s" in part else 1 for part in conversions(code.template))
        assert "%" not in text
        assert len(conversions(code.template)) == code.arity


def conversions(template: str) -> list[str]:
    return ["%" + part[0] for part in template.split("%")[1:]]


@pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
def test_names_and_numbers_are_those_of_a_real_tarantool(tmp_path: Path) -> None:
    """2.6.0 knows the codes up to 220; some names have been given away since."""
    script = """
    local out = {}
    for name, code in pairs(box.error) do
        if type(code) == 'number' then out[name] = code end
    end
    answer(out)
    """
    theirs = run_lua(script, cwd=tmp_path)
    ours = {code.name: int(code) for code in Er}
    common = set(ours) & set(theirs)
    assert len(common) > 150
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


def test_gap_in_words_of_the_source() -> None:
    error = XlogGapError.between(10, "{1: 10}", 20, "{1: 20}")
    assert error.message == "Missing .xlog file between LSN 10 {1: 10} and 20 {1: 20}"
    assert isinstance(error, XlogError)


def test_access_denied_is_a_client_error_with_fields() -> None:
    with pytest.raises(BoxError) as caught:
        raise AccessDenied("Execute", "function", "f", "guest")
    assert caught.value.code == Er.ACCESS_DENIED
