"""Numbers and names of the protocol (iproto_constants.h, iproto_features.h of 3.x)."""

from __future__ import annotations

from enum import IntEnum, IntFlag

VERSION = (3, 8, 0)
"""What the greeting and SERVER_VERSION claim: peers choose by it what they send and expect."""


def version_id(major: int, minor: int, patch: int) -> int:
    """A version as one number (version.h): 2.6.0 is 0x020600."""
    return major << 16 | minor << 8 | patch


def version_of(number: int) -> tuple[int, int, int]:
    """The way back from `version_id`."""
    return number >> 16, number >> 8 & 0xFF, number & 0xFF


VERSION_ID = version_id(*VERSION)
PROTOCOL_VERSION = 10
"""IPROTO_CURRENT_VERSION: what IPROTO_ID answers."""

GREETING_SIZE = 128
SALT_SIZE = 32
"""Bytes of salt in a greeting. The login takes the first 20 of them."""
PACKET_SIZE_MAX = 2 * 1024 * 1024 * 1024
"""IPROTO_PACKET_SIZE_MAX: a greater length before a packet is refused with words, not waited for."""
ERROR_BIT = 0x8000
"""Set in the type of an error reply; the rest is the code."""
UNSPECIFIED_THREAD = 0xFFFFFFFF


class Type(IntEnum):
    """Request and reply types (IPROTO_TYPES)."""

    OK = 0
    SELECT = 1
    INSERT = 2
    REPLACE = 3
    UPDATE = 4
    DELETE = 5
    CALL_16 = 6
    AUTH = 7
    EVAL = 8
    UPSERT = 9
    CALL = 10
    EXECUTE = 11
    NOP = 12
    PREPARE = 13
    BEGIN = 14
    COMMIT = 15
    ROLLBACK = 16
    INSERT_ARROW = 17
    DELETE_RANGE = 18
    RAFT = 30
    RAFT_PROMOTE = 31
    RAFT_DEMOTE = 32
    RAFT_CONFIRM = 40
    RAFT_ROLLBACK = 41
    PING = 64
    JOIN = 65
    SUBSCRIBE = 66
    VOTE_DEPRECATED = 67
    VOTE = 68
    FETCH_SNAPSHOT = 69
    REGISTER = 70
    JOIN_META = 71
    JOIN_SNAPSHOT = 72
    ID = 73
    WATCH = 74
    UNWATCH = 75
    EVENT = 76
    WATCH_ONCE = 77
    CHUNK = 128


TYPE_STAT_MAX = Type.DELETE_RANGE + 1
"""IPROTO_TYPE_STAT_MAX: types above it, PING apart, are not served inside a stream."""

DML_TYPES = frozenset(
    (
        Type.SELECT,
        Type.INSERT,
        Type.REPLACE,
        Type.UPDATE,
        Type.DELETE,
        Type.UPSERT,
        Type.NOP,
        Type.INSERT_ARROW,
        Type.DELETE_RANGE,
    )
)
"""iproto_type_is_dml."""
SYNCHRO_TYPES = frozenset((Type.RAFT_CONFIRM, Type.RAFT_ROLLBACK, Type.RAFT_PROMOTE, Type.RAFT_DEMOTE))
"""iproto_type_is_synchro_request."""
REPLICATION_TYPES = frozenset((Type.JOIN, Type.FETCH_SNAPSHOT, Type.REGISTER, Type.SUBSCRIBE))
"""Requests that take the connection over for replication (iproto_msg_prepare)."""

_TYPE_NAMES: dict[int, str] = {int(code): code.name for code in Type} | {
    100: "RUNINFO",
    101: "PAGEINFO",
    102: "ROWINDEX",
}


def type_name(code: int) -> str | None:
    """Name of a type as errors and `xlog` print it (iproto_type_name), None if it has none."""
    return _TYPE_NAMES.get(code)


class MpType(IntEnum):
    """Kinds of MessagePack values, numbered as in msgpuck.h (enum mp_type)."""

    NIL = 0
    UINT = 1
    INT = 2
    STR = 3
    BIN = 4
    ARRAY = 5
    MAP = 6
    BOOL = 7
    FLOAT = 8
    DOUBLE = 9
    EXT = 10


