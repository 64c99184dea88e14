"""The names of plain values, so that a reader and mypy can tell them apart."""

from __future__ import annotations

from enum import IntEnum
from typing import NewType

Lsn = NewType("Lsn", int)
"""Log sequence number: the n-th row that one replica wrote. Starts at 1."""

Term = NewType("Term", int)
"""Election term: grows with every election of a replica set."""

ReplicaId = NewType("ReplicaId", int)
"""0..31: component of a vclock. 0 means rows that stay local; members have 1..31."""

SpaceId = NewType("SpaceId", int)
IndexId = NewType("IndexId", int)
UserId = NewType("UserId", int)

VCLOCK_MAX = 32
"""Ids of a vclock are smaller than this (vclock.h)."""


class FieldType(IntEnum):
    """Types that a format or an index part can ask of a field (field_def.h, enum field_type).

    The numbers are Headwater's own and never leave the process: on the wire and in `_space`
    a type is written by name.
    """

    ANY = 0
    UNSIGNED = 1
    STRING = 2
    NUMBER = 3
    DOUBLE = 4
    INTEGER = 5
    BOOLEAN = 6
    VARBINARY = 7
    SCALAR = 8
    DECIMAL = 9
    UUID = 10
    DATETIME = 11
    INTERVAL = 12
    ARRAY = 13
    MAP = 14
    INT8 = 15
    UINT8 = 16
    INT16 = 17
    UINT16 = 18
    INT32 = 19
    UINT32 = 20
    INT64 = 21
    UINT64 = 22
    FLOAT32 = 23
    FLOAT64 = 24


class IteratorType(IntEnum):
    """How SELECT walks an index (iterator_type.h). These numbers are the wire's."""

    EQ = 0
    REQ = 1
    ALL = 2
    LT = 3
    LE = 4
    GE = 5
    GT = 6
    BITS_ALL_SET = 7
    BITS_ANY_SET = 8
    BITS_ALL_NOT_SET = 9
    OVERLAPS = 10
    NEIGHBOR = 11
    NP = 12
    PP = 13
