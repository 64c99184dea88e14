"""Every difference between Headwater (which answers as 3.x) and Tarantool 2.6.0, with its reason.

A pair of answers that differs and that no entry here allows fails the test; so does an entry that no call needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Answer = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """`calls` matches names of the script's calls; `real` and `ours` match the answers as text (code: message for
    errors); `reason` says why both are right; `lasting`: a 3.x answers so, too."""

    calls: str
    real: str
    ours: str
    reason: str
    lasting: bool = False

    def allows(self, call: str, real: Answer, ours: Answer) -> bool:
        return bool(
            re.search(self.calls, call) and re.search(self.real, as_text(real)) and re.search(self.ours, as_text(ours))
        )


def as_text(answer: Answer) -> str:
    if answer[0] == "ok":
        return f"ok {answer[1]!r}"
    return f"{answer[0]} {answer[1]}: {answer[2]}"


DIFFERENCES: tuple[Difference, ...] = (
    # Texts that 3.x words otherwise, with the same code.
    Difference(
        r".",
        r"^error 3: Duplicate key exists in unique index '(\w+)' in space '\w+'$",
        r"^error 3: Duplicate key exists in unique index \"\w+\" in space \"\w+\" with old tuple - .* and new tuple - ",
        "since 2.10 the text names both tuples (errcode.h, ER_TUPLE_FOUND)",
    ),
    Difference(
        r".",
        r"^error 23: Tuple field \d+ type does not match one required by operation: expected \w+$",
        r"^error 23: Tuple field \d+( \(\w+\))? type does not match one required by operation: expected \w+, got \w+$",
        "since 2.8 the text names the field and what was there (ER_FIELD_TYPE)",
    ),
    Difference(
        r".",
        r"^error 39: Tuple field \d+ required by space format is missing$",
        r"^error 39: Tuple field \d+ \(\w+\) required by space format is missing$",
        "since 2.8 the text names the field (ER_FIELD_MISSING)",
    ),
    Difference(
        r".",
        r"^error 1: Illegal parameters, .",
        r"^error 1: (?!Illegal parameters)",
        "since 3.0 ER_ILLEGAL_PARAMS has no prefix (errcode.h)",
    ),
    Difference(
        r"primary key|change id",
        r"^error 94: Attempt to modify a tuple field which is part of index 'primary' in space",
        r"^error 94: Attempt to modify a tuple field which is part of primary index in space",
        "ER_CANT_UPDATE_PRIMARY_KEY names the index no more",
    ),
    Difference(
        r"^update error splice",
        r"^error 26: .* expected a string$",
        r"^error 26: .* expected a string or varbinary$",
        "since 2.11 varbinary can be spliced, too",
    ),
    Difference(
        r"^ddl (format|index)",
        r"^error 2[47]: Field \d+ has type",
        r"^error 2[47]: Field \d+ \(\w+\) has type",
        "since 2.8 the text names the field (ER_FORMAT_MISMATCH_INDEX_PART, ER_INDEX_PART_TYPE_MISMATCH)",
    ),
    Difference(
        r"^ddl unknown option$",
        r"^error 111: Wrong space options \(field 5\): ",
        r"^error 111: Wrong space options: ",
        "ER_WRONG_SPACE_OPTIONS names the field of _space no more",
    ),
    Difference(
        r"^ddl unknown part type$",
        r"^error 107: Wrong index parts: unknown field type; expected",
        r"^error 107: Wrong index part 1: unknown field type$",
        "3.x says which part (ER_WRONG_INDEX_PARTS)",
    ),
    Difference(
        r"^ddl bad format$",
        r"^error 9: Failed to create space 'x': field 1 has unknown field type$",
        r"^error 141: Wrong space format field 1: unknown field type$",
        "3.x has a code for a wrong format (ER_WRONG_SPACE_FORMAT)",
    ),
    # What 3.x does otherwise.
    Difference(
        r"^hash (REQ|LT|LE|GE) no key$",
        r"^error 136: ",
        r"^error 112: ",
        "3.x looks at the iterator before it looks at the key (memtx_hash_index_create_iterator_after)",
    ),
    Difference(
        r"^(kinds .*uuid|kinds last|types scalar takes uuid.*)$",
        r"expected scalar$|^ok (\[\]|None)$|^ok \[\[b?'",
        r"^ok \[.*(UUID|'00000000-0000-0000-0000-00000000000[57]')",
        "since 2.8 a uuid is a scalar",
    ),
    Difference(
        r"^(doubles|types double takes)",
        r"expected double$|^ok (\[\]|None)$",
        r"^ok \[",
        "since 2.10 an integer fits a field of type double (field_def.c, field_mp_type)",
    ),
    Difference(
        r"^update (and|error twice add)$",
        r"^error 29: Field [12] UPDATE error: double update of the same field$",
        r"^ok \[|^error 94: .*primary index",
        "since 2.8 arithmetic operations of one field add up",
    ),
    Difference(
        r"^(update error (field|insert) far|update append more|upsert field far seen)$",
        r"^error 37: Field (51|16) was not found|^ok \[\[70, 'seventy', 7\]\]$",
        r"^ok \[\[.*None, None, (1|1, None|'later')\]\]$",
        "since 2.8 the fields in between become nil (xrow_update_array_append_nils)",
    ),
    Difference(
        r"^update error delete far$",
        r"^error 37: Field 51 was not found",
        r"^ok \[\[1, 7, -7,",
        "since 2.8 deleting a field behind the end does nothing (xrow_update_op_do_array_delete)",
    ),
    Difference(
        r"^user (wrong password|unknown)$",
        r"^error 4[257]: |\(4[257], |connect: (Session access|User 'nobody')",
        r"^error 47: User not found or supplied credentials are invalid$|\(47, |connect: User not found or supplied",
        "since 2.10.4 one text for both, so that nobody learns names (ER_CREDS_MISMATCH)",
    ),
    Difference(
        r"^update (append|delete last|negative field|error field far negative)$",
        r"^error 26: .* on field \d+ .* expected an integer$",
        r"^error 26: .* on field 1 .* expected an integer$",
        "asynctnt sends a negative field number as a huge one; Tarantool names the field of an earlier request then",
        lasting=True,
    ),
    # What Headwater does not do.
    Difference(
        r"^ddl change engine$",
        r"^error 12: Can't modify space 'renamed': can not change space engine$",
        r"^error 5: Headwater does not support the engine 'vinyl' of space 'renamed'$",
        "the engine vinyl is refused by name",
        lasting=True,
    ),
)


LASTING = tuple(entry for entry in DIFFERENCES if entry.lasting)

# Random calls have no names that say what they try; only a rule that 2.6.0 has and 3.x has not may excuse them.
RANDOM: tuple[Difference, ...] = (
    *(entry for entry in DIFFERENCES if entry.calls == r"."),
    Difference(
        r" update$",
        r"^error 94: Attempt to modify a tuple field which is part of index '\w+' in space",
        r"^error 94: Attempt to modify a tuple field which is part of primary index in space",
        "ER_CANT_UPDATE_PRIMARY_KEY names the index no more",
    ),
    Difference(
        r" (update|upsert)$",
        r"^error 29: Field \d+ UPDATE error: double update of the same field$",
        r".",
        "since 2.8 operations of one field follow one another",
    ),
    Difference(
        r" (update|upsert)$",
        r"^error 37: Field \d+ was not found in the tuple$",
        r".",
        "since 2.8 fields in between become nil, and deleting one behind the end does nothing",
    ),
    Difference(
        r" upsert$",
        r"^error 39: Tuple field \d+ required by space format is missing$",
        r"^error 23: Tuple field \d+ .* got nil$",
        "the same: the field in between became nil",
    ),
    Difference(
        r" upsert$",
        r"^error 38: Tuple field count \d+ does not match",
        r"^error 38: Tuple field count \d+ does not match",
        "the same: the fields in between count",
    ),
    Difference(
        r" (update|upsert)$",
        r"^error 26: .* in operation ':' .* expected a string$",
        r"^(?!error 26: .* expected a string$)",
        "since 2.11 varbinary can be spliced, too",
    ),
    Difference(
        r" (update|upsert)$",
        r"^error 26: .* expected a number convertible to decimal$|^error 95: .*decimal",
        r"^(?!error 26: .* convertible)",
        "3.x has decimals of 76 digits (decimal.h, DECIMAL_MAX_DIGITS)",
    ),
    Difference(
        r" upsert$",
        r"^ok \[\]$",
        r"^error (23|39): ",
        "an operation that 2.6.0 skips for one of the reasons above does not fit the format",
    ),
    Difference(
        r".",
        r"^error 23: ",
        r"^error 39: ",
        "3.x looks for missing fields before it looks at types (tuple_field_map_create_plain)",
    ),
    Difference(
        r" select$",
        r"^error (18|136): ",
        r"^error 112: ",
        "3.x looks at the iterator before it looks at the key of a hash index",
    ),
    Difference(
        r" (select|delete|update|insert|replace|upsert)$",
        r"^error (18|23): .* expected scalar$",
        r"^(?!error (18|23): .* expected scalar)",
        "since 2.8 a uuid is a scalar",
    ),
    Difference(
        r" (insert|replace|update|upsert)$",
        r"^error 23: .* expected double$",
        r"^(ok |error 3: Duplicate)",
        "since 2.10 an integer fits a field of type double",
    ),
)


def explain(call: str, real: Answer, ours: Answer, table: tuple[Difference, ...] = DIFFERENCES) -> Difference | None:
    """The entry that allows this pair, if there is one."""
    return next((entry for entry in table if entry.allows(call, real, ours)), None)
