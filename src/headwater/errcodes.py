"""The error codes of 3.x: number, text and the names of the payload fields (errcode.h, ERROR_CODES).

A member reads `NAME = code, text, *names`. The text is a printf format; the arguments of an error fill
first the format and, name by name and from the first argument on, the payload (map 6 of the error stack).
An empty name keeps an argument out of the payload. Arguments beyond the format go into the payload only.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Self

_CONVERSION = re.compile(r"%(?:ll|l)?([cdisu])")


class Er(IntEnum):
    """Codes of errcode.h without their `ER_`. Numbers that 3.x marks as unused are absent."""

    text: str
    """The printf format, letter by letter as in errcode.h."""
    payload: tuple[str, ...]
    """Names of the arguments in the payload."""
    arity: int
    """How many arguments the format takes."""
    template: str
    """The format as Python's % operator takes it."""

    def __new__(cls, code: int, text: str, *payload: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.payload = payload
        member.arity = len(_CONVERSION.findall(text))
        member.template = _CONVERSION.sub(lambda found: "%s" if found[1] in "cs" else "%d", text)
        return member

    UNKNOWN = 0, "Unknown error"
    ILLEGAL_PARAMS = 1, "%s", ""
    MEMORY_ISSUE = 2, "Failed to allocate %u bytes in %s for %s"
    TUPLE_FOUND = (
        3,
        'Duplicate key exists in unique index "%s" in space "%s" with old tuple - %s and new tuple - %s',
        "index",
        "space",
        "",
        "",
        "old_tuple",
        "new_tuple",
    )
    UNSUPPORTED = 5, "%s does not support %s", "", ""
    READONLY = 7, "Can't modify data on a read-only instance"
    INJECTION = 8, "Error injection '%s'", "details"
    CREATE_SPACE = 9, "Failed to create space '%s': %s", "space", "details"
    SPACE_EXISTS = 10, "Space '%s' already exists", "space"
    DROP_SPACE = 11, "Can't drop space '%s': %s", "space", "details"
    ALTER_SPACE = 12, "Can't modify space '%s': %s", "space", "details"
    INDEX_TYPE = 13, "Unsupported index type supplied for index '%s' in space '%s'", "index", "space"
    MODIFY_INDEX = 14, "Can't create or modify index '%s' in space '%s': %s", "index", "space", "details"
    LAST_DROP = 15, "Can't drop the primary key in a system space, space '%s'", "space"
    TUPLE_FORMAT_LIMIT = 16, "Tuple format limit reached: %u", "max"
    DROP_PRIMARY_KEY = 17, "Can't drop primary key in space '%s' while secondary keys exist", "space"
    KEY_PART_TYPE = 18, "Supplied key type of part %u does not match index part type: expected %s", "partno", "expected"
    EXACT_MATCH = 19, "Invalid key part count in an exact match (expected %u, got %u)", "expected", "actual"
    INVALID_MSGPACK = 20, "Invalid MsgPack - %s", "details"
    TUPLE_NOT_ARRAY = 22, "Tuple/Key must be MsgPack array"
    FIELD_TYPE = (
        23,
        "Tuple field %s type does not match one required by operation: expected %s, got %s",
        "field",
        "expected",
        "actual",
    )
    INDEX_PART_TYPE_MISMATCH = (
        24,
        "Field %s has type '%s' in one index, but type '%s' in another",
        "field",
        "actual",
        "expected",
    )
    UPDATE_SPLICE = 25, "SPLICE error on field %s: %s", "field", "details"
    UPDATE_ARG_TYPE = (
        26,
        "Argument type in operation '%c' on field %s does not match field type: expected %s",
        "operation",
        "field",
        "expected",
    )
    FORMAT_MISMATCH_INDEX_PART = (
        27,
        "Field %s has type '%s' in space format, but type '%s' in index definition",
        "field",
        "actual",
        "expected",
    )
    UNKNOWN_UPDATE_OP = 28, "Unknown UPDATE operation #%d: %s", "argno", "operation"
    UPDATE_FIELD = 29, "Field %s UPDATE error: %s", "field", "details"
    FUNCTION_TX_ACTIVE = 30, "Transaction is active at return from function"
    KEY_PART_COUNT = 31, "Invalid key part count (expected [0..%u], got %u)", "max", "value"
    PROC_LUA = 32, "%s", "details"
    NO_SUCH_PROC = 33, "Procedure '%s' is not defined", "func"
    NO_SUCH_TRIGGER = 34, "Trigger '%s' doesn't exist", "trigger"
    NO_SUCH_INDEX_ID = 35, "No index #%u is defined in space '%s'", "index_id", "space"
    NO_SUCH_SPACE = 36, "Space '%s' does not exist", "space"
    NO_SUCH_FIELD_NO = 37, "Field %d was not found in the tuple", "fieldno"
    EXACT_FIELD_COUNT = 38, "Tuple field count %u does not match space field count %u", "actual", "expected"
    FIELD_MISSING = 39, "Tuple field %s required by space format is missing", "field"
    WAL_IO = 40, "Failed to write to disk"
    MORE_THAN_ONE_TUPLE = 41, "Get() doesn't support partial keys and non-unique indexes"
    ACCESS_DENIED = 42, "%s access to %s '%s' is denied for user '%s'"
    CREATE_USER = 43, "Failed to create user '%s': %s", "user", "details"
    DROP_USER = 44, "Failed to drop user or role '%s': %s", "user", "details"
    NO_SUCH_USER = 45, "User '%s' is not found", "user"
    USER_EXISTS = 46, "User '%s' already exists", "user"
    CREDS_MISMATCH = 47, "User not found or supplied credentials are invalid"
    UNKNOWN_REQUEST_TYPE = 48, "Unknown request type %u", "value"
    UNKNOWN_SCHEMA_OBJECT = 49, "Unknown object type '%s'", "value"
    CREATE_FUNCTION = 50, "Failed to create function '%s': %s", "func", "details"
    NO_SUCH_FUNCTION = 51, "Function '%s' does not exist", "func"
    FUNCTION_EXISTS = 52, "Function '%s' already exists", "func"
    BEFORE_REPLACE_RET = 53, "Invalid return value of space:before_replace trigger: expected tuple or nil"
    MULTISTATEMENT_TRANSACTION = 54, "Can not perform %s in a multi-statement transaction", "operation"
    TRIGGER_EXISTS = 55, "Trigger '%s' already exists", "trigger"
    USER_MAX = 56, "A limit on the total number of users has been reached: %u", "max"
    NO_SUCH_ENGINE = 57, "Space engine '%s' does not exist", "engine"
    RELOAD_CFG = 58, "Can't set option '%s' dynamically", "option"
    CFG = 59, "Incorrect value for option '%s': %s", "option", "details"
    SAVEPOINT_EMPTY_TX = 60, "Can not set a savepoint in an empty transaction"
    NO_SUCH_SAVEPOINT = 61, "Can not rollback to savepoint: the savepoint does not exist"
    UNKNOWN_REPLICA = 62, "Replica %s is not registered with replica set %s", "replica", "replicaset"
    REPLICASET_UUID_MISMATCH = 63, "Replica set UUID mismatch: expected %s, got %s", "expected", "actual"
    INVALID_UUID = 64, "Invalid UUID: %s", "value"
    REPLICASET_UUID_IS_RO = 65, "Can't reset replica set UUID: it is already assigned"
    INSTANCE_UUID_MISMATCH = 66, "Instance UUID mismatch: expected %s, got %s", "expected", "actual"
    REPLICA_ID_IS_RESERVED = 67, "Can't initialize replica id with a reserved value %u", "value"
    MISSING_REQUEST_FIELD = 69, "Missing mandatory field '%s' in request", "value"
    IDENTIFIER = 70, "Invalid identifier '%s' (expected printable symbols only or it is too long)", "value"
    DROP_FUNCTION = 71, "Can't drop function %u: %s", "func_id", "details"
    ITERATOR_TYPE = 72, "Unknown iterator type '%s'", "value"
    REPLICA_MAX = 73, "Replica count limit reached: %u", "max"
    NO_CONNECTION = 77, "Connection is not established"
    TIMEOUT = 78, "Timeout exceeded"
    ACTIVE_TRANSACTION = 79, "Operation is not permitted when there is an active transaction "
    CURSOR_NO_TRANSACTION = 80, "The transaction the cursor belongs to has ended"
    NO_SUCH_ROLE = 82, "Role '%s' is not found", "role"
    ROLE_EXISTS = 83, "Role '%s' already exists", "role"
    CREATE_ROLE = 84, "Failed to create role '%s': %s", "role", "details"
    INDEX_EXISTS = 85, "Index '%s' already exists", "index"
    SESSION_CLOSED = 86, "Session is closed"
    ROLE_LOOP = 87, "Granting role '%s' to role '%s' would create a loop", "role", "grantee"
    GRANT = 88, "Incorrect grant arguments: %s", "details"
    PRIV_GRANTED = 89, "User '%s' already has %s access on %s", "user", "privilege", "", "object_type", "object"
    ROLE_GRANTED = 90, "User '%s' already has role '%s'", "user", "role"
    PRIV_NOT_GRANTED = 91, "User '%s' does not have %s access on %s '%s'", "user", "privilege", "object_type", "object"
    ROLE_NOT_GRANTED = 92, "User '%s' does not have role '%s'", "user", "role"
    MISSING_SNAPSHOT = 93, "Can't find snapshot"
    CANT_UPDATE_PRIMARY_KEY = (
        94,
        "Attempt to modify a tuple field which is part of primary index in space '%s'",
        "space",
        "space_id",
        "old_tuple",
        "new_tuple",
        "ops",
    )
    UPDATE_INTEGER_OVERFLOW = 95, "Integer overflow when performing '%c' operation on field %s", "operation", "field"
    GUEST_USER_PASSWORD = 96, "Setting password for guest user has no effect"
    TRANSACTION_CONFLICT = 97, "Transaction has been aborted by conflict"
    UNSUPPORTED_PRIV = 98, "Unsupported %s privilege '%s'", "object_type", "privilege"
    LOAD_FUNCTION = 99, "Failed to dynamically load function '%s': %s", "func", "details"
    FUNCTION_LANGUAGE = 100, "Unsupported language '%s' specified for function '%s'", "value", "func"
    RTREE_RECT = 101, "RTree: %s must be an array with %u (point) or %u (rectangle/box) numeric coordinates", "", "", ""
    PROC_C = 102, "%s"
    PROTOCOL = 104, "%s", "details"
    WRONG_INDEX_RECORD = 106, "Wrong record in _index space: got {%s}, expected {%s}", "actual", "expected"
    WRONG_INDEX_PARTS = 107, "Wrong index part %u: %s", "partno", "details"
    WRONG_INDEX_OPTIONS = 108, "Wrong index options: %s", "details"
    WRONG_SCHEMA_VERSION = 109, "Wrong schema version, current: %d, in request: %llu", "actual", "expected"
    MEMTX_MAX_TUPLE_SIZE = (
        110,
        (
            "Failed to allocate %u bytes for tuple: tuple is too large. Check 'memtx_max_tuple_size' configuration "
            "option."
        ),
        "value",
        "max",
    )
    WRONG_SPACE_OPTIONS = 111, "Wrong space options: %s", "details"
    UNSUPPORTED_INDEX_FEATURE = (
        112,
        "Index '%s' (%s) of space '%s' (%s) does not support %s",
        "index",
        "index_type",
        "space",
        "engine",
        "feature",
    )
    VIEW_IS_RO = 113, "View '%s' is read-only", "space"
    NO_TRANSACTION = 114, "No active transaction"
    SYSTEM = 115, "%s"
    LOADING = 116, "Instance bootstrap hasn't finished yet"
    CONNECTION_TO_SELF = 117, "Connection to self"
    COMPRESSION = 119, "Compression error: %s", "details"
    CHECKPOINT_IN_PROGRESS = 120, "Snapshot is already in progress"
    SUB_STMT_MAX = 121, "Can not execute a nested statement: nesting limit reached"
    COMMIT_IN_SUB_STMT = 122, "Can not commit transaction in a nested statement"
    ROLLBACK_IN_SUB_STMT = 123, "Rollback called in a nested statement"
    DECOMPRESSION = 124, "Decompression error: %s", "details"
    INVALID_XLOG_TYPE = 125, "Invalid xlog type: expected %s, got %s", "expected", "actual"
    ALREADY_RUNNING = 126, "Failed to lock WAL directory %s and hot_standby mode is off", "path"
    INDEX_FIELD_COUNT_LIMIT = 127, "Indexed field count limit reached: %d indexed fields", "max"
    LOCAL_INSTANCE_ID_IS_READ_ONLY = 128, "The local instance id %u is read-only", "instance_id"
    BACKUP_IN_PROGRESS = 129, "Backup is already in progress"
    READ_VIEW_ABORTED = 130, "The read view is aborted"
    INVALID_INDEX_FILE = 131, "Invalid INDEX file %s: %s", "path", "details"
    INVALID_RUN_FILE = 132, "Invalid RUN file: %s", "details"
    INVALID_VYLOG_FILE = 133, "Invalid VYLOG file: %s", "details"
    CASCADE_ROLLBACK = 134, "WAL has a rollback in progress"
    VY_QUOTA_TIMEOUT = 135, "Timed out waiting for Vinyl memory quota"
    PARTIAL_KEY = (
        136,
        (
            "%s index  does not support selects via a partial key (expected %u parts, got %u). Please Consider "
            "changing index type to TREE."
        ),
        "index_type",
        "expected",
        "actual",
    )
    TRUNCATE_SYSTEM_SPACE = 137, "Can't truncate a system space, space '%s'", "space"
    LOAD_MODULE = 138, "Failed to dynamically load module '%s': %s", "module", "details"
    VINYL_MAX_TUPLE_SIZE = (
        139,
        (
            "Failed to allocate %u bytes for tuple: tuple is too large. Check 'vinyl_max_tuple_size' configuration "
            "option."
        ),
        "value",
        "max",
    )
    WRONG_DD_VERSION = 140, "Wrong _schema version: expected 'major.minor[.patch]'"
    WRONG_SPACE_FORMAT = 141, "Wrong space format field %u: %s", "fieldno", "details"
    CREATE_SEQUENCE = 142, "Failed to create sequence '%s': %s", "sequence", "details"
    ALTER_SEQUENCE = 143, "Can't modify sequence '%s': %s", "sequence", "details"
    DROP_SEQUENCE = 144, "Can't drop sequence '%s': %s", "sequence", "details"
    NO_SUCH_SEQUENCE = 145, "Sequence '%s' does not exist", "sequence"
    SEQUENCE_EXISTS = 146, "Sequence '%s' already exists", "sequence"
    SEQUENCE_OVERFLOW = 147, "Sequence '%s' has overflowed", "sequence"
    NO_SUCH_INDEX_NAME = 148, "No index '%s' is defined in space '%s'", "index", "space"
    SPACE_FIELD_IS_DUPLICATE = 149, "Space field '%s' is duplicate", "field"
    CANT_CREATE_COLLATION = 150, "Failed to initialize collation: %s.", "details"
    WRONG_COLLATION_OPTIONS = 151, "Wrong collation options: %s", "details"
    NULLABLE_PRIMARY = 152, "Primary index of space '%s' can not contain nullable parts", "space"
    NO_SUCH_FIELD_NAME_IN_SPACE = 153, "Field '%s' was not found in space '%s' format", "field", "space"
    TRANSACTION_YIELD = 154, "Transaction has been aborted by a fiber yield"
    NO_SUCH_GROUP = 155, "Replication group '%s' does not exist", "replication_group"
    SQL_BIND_TYPE = 157, "Bind value type %s for parameter %s is not supported", "value_type", "parameter"
    SQL_BIND_PARAMETER_MAX = 158, "SQL bind parameter limit reached: %d", "max"
    SQL_EXECUTE = 159, "Failed to execute SQL statement: %s", "details"
    UPDATE_DECIMAL_OVERFLOW = 160, "Decimal overflow when performing operation '%c' on field %s", "operation", "field"
    SQL_BIND_NOT_FOUND = 161, "Parameter %s was not found in the statement", "parameter"
    ACTION_MISMATCH = (
        162,
        "Field %s contains %s on conflict action, but %s in index parts",
        "field",
        "expected",
        "actual",
    )
    VIEW_MISSING_SQL = 163, "Space declared as a view must have SQL statement"
    FOREIGN_KEY_CONSTRAINT = 164, "Can not commit transaction: deferred foreign keys violations are not resolved"
    NO_SUCH_MODULE = 165, "Module '%s' does not exist", "module"
    NO_SUCH_COLLATION = 166, "Collation '%s' does not exist", "collation"
    CREATE_FK_CONSTRAINT = 167, "Failed to create foreign key constraint '%s': %s", "constraint", "details"
    NO_SUCH_CONSTRAINT = 169, "Constraint '%s' does not exist in space '%s'", "constraint", "space"
    CONSTRAINT_EXISTS = 170, "%s constraint '%s' already exists in space '%s'", "constraint_type", "constraint", "space"
    SQL_TYPE_MISMATCH = 171, "Type mismatch: can not convert %s to %s", "actual", "expected"
    ROWID_OVERFLOW = 172, "Rowid is overflowed: too many entries in ephemeral space"
    DROP_COLLATION = 173, "Can't drop collation '%s': %s", "collation", "details"
    ILLEGAL_COLLATION_MIX = 174, "Illegal mix of collations"
    SQL_NO_SUCH_PRAGMA = 175, "Pragma '%s' does not exist", "pragma"
    SQL_CANT_RESOLVE_FIELD = 176, "Can't resolve field '%s'", "field"
    INDEX_EXISTS_IN_SPACE = 177, "Index '%s' already exists in space '%s'", "index", "space"
    INCONSISTENT_TYPES = 178, "Inconsistent types: expected %s got %s", "expected", "actual"
    SQL_SYNTAX_WITH_POS = 179, "Syntax error at line %d at or near position %d: %s", "line", "position", "details"
    SQL_STACK_OVERFLOW = 180, "Failed to parse SQL statement: parser stack limit reached"
    SQL_SELECT_WILDCARD = 181, "Failed to expand '*' in SELECT statement without FROM clause"
    SQL_STATEMENT_EMPTY = 182, "Failed to execute an empty SQL statement"
    SQL_KEYWORD_IS_RESERVED = (
        183,
        (
            "At line %d at or near position %d: keyword '%s' is reserved. Please use double quotes if '%s' is an "
            "identifier."
        ),
        "line",
        "position",
        "keyword",
        "",
    )
    SQL_SYNTAX_NEAR_TOKEN = 184, "Syntax error at line %d near '%s'", "line", "token"
    SQL_UNKNOWN_TOKEN = 185, "At line %d at or near position %d: unrecognized token '%s'", "line", "position", "value"
    SQL_PARSER_GENERIC = 186, "%s", "details"
    SQL_COLUMN_COUNT_MAX = (
        188,
        "Failed to create space '%s': space column count %d exceeds the limit (%d)",
        "space",
        "value",
        "max",
    )
    HEX_LITERAL_MAX = 189, "Hex literal %s length %d exceeds the supported limit (%d)", "value"
    INT_LITERAL_MAX = (
        190,
        "Integer literal %s exceeds the supported range [-9223372036854775808, 18446744073709551615]",
        "literal",
    )
    SQL_PARSER_LIMIT = 191, "%s %d exceeds the limit (%d)", "parameter", "value", "max"
    INDEX_DEF_UNSUPPORTED = 192, "%s are prohibited in an index definition", "feature"
    MULTIKEY_INDEX_MISMATCH = 194, "Field %s is used as multikey in one index and as single key in another", "field"
    CREATE_CK_CONSTRAINT = 195, "Failed to create check constraint '%s': %s", "constraint", "details"
    SQL_COLUMN_COUNT = (
        197,
        "Unequal number of entries in row expression: left side has %u, but right side - %u",
        "actual",
        "expected",
    )
    FUNC_INDEX_FUNC = (
        198,
        "Failed to build a key for functional index '%s' of space '%s': %s",
        "index",
        "space",
        "details",
    )
    FUNC_INDEX_FORMAT = (
        199,
        "Key format doesn't match one defined in functional index '%s' of space '%s': %s",
        "index",
        "space",
        "details",
    )
    FUNC_INDEX_PARTS = 200, "Wrong functional index definition: %s", "details"
    NO_SUCH_FIELD_NAME = 201, "Field '%s' was not found in the tuple", "field"
    FUNC_WRONG_ARG_COUNT = (
        202,
        "Wrong number of arguments is passed to %s(): expected %s, got %d",
        "func",
        "",
        "value",
        "min",
        "max",
    )
    BOOTSTRAP_READONLY = 203, "Trying to bootstrap a local read-only instance as master"
    SQL_FUNC_WRONG_RET_COUNT = 204, "SQL expects exactly one argument returned from %s, got %d", "func", "actual"
    FUNC_INVALID_RETURN_TYPE = (
        205,
        "Function '%s' returned value of invalid type: expected %s got %s",
        "func",
        "expected",
        "actual",
    )
    SQL_PARSER_GENERIC_WITH_POS = 206, "At line %d at or near position %d: %s", "line", "position", "details"
    REPLICA_NOT_ANON = 207, "Replica '%s' is not anonymous and cannot register.", "replica"
    CANNOT_REGISTER = 208, "Couldn't find an instance to register this replica on."
    SESSION_SETTING_INVALID_VALUE = 209, "Session setting %s expected a value of type %s", "setting", "expected"
    SQL_PREPARE = 210, "Failed to prepare SQL statement: %s", "details"
    WRONG_QUERY_ID = 211, "Prepared statement with id %u does not exist", "value"
    SEQUENCE_NOT_STARTED = 212, "Sequence '%s' is not started", "sequence"
    NO_SUCH_SESSION_SETTING = 213, "Session setting %s doesn't exist", "setting"
    UNCOMMITTED_FOREIGN_SYNC_TXNS = (
        214,
        "Found uncommitted sync transactions from other instance with id %u",
        "instance_id",
    )
    SYNC_QUORUM_TIMEOUT = 216, "Quorum collection for a synchronous transaction is timed out"
    SYNC_ROLLBACK = 217, "A rollback for a synchronous transaction is received"
    TUPLE_METADATA_IS_TOO_BIG = 218, "Can't create tuple: metadata size %u is too big", "value"
    XLOG_GAP = 219, "%s"
    TOO_EARLY_SUBSCRIBE = 220, "Can't subscribe non-anonymous replica %s until join is done", "replica"
    SQL_CANT_ADD_AUTOINC = (
        221,
        "Can't add AUTOINCREMENT: space %s can't feature more than one AUTOINCREMENT field",
        "space",
    )
    QUORUM_WAIT = 222, "Couldn't wait for quorum %d: %s", "value", "details"
    INTERFERING_PROMOTE = 223, "Instance with replica id %u was promoted first", "replica_id"
    ELECTION_DISABLED = 224, "Elections were turned off"
    TXN_ROLLBACK = 225, "Transaction was rolled back"
    NOT_LEADER = 226, "The instance is not a leader. New leader is %u", "leader_id"
    SYNC_QUEUE_UNCLAIMED = 227, "The synchronous transaction queue doesn't belong to any instance"
    SYNC_QUEUE_FOREIGN = 228, "The synchronous transaction queue belongs to other instance with id %u", "instance_id"
    UNABLE_TO_PROCESS_IN_STREAM = 229, "Unable to process %s request in stream", "request"
    UNABLE_TO_PROCESS_OUT_OF_STREAM = 230, "Unable to process %s request out of stream", "request"
    TRANSACTION_TIMEOUT = 231, "Transaction has been aborted by timeout"
    ACTIVE_TIMER = 232, "Operation is not permitted if timer is already running"
    TUPLE_FIELD_COUNT_LIMIT = 233, "Tuple field count limit reached: see box.schema.FIELD_MAX"
    CREATE_CONSTRAINT = 234, "Failed to create constraint '%s' in space '%s': %s", "constraint", "space", "details"
    FIELD_CONSTRAINT_FAILED = 235, "Check constraint '%s' failed for field '%s'", "constraint", "field", "field_id"
    TUPLE_CONSTRAINT_FAILED = 236, "Check constraint '%s' failed for a tuple", "constraint"
    CREATE_FOREIGN_KEY = 237, "Failed to create foreign key '%s' in space '%s': %s", "constraint", "space", "details"
    FOREIGN_KEY_INTEGRITY = 238, "Foreign key '%s' integrity check failed: %s", "constraint", "details"
    FIELD_FOREIGN_KEY_FAILED = (
        239,
        "Foreign key constraint '%s' failed for field '%s': %s",
        "constraint",
        "field",
        "details",
        "field_id",
    )
    COMPLEX_FOREIGN_KEY_FAILED = 240, "Foreign key constraint '%s' failed: %s", "constraint", "details"
    WRONG_SPACE_UPGRADE_OPTIONS = 241, "Wrong space upgrade options: %s", "details"
    NO_ELECTION_QUORUM = (
        242,
        "Not enough peers connected to start elections: %d out of minimal required %d",
        "actual",
        "value",
    )
    SSL = 243, "%s"
    SPLIT_BRAIN = 244, "Split-Brain discovered: %s", "details"
    OLD_TERM = 245, "The term is outdated: old - %llu, new - %llu", "old_term", "new_term"
    INTERFERING_ELECTIONS = 246, "Interfering elections started"
    ITERATOR_POSITION = 247, "Iterator position is invalid"
    DEFAULT_VALUE_TYPE = (
        248,
        "Type of the default value does not match tuple field %s type: expected %s, got %s",
        "field",
        "expected",
        "actual",
    )
    UNKNOWN_AUTH_METHOD = 249, "Unknown authentication method '%s'", "value"
    INVALID_AUTH_DATA = 250, "Invalid '%s' data: %s", "auth_method", "details"
    INVALID_AUTH_REQUEST = 251, "Invalid '%s' request: %s", "auth_method", "details"
    WEAK_PASSWORD = 252, "Password doesn't meet security requirements: %s", "details"
    OLD_PASSWORD = 253, "Password must differ from last %d passwords", "history_length"
    NO_SUCH_SESSION = 254, "Session %llu does not exist", "session_id"
    WRONG_SESSION_TYPE = 255, "Session '%s' is not supported", "session_type"
    PASSWORD_EXPIRED = 256, "Password expired"
    AUTH_DELAY = 257, "Too many authentication attempts"
    AUTH_REQUIRED = 258, "Authentication required"
    SQL_SEQ_SCAN = 259, "Scanning is not allowed for %s", "space"
    NO_SUCH_EVENT = 260, "Unknown event %s", "value"
    BOOTSTRAP_NOT_UNANIMOUS = 261, "Replica %s chose a different bootstrap leader %s", "replica", "leader"
    CANT_CHECK_BOOTSTRAP_LEADER = 262, "Can't check who replica %s chose its bootstrap leader", "replica"
    BOOTSTRAP_CONNECTION_NOT_TO_ALL = 263, "Some replica set members were not specified in box.cfg.replication"
    NIL_UUID = 264, "Nil UUID is reserved and can't be used in replication"
    WRONG_FUNCTION_OPTIONS = 265, "Wrong function options: %s"
    MISSING_SYSTEM_SPACES = 266, "Snapshot has no system spaces"
    CLUSTER_NAME_MISMATCH = (
        267,
        "Cluster name mismatch: name '%s' provided in config confilcts with the instance one '%s'",
        "actual",
        "expected",
    )
    REPLICASET_NAME_MISMATCH = (
        268,
        "Replicaset name mismatch: name '%s' provided in config confilcts with the instance one '%s'",
        "actual",
        "expected",
    )
    INSTANCE_NAME_DUPLICATE = 269, "Duplicate replica name %s, already occupied by %s", "value", "replica"
    INSTANCE_NAME_MISMATCH = (
        270,
        "Instance name mismatch: name '%s' provided in config confilcts with the instance one '%s'",
        "actual",
        "expected",
    )
    SCHEMA_NEEDS_UPGRADE = (
        271,
        (
            "Your schema version is %s while Tarantool feature %s requires schema version %s or higher. Please, "
            "consider using box.schema.upgrade()."
        ),
        "schema_version",
        "feature_name",
        "tarantool_version",
    )
    SCHEMA_UPGRADE_IN_PROGRESS = 272, "Schema upgrade is already in progress"
    DEPRECATED = 273, "%s is deprecated", "feature"
    UNCONFIGURED = 274, "Please call box.cfg{} first"
    CREATE_DEFAULT_FUNC = 275, "Failed to create field default function '%s': %s", "func", "details"
    DEFAULT_FUNC_FAILED = 276, "Error calling field default function '%s': %s", "func", "details"
    INVALID_DEC = 277, "Invalid decimal: '%s'", "value"
    IN_ANOTHER_PROMOTE = 278, "box.ctl.promote() is already running"
    SHUTDOWN = 279, "Server is shutting down"
    FIELD_VALUE_OUT_OF_RANGE = (
        280,
        "The value of field %s exceeds the supported range for type '%s': %s",
        "field",
        "field_type",
        "",
        "value",
        "min",
        "max",
    )
    REPLICASET_NOT_FOUND = 281, "The replicaset was not found by its name"
    REPLICASET_NO_WRITABLE = 282, "Writable instance was not found in replicaset"
    REPLICASET_MORE_THAN_ONE_WRITABLE = 283, "More than one writable was found in replicaset"
    TXN_COMMIT = 284, "Transaction was committed"
    READ_VIEW_BUSY = 285, "The read view is busy"
    READ_VIEW_CLOSED = 286, "The read view is closed"
    WAL_QUEUE_FULL = 287, "The WAL queue is full"
    INVALID_VCLOCK = 288, "Invalid vclock", "value"
    SYNC_QUEUE_FULL = 289, "The synchronous transaction queue is full"
    KEY_PART_VALUE_OUT_OF_RANGE = (
        290,
        "The value of key part exceeds the supported range for type",
        "partno",
        "field_type",
        "value",
        "min",
        "max",
    )
    REPLICA_GC = 291, "Cannot clean up replica's resources", "uuid", "details"
    ALIEN_ENGINE = 292, "Snapshot contains alien space engine row", "engine"
    MVCC_UNAVAILABLE = (
        293,
        (
            "MVCC is unavailable for storage engine '%s' so it cannot be used in the same transaction with '%s', "
            "which supports MVCC"
        ),
        "engine_without_mvcc",
        "engine_with_mvcc",
    )
    CANT_UPGRADE_INDEXED_FIELD = (
        294,
        "Space upgrade doesn't support changing indexed fields",
        "space",
        "space_id",
        "index",
        "old_tuple",
        "new_tuple",
    )
    SYNC_TIMEOUT = (
        295,
        (
            "Quorum collection for a synchronous transaction is timed out. The transaction is detached from this "
            "fiber and continues waiting for quorum"
        ),
    )
    FIELD_IRREPRESENTABLE_VALUE = 296, "The value does not fit in field type", "field", "value"
    KEY_PART_IRREPRESENTABLE_VALUE = 297, "The value of key part does not fit in type", "partno", "value"
    INVALID_SORTDATA_FILE = 298, "Invalid MemTX sort data file", "path", "details"
    NO_SUCH_THREAD = 299, "Thread does not exist", "thread_id"
    UNABLE_TO_PROCESS_IN_THREAD = 300, "Unable to process request in thread", "request", "thread_id"
    DICT_OVERFLOW = 301, "Dictionary has no space - too many unique values are used", "max_size"
    NO_SUCH_THREAD_GROUP = 302, "Thread group does not exist", "thread_group"
    XLOG_NOT_FOUND = 303, "xlog file not found", "vclock"
    RECOVERY_POINT_TXN_LAST_ROW = 304, "Last row of recovery point transaction should not be local"
    NO_SUCH_READ_VIEW = 305, "Read view was not found by id"
