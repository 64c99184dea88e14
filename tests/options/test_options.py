"""The table of options, and how values are checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.errors import BoxError, Er
from headwater.options import SETTINGS, Options, Support

SOURCE = Path(__file__).parents[3] / ".mirror/tarantool+tarantool/repo"


def refusal(**values: object) -> str:
    with pytest.raises(BoxError) as caught:
        Options.load(values)
    assert caught.value.code == Er.CFG
    return caught.value.message


def test_defaults_are_those_of_3x() -> None:
    options = Options.load({})
    assert options.changed() == {}
    assert options.listen is None
    assert options.memtx_memory == 256 * 1024 * 1024
    assert options.wal_max_size == 256 * 1024 * 1024
    assert options.checkpoint_wal_threshold == 10**18
    assert (options.net_msg_max, options.readahead) == (768, 16320)
    assert options.replication_sync_timeout == 0


def test_every_default_passes_its_own_check() -> None:
    for row in SETTINGS.values():
        assert row.check is None or row.check(row.default) is None, row.name


def test_every_row_says_what_it_means_and_why_it_is_without_effect() -> None:
    for row in SETTINGS.values():
        assert row.meaning.endswith((".", "?")), row.name
        assert bool(row.why) == (row.support in (Support.IGNORED, Support.REFUSED)), row.name


def test_yaml_paths_are_used_once() -> None:
    paths = [row.yaml for row in SETTINGS.values() if row.yaml]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("empty", [None, ""])
def test_nil_and_the_empty_text_stand_for_the_default(empty: object) -> None:
    assert Options.load({"wal_mode": empty, "listen": empty}).changed() == {}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"wal_mod": "write"}, "Incorrect value for option 'wal_mod': unexpected option"),
        ({"wal_mode": "fast"}, "Incorrect value for option 'wal_mode': fast"),
        ({"wal_mode": 1}, "Incorrect value for option 'wal_mode': should be of type string"),
        ({"read_only": 1}, "Incorrect value for option 'read_only': should be one of types boolean, string"),
        (
            {"read_only": "sometimes"},
            "Incorrect value for option 'read_only': the value must be a boolean or the string 'unless_bootstrap'",
        ),
        ({"checkpoint_count": True}, "Incorrect value for option 'checkpoint_count': should be of type number"),
        (
            {"checkpoint_count": 0},
            "Incorrect value for option 'checkpoint_count': the value must not be less than one",
        ),
        (
            {"checkpoint_interval": float("inf")},
            "Incorrect value for option 'checkpoint_interval': should be a finite number",
        ),
        ({"memtx_memory": "64"}, "Incorrect value for option 'memtx_memory': should be of type number"),
        (
            {"memtx_memory": "64 XB"},
            "Incorrect value for option 'memtx_memory': Unknown byte size suffix \"XB\" "
            "(use B, KiB, MiB, GiB, TiB, PiB)",
        ),
        ({"wal_max_size": 1}, "Incorrect value for option 'wal_max_size': the value must be greater than one"),
        ({"readahead": 127}, "Incorrect value for option 'readahead': specified value is out of bounds"),
        ({"net_msg_max": 1}, "Incorrect value for option 'net_msg_max': minimal value is 2"),
        (
            {"listen": "localhost"},
            "Incorrect value for option 'listen': bad URI 'localhost': expected host:service or /unix.socket",
        ),
        (
            {"instance_uuid": "00000000-0000-0000-0000-000000000000"},
            "Incorrect value for option 'instance_uuid': nil UUID is reserved",
        ),
        ({"instance_uuid": "zz"}, "Incorrect value for option 'instance_uuid': zz"),
        ({"instance_name": "1st"}, "Incorrect value for option 'instance_name': expected a valid name"),
        (
            {"txn_isolation": "linearizable"},
            "Incorrect value for option 'txn_isolation': cannot set default transaction isolation to 'linearizable'",
        ),
        (
            {"txn_isolation": 9},
            "Incorrect value for option 'txn_isolation': must be one of box.txn_isolation_level (keys or values)",
        ),
        (
            {"election_mode": "king"},
            "Incorrect value for option 'election_mode': the value must be one of the following strings: "
            "'off', 'voter', 'candidate', 'manual'",
        ),
        (
            {"replication_synchro_quorum": "N - 1"},
            "Incorrect value for option 'replication_synchro_quorum': the formula is evaluated to the quorum 0 "
            "for replica number 1, which is out of range [1;31]",
        ),
        ({"slab_alloc_granularity": 12}, None),
        ({"log_format": "xml"}, "Incorrect value for option 'log_format': expected 'plain' or 'json'"),
    ],
)
def test_wrong_values_are_refused_in_the_words_of_3x(values: dict[str, object], words: str | None) -> None:
    message = refusal(**values)
    assert words is None or message == words


def test_what_is_not_there_is_refused_with_a_reason() -> None:
    assert "second process" in refusal(hot_standby=True)
    assert "supervisor" in refusal(background=True)


def test_an_anonymous_replica_is_read_only() -> None:
    words = "the value may be set to true only when the instance is read-only"
    assert refusal(replication_anon=True) == f"Incorrect value for option 'replication_anon': {words}"
    assert Options.load({"replication_anon": True, "read_only": True}).replication_anon


def test_upstreams_are_the_addresses_of_replication() -> None:
    options = Options.load({"replication": "a:secret@127.0.0.1:3301,127.0.0.1:3302"})
    assert [uri.address for uri in options.upstreams] == ["127.0.0.1:3301", "127.0.0.1:3302"]
    assert [uri.login for uri in options.upstreams] == ["a", ""]


def test_what_has_no_effect_is_accepted_and_told() -> None:
    options = Options.load({"vinyl_memory": "1GiB", "iproto_threads": 4})
    assert [row.name for row in options.ignored()] == ["iproto_threads", "vinyl_memory"]


def test_sizes_and_durations_take_a_suffix() -> None:
    options = Options.load({"memtx_memory": "1.5GiB", "checkpoint_interval": "2h", "readahead": "32kib"})
    assert options.memtx_memory == 3 * 2**29
    assert options.checkpoint_interval == 7200
    assert options.readahead == 32768


def test_names_are_kept_in_lower_case() -> None:
    assert Options.load({"instance_name": "Node-A"}).instance_name == "node-a"


def test_names_of_long_ago_are_understood() -> None:
    assert Options.load({"snapshot_period": 60}).checkpoint_interval == 60
    assert "can not override" in refusal(snap_dir="a", memtx_dir="b")


@pytest.mark.parametrize(
    ("listen", "addresses"),
    [
        (3301, [":3301"]),
        ("127.0.0.1:3301, [::1]:3302", ["127.0.0.1:3301", "[::1]:3302"]),
        (["unix/:/tmp/a.sock", 3302], ["unix/:/tmp/a.sock", ":3302"]),
        ("/tmp/a.sock", ["unix/:/tmp/a.sock"]),
        ([{"uri": "localhost:3301", "params": {"transport": "plain"}}], ["localhost:3301"]),
    ],
)
def test_listen_takes_the_forms_of_tarantool(listen: object, addresses: list[str]) -> None:
    assert [uri.address for uri in Options.load({"listen": listen}).addresses] == addresses


def test_tls_is_refused_by_name() -> None:
    assert "no transport but 'plain'" in refusal(listen="localhost:3301?transport=ssl")


def test_dev_is_refused_on_any_address_but_loopback() -> None:
    assert "only loopback" in refusal(dev=True, listen="0.0.0.0:3301")
    assert "only loopback" in refusal(dev=True, listen=3301)
    Options.load({"dev": True, "listen": ["127.0.0.1:3301", "[::1]:3301", "localhost:1", "unix/:/tmp/x.sock"]})


def test_a_plan_assigns_nothing() -> None:
    options = Options.load({})
    assert options.plan({"checkpoint_count": 5, "listen": 3301}) == {"listen": 3301, "checkpoint_count": 5}
    assert options.checkpoint_count == 2


def test_an_option_that_is_not_dynamic_may_only_be_set_to_what_it_is() -> None:
    options = Options.load({"wal_mode": "fsync"})
    assert options.plan({"wal_mode": "fsync", "too_long_threshold": 1}) == {"too_long_threshold": 1}
    with pytest.raises(BoxError, match="Can't set option 'wal_mode' dynamically"):
        options.plan({"wal_mode": "write"})


def test_memory_may_grow_and_not_shrink() -> None:
    options = Options.load({"memtx_memory": "512MiB"})
    assert options.plan({"memtx_memory": "1GiB"}) == {"memtx_memory": 2**30}
    with pytest.raises(BoxError, match="cannot decrease memory size at runtime"):
        options.plan({"memtx_memory": "256MiB"})


def test_the_table_has_every_option_of_load_cfg_lua() -> None:
    """Names, types and which are dynamic, compared with a checkout of Tarantool's source if one is near."""
    import subprocess

    if not SOURCE.is_dir():
        pytest.skip("no checkout of Tarantool's source beside the repository")
    show = ["git", "-C", str(SOURCE), "show", "HEAD:src/box/lua/load_cfg.lua"]
    text = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    template = text[text.index("local template_cfg") :]
    template = template[: template.index("\n}")]
    types = dict(re.findall(r"^ +(\w+) *= *['\"]([^'\"]+)['\"]", template, re.M))
    types |= dict(re.findall(r"^ +(feedback_\w+) *= *ifdef_feedback\('([^']+)'\)", template, re.M))
    ours = {row.name: ", ".join(row.types) for row in SETTINGS.values() if row.support is not Support.OURS}
    assert ours == types
    dynamic = text[text.index("local dynamic_cfg = {") : text.index("-- The modules that can apply")]
    dynamic += text[text.index("local dynamic_cfg_modules") : text.index("-- For some options it is important")]
    for row in SETTINGS.values():
        if row.support is not Support.OURS and row.name != "log_nonblock":
            assert row.dynamic == bool(re.search(rf"^ +{row.name} *=", dynamic, re.M)), row.name
