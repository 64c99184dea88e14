"""Fields of Tarantool as columns of Spark: which type each has, what fits it, and what becomes of what does not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark
from tests.pipeline import reading
from tests.pipeline.made import fields, replace

from headwater.kernels.columns import Utf8
from headwater.pipeline import types
from headwater.pipeline.decode import Decoder, EnvelopeView, TypedView
from headwater.pipeline.dictionary import Dictionary, FieldFacts
from headwater.pipeline.errors import OptionError, PipelineError, ValueUnfit
from headwater.pipeline.settings import Options, Secret, parse_moment
from headwater.store.system import INDEX, SPACE
from headwater.vclock import VClock
from headwater.wire.msgpack import Datetime, Ext, Float32, Interval, pack
from headwater.wire.xrow import encode_row

ID = 512


def settings(**given_: str) -> types.TypeSettings:
    return types.TypeSettings.read(Options(given_))


def dictionary(*format_: str) -> Dictionary:
    return Dictionary.from_tuples(
        [
            (SPACE, pack([ID, 1, "t", "memtx", 0, {}, fields(*format_)])),
            (INDEX, pack([ID, 0, "pk", "tree", {"unique": True}, [[0, "any"]]])),
        ]
    )


def table(format_: list[str], rows: list[list[Any]], *, strict: bool = True, **given_: str) -> pa.Table:
    """Typed rows of a space."""
    spaces = dictionary(*format_)
    chosen = settings(metadataColumns="", **given_)
    facts = spaces.space("t")
    schema = types.typed_schema(facts, chosen)
    decoder = Decoder(TypedView("t", schema, chosen, frozenset(facts.names), strict=strict), spaces)
    packed = b"".join(encode_row(replace(n, values)) for n, values in enumerate(rows, 1))
    batches = [*decoder.feed(packed), *decoder.flush()]
    return pa.Table.from_batches(batches)


def column(type_: str, values: list[Any], **given_: str) -> list[Any]:
    """What becomes of values in a field of this type; the schema is the one that Spark is told, to the letter."""
    made = table([f"f {type_}"], [[value] for value in values], **given_)
    return [row["f"] for row in reading.values(made)]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("unsigned", "bigint"),
        ("integer", "bigint"),
        ("int8", "tinyint"),
        ("uint8", "smallint"),
        ("int16", "smallint"),
        ("uint16", "int"),
        ("int32", "int"),
        ("uint32", "bigint"),
        ("int64", "bigint"),
        ("uint64", "bigint"),
        ("number", "double"),
        ("double", "double"),
        ("float32", "float"),
        ("float64", "double"),
        ("string", "string"),
        ("varbinary", "binary"),
        ("boolean", "boolean"),
        ("decimal", "decimal(38,10)"),
        ("uuid", "string"),
        ("datetime", "timestamp"),
        ("interval", types.INTERVAL.simpleString()),
        ("any", "variant"),
        ("scalar", "variant"),
        ("array", "variant"),
        ("map", "variant"),
        ("a type of tomorrow", "variant"),
    ],
)
def test_every_type_has_a_column(name: str, shown: str) -> None:
    facts = FieldFacts("f", name)
    found = types.spark_type(facts, settings())
    assert found.simpleString() == shown
    assert types.kinds_of(facts, found) is not None


@pytest.mark.parametrize(
    ("name", "option", "shown"),
    [
        ("unsigned", {"unsignedAs": "decimal"}, "decimal(20,0)"),
        ("number", {"numberAs": "decimal", "decimalAs": "decimal(20,4)"}, "decimal(20,4)"),
        ("number", {"numberAs": "variant"}, "variant"),
        ("decimal", {"decimalAs": "string"}, "string"),
        ("uuid", {"uuidAs": "binary"}, "binary"),
        ("datetime", {"datetimeAs": "struct"}, types.DATETIME.simpleString()),
        ("datetime", {"datetimeAs": "string"}, "string"),
        ("interval", {"intervalAs": "string"}, "string"),
    ],
)
def test_options_choose_another(name: str, option: dict[str, str], shown: str) -> None:
    facts = FieldFacts("f", name)
    found = types.spark_type(facts, settings(**option))
    assert found.simpleString() == shown
    assert types.kinds_of(facts, found) is not None


def test_decimals_of_a_fixed_number_of_digits_keep_it() -> None:
    shown = [types.spark_type(FieldFacts("f", f"decimal{bits}", scale=3), settings()) for bits in (32, 64, 128, 256)]
    assert [each.simpleString() for each in shown] == ["decimal(9,3)", "decimal(18,3)", "decimal(38,3)", "string"]


@given(
    st.sampled_from(sorted(types._INTEGERS | types._FLOATS | types._LOOSE | {"string", "uuid", "boolean", "varbinary"}))
)
def test_the_way_to_tarantool_leads_back(name: str) -> None:
    """A column that is written to a space and read again has the same type, or one that holds it."""
    shown = types.spark_type(FieldFacts("f", name), settings())
    again = types.kinds_of(FieldFacts("f", types.field_type(shown)), shown)
    assert again is not None


def test_a_column_without_a_type_in_tarantool_is_refused() -> None:
    with pytest.raises(OptionError, match="cast it before writing"):
        types.field_type(spark.DateType())
    assert types.field_type(types.INTERVAL) == "interval"


# ---- values


def test_integers_up_to_their_ends() -> None:
    assert column("unsigned", [0, 127, 128, 2**63 - 1]) == [0, 127, 128, 2**63 - 1]
    assert column("integer", [-(2**63), -1, -33, 2**63 - 1]) == [-(2**63), -1, -33, 2**63 - 1]
    assert column("uint8", [0, 255]) == [0, 255]
    assert column("unsigned", [2**64 - 1], unsignedAs="decimal") == [Decimal(2**64 - 1)]


@pytest.mark.parametrize(
    ("type_", "value", "words"),
    [
        ("unsigned", 2**63, "unsignedAs=decimal"),
        ("integer", 2**64 - 1, "unsignedAs=decimal"),
        ("int8", 128, "VARIANT"),
        ("decimal", Decimal("0.12345678901"), "decimalAs=string"),
        ("decimal", Decimal(10) ** 28, "decimalAs=string"),
        ("string", b"\xff\xfe".decode("utf-8", "surrogateescape"), "invalidUtf8=replace"),
        ("datetime", Datetime(10**13), "VARIANT"),
        ("boolean", 1, "VARIANT"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name_or_rescued(type_: str, value: Any, words: str) -> None:
    with pytest.raises(ValueUnfit, match=rf"LSN 1: a value has no place in the column 'f' .*{words}"):
        column(type_, [value])
    (row,) = reading.values(table([f"f {type_}"], [[value]], strict=False))
    assert row["f"] is None
    assert list(row["_rescued_data"]) == ["f"]


def test_decimals() -> None:
    values = [Decimal("12.34"), Decimal(-5), Decimal("1e3"), Decimal("0"), 7]
    assert column("decimal", values) == [Decimal(value) for value in values]
    long = Decimal("1234567890123456789012345678.9012345678")
    assert column("decimal", [long, -long]) == [long, -long]
    assert column("decimal", [Decimal("1.50"), Decimal("-0.001")], decimalAs="string") == ["1.50", "-0.001"]
    assert column("number", [1, 2.5, Decimal("0.1")]) == [1.0, 2.5, 0.1]


def test_strings_that_are_no_utf8() -> None:
    bad = b"a\xffb".decode("utf-8", "surrogateescape")
    assert column("string", [bad], invalidUtf8="replace") == ["a\ufffdb"]
    assert column("any", [bad, [bad]], invalidUtf8="binary") == [b"a\xffb", [b"a\xffb"]]
    with pytest.raises(PipelineError, match="invalidUtf8=binary"):
        column("any", [bad])


def test_uuids_and_bytes() -> None:
    uuid = UUID("12345678-1234-4678-9234-567812345678")
    assert column("uuid", [uuid]) == [str(uuid)]
    assert column("uuid", [uuid], uuidAs="binary") == [uuid.bytes]
    assert column("varbinary", [b"\x00\xff"]) == [b"\x00\xff"]


def test_moments() -> None:
    moment = Datetime.of(dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC))
    exact = Datetime(moment.seconds, 123_456_789, 180, 0)
    got = column("datetime", [moment, exact])
    assert got == [dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), dt.datetime(2026, 1, 31, 12, 0, 0, 123456, dt.UTC)]
    assert column("datetime", [exact], datetimeAs="string") == ["2026-01-31T15:00:00.123456789+0300"]
    assert column("datetime", [exact, None], datetimeAs="struct") == [
        {"sec": moment.seconds, "nsec": 123_456_789, "tzoffset": 180, "tzindex": 0},
        None,
    ]


def test_intervals() -> None:
    span = Interval(year=1, month=-2, week=3, day=4, hour=5, minute=6, second=7, nsec=8, adjust=2)
    assert column("interval", [span, None], intervalAs="string") == [str(span), None]
    parts = dict(zip(types.INTERVAL_PARTS, (1, -2, 3, 4, 5, 6, 7, 8, 2), strict=True))
    assert column("interval", [span, None]) == [parts, None]


def test_whatever_a_field_of_any_type_holds() -> None:
    values = [1, -1, 2**63, 1.5, "x", b"y", True, [1, [2]], {"a": {"b": None}}, {1: 2}, Decimal("1.5"), UUID(int=1)]
    shown = [1, -1, 2**63, 1.5, "x", b"y", True, [1, [2]], {"a": {"b": None}}, {"1": 2}, "1.5", str(UUID(int=1))]
    assert column("any", values) == shown
    assert column("any", [None]) == [None]
    assert column("any", [Ext(99, b"\x01\x02"), Interval(day=1)]) == ["ext 99 0102", "+1 days"]
    assert column("map", [{}]) == [{}]


def test_floats() -> None:
    assert column("double", [1.5, Float32(0.5), 3]) == [1.5, 0.5, 3.0]
    assert column("float32", [Float32(0.1)]) == [pytest.approx(0.1)]


def test_absent_fields_are_null_and_further_ones_rescued() -> None:
    made = table(["a unsigned", "b string?", "c any?"], [[1], [2, None, None], [3, "x", 1, "more", 5]])
    assert reading.values(made) == [
        {"a": 1, "b": None, "c": None, "_rescued_data": None},
        {"a": 2, "b": None, "c": None, "_rescued_data": None},
        {"a": 3, "b": "x", "c": 1, "_rescued_data": {"4": "more", "5": 5}},
    ]


def test_the_column_of_what_is_rescued_may_be_named_or_left_out() -> None:
    named = table(["a unsigned"], [[1, "more"]], rescuedDataColumn="rest")
    assert reading.values(named) == [{"a": 1, "rest": {"2": "more"}}]
    assert reading.values(table(["a unsigned"], [[1, "more"]], rescuedDataColumn="")) == [{"a": 1}]


# ---- the envelope


def test_the_envelope_has_the_columns_that_are_promised() -> None:
    promised = ["op", "space_id", "space", "key", "before", "after", "replica_id", "lsn", "tsn", "is_commit", "ts"]
    assert types.ENVELOPE.names[: len(promised)] == promised
    assert [types.ENVELOPE[name].dataType for name in ("key", "before", "after")] == [spark.VariantType()] * 3
    assert all(column.nullable for column in types.ENVELOPE)


def test_the_body_as_it_stands_and_the_set_come_when_asked_for() -> None:
    row = replace(1, [1, "x"])
    for request in (False, True):
        view = EnvelopeView(("request", "replicaset"), request=request, replicaset="me" if request else None)
        decoder = Decoder(view, Dictionary.builtin())
        got = [*decoder.feed(encode_row(row)), *decoder.flush()][0].to_pylist()
        assert got == [{"request": row.body if request else None, "replicaset": "me" if request else None}]


def test_a_string_that_is_no_utf8_is_kept_as_bytes_in_the_envelope() -> None:
    decoder = Decoder(EnvelopeView(("after",)), Dictionary.builtin())
    row = replace(1, [b"\xff".decode("utf-8", "surrogateescape")])
    made = pa.Table.from_batches([*decoder.feed(encode_row(row)), *decoder.flush()])
    assert reading.values(made) == [{"after": [b"\xff"]}]


# ---- options


@pytest.mark.parametrize(
    ("text", "size"), [("10", 10), ("1k", 1024), ("64m", 64 << 20), ("1.5G", 3 << 29), ("2 kb", 2048)]
)
def test_sizes(text: str, size: int) -> None:
    assert Options({"x": text}).size("x", 0) == size


@pytest.mark.parametrize("text", ['{"1": 5, "2": 7}', "{1: 5, 2: 7}", '{"2":7,"1":5}', "{1:5,2:7}"])
def test_vclocks(text: str) -> None:
    assert Options({"x": text}).vclock("x") == VClock({1: 5, 2: 7})


@pytest.mark.parametrize(
    "text", ["1769860800", "2026-01-31T12:00:00Z", "2026-01-31 12:00", "2026-01-31T15:00:00+03:00"]
)
def test_moments_of_options(text: str) -> None:
    assert parse_moment("x", text) == 1769860800


def test_names_of_options_have_no_case_and_may_have_a_prefix() -> None:
    options = Options({"tarantool.maxPartitionBytes": "1k", "SPACE": "t"})
    assert options.size("maxPartitionBytes", 0) == 1024
    assert options.text("space") == "t"
    options.check()
    assert Options({"x": '["a", "b,c"]'}).names("x") == ("a", "b,c")
    assert Options({"x": " a, b ,"}).names("x") == ("a", "b")


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("HEADWATER_TEST_SECRET", "sesame")
    (tmp_path / "secret").write_text("sesame\n")
    kinds = [
        {"password": "sesame"},
        {"passwordEnv": "HEADWATER_TEST_SECRET"},
        {"passwordFile": str(tmp_path / "secret")},
    ]
    for given_ in kinds:
        found = Options(given_).secret("password")
        assert isinstance(found, Secret)
        assert found.reveal() == "sesame"
        assert "sesame" not in repr(found)
    with pytest.raises(OptionError, match="say the same thing"):
        Options({**kinds[0], **kinds[1]}).secret("password")
    with pytest.raises(OptionError, match="'NOWHERE', which should hold a secret, is not set"):
        Secret("env", "NOWHERE").reveal()


def test_what_becomes_of_bad_strings_is_one_of_three() -> None:
    assert types.read_utf8(Options({"invalidUtf8": "BINARY"}), Utf8.FAIL) is Utf8.BINARY
    with pytest.raises(OptionError, match="one of fail, replace, binary"):
        types.read_utf8(Options({"invalidUtf8": "drop"}), Utf8.FAIL)