class Key(IntEnum):
    """Keys of headers and bodies (IPROTO_KEYS)."""

    REQUEST_TYPE = 0x00
    SYNC = 0x01
    REPLICA_ID = 0x02
    LSN = 0x03
    TIMESTAMP = 0x04
    SCHEMA_VERSION = 0x05
    SERVER_VERSION = 0x06
    GROUP_ID = 0x07
    TSN = 0x08
    FLAGS = 0x09
    STREAM_ID = 0x0A
    THREAD_ID = 0x0B
    SPACE_ID = 0x10
    INDEX_ID = 0x11
    LIMIT = 0x12
    OFFSET = 0x13
    ITERATOR = 0x14
    INDEX_BASE = 0x15
    FETCH_POSITION = 0x1F
    KEY = 0x20
    TUPLE = 0x21
    FUNCTION_NAME = 0x22
    USER_NAME = 0x23
    INSTANCE_UUID = 0x24
    REPLICASET_UUID = 0x25
    VCLOCK = 0x26
    EXPR = 0x27
    OPS = 0x28
    BALLOT = 0x29
    TUPLE_META = 0x2A
    OPTIONS = 0x2B
    OLD_TUPLE = 0x2C
    NEW_TUPLE = 0x2D
    AFTER_POSITION = 0x2E
    AFTER_TUPLE = 0x2F
    DATA = 0x30
    ERROR_24 = 0x31
    METADATA = 0x32
    BIND_METADATA = 0x33
    BIND_COUNT = 0x34
    POSITION = 0x35
    ARROW = 0x36
    BEGIN_KEY = 0x37
    END_KEY = 0x38
    SQL_TEXT = 0x40
    SQL_BIND = 0x41
    SQL_INFO = 0x42
    STMT_ID = 0x43
    REPLICA_ANON = 0x50
    ID_FILTER = 0x51
    ERROR = 0x52
    TERM = 0x53
    VERSION = 0x54
    FEATURES = 0x55
    TIMEOUT = 0x56
    EVENT_KEY = 0x57
    EVENT_DATA = 0x58
    TXN_ISOLATION = 0x59
    VCLOCK_SYNC = 0x5A
    AUTH_TYPE = 0x5B
    REPLICASET_NAME = 0x5C
    INSTANCE_NAME = 0x5D
    SPACE_NAME = 0x5E
    INDEX_NAME = 0x5F
    TUPLE_FORMATS = 0x60
    IS_SYNC = 0x61
    IS_CHECKPOINT_JOIN = 0x62
    CHECKPOINT_VCLOCK = 0x63
    CHECKPOINT_LSN = 0x64


KEY_MAX = 0x65
"""iproto_key_MAX: keys below it are checked for their type, keys from it on are skipped."""

_KEY_TYPES = {
    MpType.DOUBLE: (Key.TIMESTAMP, Key.TIMEOUT),
    MpType.BOOL: (Key.FETCH_POSITION, Key.REPLICA_ANON, Key.IS_SYNC, Key.IS_CHECKPOINT_JOIN),
    MpType.ARRAY: (
        Key.KEY,
        Key.TUPLE,
        Key.OPS,
        Key.OLD_TUPLE,
        Key.NEW_TUPLE,
        Key.AFTER_TUPLE,
        Key.DATA,
        Key.METADATA,
        Key.BIND_METADATA,
        Key.BEGIN_KEY,
        Key.END_KEY,
        Key.SQL_BIND,
        Key.ID_FILTER,
        Key.FEATURES,
    ),
    MpType.STR: (
        Key.FUNCTION_NAME,
        Key.USER_NAME,
        Key.INSTANCE_UUID,
        Key.REPLICASET_UUID,
        Key.EXPR,
        Key.AFTER_POSITION,
        Key.ERROR_24,
        Key.POSITION,
        Key.SQL_TEXT,
        Key.EVENT_KEY,
        Key.AUTH_TYPE,
        Key.REPLICASET_NAME,
        Key.INSTANCE_NAME,
        Key.SPACE_NAME,
        Key.INDEX_NAME,
    ),
    MpType.MAP: (
        Key.VCLOCK,
        Key.BALLOT,
        Key.TUPLE_META,
        Key.OPTIONS,
        Key.SQL_INFO,
        Key.ERROR,
        Key.TUPLE_FORMATS,
        Key.CHECKPOINT_VCLOCK,
    ),
    MpType.EXT: (Key.ARROW,),
    MpType.NIL: (Key.EVENT_DATA,),
}


