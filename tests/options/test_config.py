"""Flags, environment and YAML."""

from __future__ import annotations

import pytest

from headwater.config import ConfigError, configure, environment_values, from_text, read_yaml
from headwater.errors import BoxError
from headwater.options import SETTINGS

INSTANCE = """
process:
  work_dir: /var/lib/{{ instance_name }}
iproto:
  listen:
    - uri: '127.0.0.1:3301'
    - uri: 'unix/:/run/{{ instance_name }}.sock'
  threads: 4
  advertise:
    peer:
      login: replicator
log:
  to: file
  file: var/log/{{ instance_name }}.log
  level: verbose
  modules:
    journal: debug
wal:
  mode: fsync
  max_size: 64MiB
snapshot:
  by:
    interval: 10m
    wal_size: 1000000
  count: 3
memtx:
  memory: 1GiB
database:
  mode: ro
  instance_uuid: 5ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d
replication:
  failover: off
fiber:
  slice: {warn: 1}
  too_long_threshold: 2s
console: {enabled: false}
credentials:
  users:
    alice:
      password: secret
      roles: [super]
      privileges:
        - permissions: [read, write]
          spaces: [t]
headwater:
  procedures: [shop.procedures]
  idle_timeout: 60
"""


def test_the_instance_level_of_tarantool_3() -> None:
    config = configure({"instance_name": "a"}, {}, INSTANCE, "a.yaml")
    options = config.options
    assert options.work_dir == "/var/lib/a"
    assert [uri.address for uri in options.addresses] == ["127.0.0.1:3301", "unix/:/run/a.sock"]
    assert (options.wal_mode, options.wal_max_size) == ("fsync", 64 * 2**20)
    assert (options.checkpoint_interval, options.checkpoint_wal_threshold, options.checkpoint_count) == (600, 10**6, 3)
    assert options.memtx_memory == 2**30
    assert options.too_long_threshold == 2
    assert options.read_only is True
    assert options.instance_uuid == "5ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d"
    assert (options.log, options.log_level_number) == ("file:var/log/a.log", 6)
    assert options.log_modules == {"journal": "debug"}
    assert options.procedure_modules == ["shop.procedures"]
    assert options.idle_timeout == 60
    assert config.credentials["users"]["alice"]["roles"] == ["super"]


def test_what_has_no_effect_is_noted() -> None:
    notes = "\n".join(configure({}, {}, INSTANCE, "a.yaml").notes)
    for path in ("iproto.advertise", "fiber.slice", "console"):
        assert path in notes


def test_precedence_is_flag_then_environment_then_yaml_then_default() -> None:
    yaml = "wal: {mode: fsync}\nsnapshot: {count: 3, by: {interval: 5}}\n"
    env = {"HEADWATER_WAL_MODE": "none", "HEADWATER_CHECKPOINT_COUNT": "4", "PATH": "/bin"}
    options = configure({"wal_mode": "write"}, env, yaml).options
    assert (options.wal_mode, options.checkpoint_count, options.checkpoint_interval) == ("write", 4, 5)
    assert options.readahead == 16320


@pytest.mark.parametrize("row", SETTINGS.values(), ids=lambda row: row.name)
def test_every_option_is_a_variable_and_a_key(row) -> None:  # type: ignore[no-untyped-def]
    text, value = "7", 7
    if row.is_boolean:
        text, value = "true", True
    elif row.types == ("table",):
        text, value = "a=7", {"a": 7}
    elif "number" not in row.types and row.name != "procedures":
        text, value = "seven", "seven"
    assert environment_values({f"HEADWATER_{row.name.upper()}": text}) == {row.name: value}
    assert read_yaml(
        f"headwater: {{{row.name}: {text.replace('=', ': ') if '=' not in text else '{a: 7}'}}}", "y"
    ).values == {row.name: value}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("listen", "3301", 3301),
        ("listen", "127.0.0.1:3301,3302", ["127.0.0.1:3301", 3302]),
        ("listen", '["a:1", 2]', ["a:1", 2]),
        ("force_recovery", "FALSE", False),
        ("read_only", "unless_bootstrap", "unless_bootstrap"),
        ("read_only", "true", True),
        ("too_long_threshold", "0.25", 0.25),
        ("memtx_memory", "1GiB", "1GiB"),
        ("replication_synchro_quorum", "2", 2),
        ("replication_synchro_quorum", "N", "N"),
        ("log_modules", "journal=7,server=info", {"journal": 7, "server": "info"}),
        ("wal_mode", "fsync", "fsync"),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: object) -> None:
    assert from_text(SETTINGS[name], text) == value


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("HEADWATER_WAL_MOD", "write", "there is no option 'wal_mod'"),
        ("HEADWATER_DEV", "maybe", 'should be "true" or "false"'),
        ("HEADWATER_CHECKPOINT_COUNT", "two", "should be convertible to a number"),
        ("HEADWATER_LOG_MODULES", "journal", "in `key=value`"),
        ("HEADWATER_LISTEN", "[1", "should be JSON"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=variable) as caught:
        environment_values({variable: text})
    assert words in str(caught.value)


def test_an_empty_variable_counts_as_unset() -> None:
    assert environment_values({"HEADWATER_WAL_MODE": "", "HEADWATER_PURE": "1"}) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wal: {mod: write}", "unknown key 'wal.mod'"),
        ("- a", "a map of sections is expected"),
        ("wal: [", "not YAML"),
        ("groups: {g: {}}", "give the node the instance's level"),
        ("app: {file: init.lua}", "there is no Lua"),
        ("sharding: {roles: [storage]}", "there is no vshard"),
        ("replication: {failover: election}", "elections and coordinators are not built"),
        ("database: {mode: both}", "neither ro nor rw"),
        ("log: {to: syslog}", "only 'stderr' and 'file'"),
        ("log: yes", "log must be a map"),
        ("credentials: {users: {a: {pasword: x}}}", "unknown key 'credentials.users.a.pasword'"),
        ("credentials: {roles: {a: {password: x}}}", "unknown key 'credentials.roles.a.password'"),
        ("credentials: {users: {a: {privileges: [{spaces: [t]}]}}}", "permissions are missing"),
        ("headwater: {speed: 3}", "unknown key 'headwater.speed'"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^node\.yaml: ") as caught:
        read_yaml(text, "node.yaml")
    assert words in str(caught.value)


def test_a_wrong_value_in_a_file_has_the_words_of_box_cfg() -> None:
    with pytest.raises(BoxError, match="Incorrect value for option 'wal_mode': quick"):
        configure({}, {}, "wal: {mode: quick}")


def test_an_empty_file_is_fine() -> None:
    assert configure({}, {}, "").options.changed() == {}
