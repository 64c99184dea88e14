"""What a new data directory holds, as tables (lua/upgrade.lua; src/box/bootstrap.snap of 2.6.0, 2.11.8 and 3.8.0).

Formats are written `name:kind`, kinds by their first letter (`KINDS`); a trailing `?` lets nil in. Indexes are
`id name field:kind,…`, with `*` after the name where keys may repeat and `#` where the index is a hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.store import system
from headwater.typing import SpaceId

Version = tuple[int, int, int]

V2_3_1: Version = (2, 3, 1)
V2_11_5: Version = (2, 11, 5)
V3_8_0: Version = (3, 8, 0)
VERSIONS = (V2_3_1, V2_11_5, V3_8_0)
"""Schema versions that Headwater can start a replica set with: for 2.6 peers, for sets without names, the newest."""

KINDS = {
    "u": "unsigned",
    "s": "string",
    "m": "map",
    "a": "array",
    "b": "boolean",
    "i": "integer",
    "c": "scalar",
    "x": "any",
    "r": "str",
}


@dataclass(frozen=True, slots=True)
class SystemSpace:
    """A system space, and since when it is there."""

    id: SpaceId
    name: str
    fields: str
    indexes: str = "0 primary 0:u"
    engine: str = "memtx"
    since: Version = V2_3_1
    view: SpaceId | None = None
    """Id of the view that looks the same."""
    view_since: Version = V2_3_1
    options: tuple[tuple[str, object], ...] = ()
    field_count: int = 0
    maps: bool = False
    """Are the parts of its indexes written as maps?"""


_OWNED = "0 primary 0:u|1 owner* 1:u|2 name 2:s"
_FUNC_FIELDS = (
    "id:u owner:u name:s setuid:u language:s body:s routine_type:s param_list:a returns:s aggregate:s "
    "sql_data_access:s is_deterministic:b is_sandboxed:b is_null_call:b exports:a opts:m comment:s "
    "created:s last_altered:s"
)
_S = system
SPACES = (
    SystemSpace(
        _S.VINYL_DEFERRED_DELETE,
        "_vinyl_deferred_delete",
        "space_id:u lsn:u tuple:a",
        "",
        engine="blackhole",
        options=(("group_id", 1),),
    ),
    SystemSpace(_S.SCHEMA, "_schema", "~key:s ~value:x?", "0 primary 0:s"),
    SystemSpace(
        _S.COLLATION,
        "_collation",
        "id:u name:s owner:u type:s locale:s opts:m",
        "0 primary 0:u|1 name 1:s",
        view=_S.VCOLLATION,
    ),
    SystemSpace(
        _S.SPACE, "_space", "id:u owner:u name:s engine:s field_count:u flags:m format:a", _OWNED, view=_S.VSPACE
    ),
    SystemSpace(
        _S.SEQUENCE,
        "_sequence",
        "id:u owner:u name:s step:i min:i max:i start:i cache:i cycle:b",
        _OWNED,
        view=_S.VSEQUENCE,
    ),
    SystemSpace(_S.SEQUENCE_DATA, "_sequence_data", "id:u value:i", "0 primary# 0:u"),
    SystemSpace(
        _S.INDEX,
        "_index",
        "id:u iid:u name:s type:s opts:m parts:a",
        "0 primary 0:u,1:u|2 name 0:u,2:s",
        view=_S.VINDEX,
    ),
    SystemSpace(_S.FUNC, "_func", _FUNC_FIELDS, _OWNED, view=_S.VFUNC),
    SystemSpace(_S.USER, "_user", "id:u owner:u name:s type:s auth:m", _OWNED, view=_S.VUSER),
    SystemSpace(
        _S.PRIV,
        "_priv",
        "grantor:u grantee:u object_type:s object_id:c privilege:u",
        "0 primary 1:u,2:s,3:c|1 owner* 0:u|2 object* 2:s,3:c",
        view=_S.VPRIV,
    ),
    SystemSpace(_S.CLUSTER, "_cluster", "id:u uuid:s", "0 primary 0:u|1 uuid 1:s"),
    SystemSpace(_S.TRIGGER, "_trigger", "name:s space_id:u opts:m", "0 primary 0:s|1 space_id* 1:u"),
    SystemSpace(_S.TRUNCATE, "_truncate", "id:u count:u"),
    SystemSpace(
        _S.SPACE_SEQUENCE,
        "_space_sequence",
        "id:u sequence_id:u is_generated:b field:u path:s",
        "0 primary 0:u|1 sequence* 1:u",
        view=_S.VSPACE_SEQUENCE,
        view_since=V2_11_5,
    ),
    SystemSpace(
        _S.FK_CONSTRAINT,
        "_fk_constraint",
        "name:s child_id:u parent_id:u is_deferred:b match:s on_delete:s on_update:s child_cols:a parent_cols:a",
        "0 primary 0:s,1:u|1 child_id* 1:u",
    ),
    SystemSpace(
        _S.CK_CONSTRAINT,
        "_ck_constraint",
        "space_id:u name:s is_deferred:b language:r code:r is_enabled:b",
        "0 primary 0:u,1:s",
    ),
    SystemSpace(_S.FUNC_INDEX, "_func_index", "space_id:u index_id:u func_id:u", "0 primary 0:u,1:u|1 fid* 2:u"),
    SystemSpace(
        _S.SESSION_SETTINGS,
        "_session_settings",
        "name:s value:x",
        "0 primary 0:s",
        engine="service",
        options=(("temporary", True),),
        field_count=2,
    ),
    SystemSpace(
        _S.GC_CONSUMERS,
        "_gc_consumers",
        "uuid:s vclock:m opts:m",
        "0 primary 0:s",
        since=V3_8_0,
        options=(("group_id", 1),),
    ),
    SystemSpace(
        _S.RECOVERY_POINT,
        "_recovery_point",
        "timestamp:u replica_id:u lsn:u opts:m",
        "0 primary 0:u,1:u,2:u",
        since=V3_8_0,
        maps=True,
    ),
)

LATER_FIELDS: dict[SpaceId, tuple[tuple[Version, str], ...]] = {
    system.FUNC: ((V3_8_0, "trigger:a"),),
    system.USER: ((V2_11_5, "auth_history:a last_modified:u"),),
    system.CLUSTER: ((V3_8_0, "~name:s?"),),
}
"""Fields that a space got after 2.3.1. `~` before a name: the type is written before the name there."""

VFUNC_FIELDS = {V2_3_1: 4}
"""How many fields of `_func` the view showed before it was made like its space (2.10.4)."""

USERS = ((0, "guest", "user"), (1, "admin", "user"), (2, "public", "role"), (3, "replication", "role"))
SUPER = (31, "super", "role")
EMPTY_PASSWORD = "vhvewKp0tNyweZQ+cFKAlsyphfg="  # noqa: S105
"""Guest has it, and nobody can log in with it but guest."""

FUNCTION_TIMES = {
    V2_3_1: "2019-12-29 17:52:51",
    V2_11_5: "2024-09-29 20:34:44",
    V3_8_0: "2026-07-06 11:08:40",
}
"""When the files of the releases were made; `created` and `last_altered` of their functions."""

SQL_BUILTINS = (
    "TRIM TYPEOF PRINTF UNICODE CHAR HEX VERSION QUOTE REPLACE SUBSTR GROUP_CONCAT JULIANDAY DATE TIME DATETIME "
    "STRFTIME CURRENT_TIME CURRENT_TIMESTAMP CURRENT_DATE LENGTH POSITION ROUND UPPER LOWER IFNULL RANDOM CEIL CEILING "
    "CHARACTER_LENGTH CHAR_LENGTH FLOOR MOD OCTET_LENGTH ROW_COUNT COUNT LIKE ABS EXP LN POWER SQRT SUM TOTAL AVG "
    "RANDOMBLOB NULLIF ZEROBLOB MIN MAX COALESCE EVERY EXISTS EXTRACT SOME GREATER LESSER SOUNDEX LIKELIHOOD LIKELY "
    "UNLIKELY _sql_stat_get _sql_stat_push _sql_stat_init"
)
"""Functions 2 to 64 of schema 2.3.1; GREATEST and LEAST follow as 66 and 67. 2.9.1 dropped them."""
LUA_BODY = "function(code) return assert(loadstring(code))() end"

LOCALES = (
    "af am ar as az be bn bs bs_Cyrl ca cs cy da de__phonebook=de_DE_u_co_phonebk de_AT_phonebook=de_AT_u_co_phonebk "
    "dsb ee eo es es__traditional=es_u_co_trad et fa fi fi__phonebook=fi_u_co_phonebk fil fo fr_CA gu ha haw he hi hr "
    "hu hy ig is ja kk kl kn ko kok ky lkt ln lt lv mk ml mr mt nb nn nso om or pa pl ro sa se si "
    "si__dictionary=si_u_co_dict sk sl sq sr sr_Latn sv sv__reformed=sv_u_co_reformed ta te th tn to tr ug_Cyrl=ug uk "
    "ur vi vo wae wo yo zh zh__big5han=zh_u_co_big5han zh__gb2312han=zh_u_co_gb2312 zh__pinyin=zh_u_co_pinyin "
    "zh__stroke=zh_u_co_stroke zh__zhuyin=zh_u_co_zhuyin"
)
"""Locales of the collations from id 4 on, three strengths each; `name=locale` where the two differ."""
STRENGTHS = ("primary", "secondary", "tertiary")