def _key_types() -> bytes:
    """Type by key. A number that is no key counts as NIL, as in the zeroed table of iproto_constants.c."""
    table = bytearray(KEY_MAX)
    for key in Key:
        table[key] = MpType.UINT
    for kind, keys in _KEY_TYPES.items():
        for key in keys:
            table[key] = kind
    return bytes(table)


KEY_TYPE = _key_types()
"""iproto_key_type: the MpType that the value of a key must have."""

_KEY_NAMES = {int(key): key.name for key in Key}


def key_name(key: int) -> str | None:
    """Name of a key as errors print it (iproto_key_name), None if it has none."""
    return _KEY_NAMES.get(key)


class BallotKey(IntEnum):
    """Keys of the map under BALLOT (IPROTO_BALLOT_KEYS)."""

    IS_RO_CFG = 0x01
    VCLOCK = 0x02
    GC_VCLOCK = 0x03
    IS_RO = 0x04
    IS_ANON = 0x05
    IS_BOOTED = 0x06
    CAN_LEAD = 0x07
    BOOTSTRAP_LEADER_UUID = 0x08
    REGISTERED_REPLICA_UUIDS = 0x09
    INSTANCE_NAME = 0x0A


class RaftKey(IntEnum):
    """Keys of the body of a RAFT row (IPROTO_RAFT_KEYS)."""

    TERM = 0
    VOTE = 1
    STATE = 2
    VCLOCK = 3
    LEADER_ID = 4
    IS_LEADER_SEEN = 5


class RaftState(IntEnum):
    """State in a RAFT message (raft.h)."""

    FOLLOWER = 1
    CANDIDATE = 2
    LEADER = 3


class ErrorKey(IntEnum):
    """Keys of one error of a stack (mp_error.cc)."""

    TYPE = 0
    FILE = 1
    LINE = 2
    MESSAGE = 3
    ERRNO = 4
    CODE = 5
    FIELDS = 6


ERROR_STACK = 0
"""Key of the stack in the map under ERROR (mp_error.cc, MP_ERROR_STACK)."""


class Flag(IntFlag):
    """Bits of FLAGS, set on the last row of a transaction."""

    COMMIT = 1
    """Last row of a transaction of several rows. Implied, and not written, for one row."""
    WAIT_SYNC = 2
    """The transaction waits in the limbo."""
    WAIT_ACK = 4
    """The transaction is synchronous itself."""


class Group(IntEnum):
    DEFAULT = 0
    LOCAL = 1
    """Rows that stay on their instance; they count in component 0."""


class Feature(IntEnum):
    """Features that IPROTO_ID negotiates (IPROTO_FEATURES)."""

    STREAMS = 0
    TRANSACTIONS = 1
    ERROR_EXTENSION = 2
    WATCHERS = 3
    PAGINATION = 4
    SPACE_AND_INDEX_NAMES = 5
    WATCH_ONCE = 6
    DML_TUPLE_EXTENSION = 7
    CALL_RET_TUPLE_EXTENSION = 8
    CALL_ARG_TUPLE_EXTENSION = 9
    FETCH_SNAPSHOT_CURSOR = 10
    IS_SYNC = 11
    INSERT_ARROW = 12
    REPLICA_IDS = 64
    """Not Tarantool's, which passes over features that it does not know (mp_decode_feature_bits): the node gives
    replica ids of its own and translates those of its masters."""


FEATURES = frozenset(Feature) - {Feature.REPLICA_IDS}
"""Those of 3.x (iproto_features.c, IPROTO_CURRENT_FEATURES), its cursor for snapshots included."""


class ExtType(IntEnum):
    """MessagePack extensions (mp_extension_types.h)."""

    DECIMAL = 1
    UUID = 2
    ERROR = 3
    DATETIME = 4
    COMPRESSION = 5
    INTERVAL = 6
    TUPLE = 7
    ARROW = 8
