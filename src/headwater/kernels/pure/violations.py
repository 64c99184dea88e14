"""What a kernel raises when bytes do not fit a key, a format or a unique index."""

from __future__ import annotations


class KeyViolation(Exception):  # noqa: N818 (the word of the contract)
    """A key that a client gave does not fit the index."""

    def __init__(self, kind: str, part: int, expected: int, given: int) -> None:
        super().__init__(kind, part, expected, given)
        self.kind = kind
        self.part = part
        self.expected = expected
        self.given = given


class FormatViolation(Exception):  # noqa: N818 (the word of the contract)
    """A tuple does not look as its space wants it."""

    def __init__(self, kind: str, field: int, expected: int, got: str | int) -> None:
        super().__init__(kind, field, expected, got)
        self.kind = kind
        self.field = field
        self.expected = expected
        self.got = got


class DuplicateKey(Exception):  # noqa: N818 (the word of the contract)
    """A unique index already has another tuple with this key."""

    def __init__(self, index_id: int, old: bytes, new: bytes) -> None:
        super().__init__(index_id, old, new)
        self.index_id = index_id
        self.old = old
        self.new = new
        self.offset = 0
        self.rows = 0
