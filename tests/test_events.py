"""Events and streams: what goes in comes out in order; bad input is refused by row and column."""

import copy
import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepviz.errors import CepError, StreamError
from cepviz.events import Event, Schema, Stream

ROWS = [
    {"type": "Stock", "time": 1, "symbol": "GOOG", "price": 120.0, "volume": 10},
    {"type": "News", "time": 2, "symbol": "IBM", "price": None, "volume": 20},
    {"type": "Stock", "time": 2, "symbol": "IBM", "price": 80.5, "volume": 30},
]
DAY = 86400 * 10**9
MINUTE = 60 * 10**9
HOUR = timedelta(hours=1)
TEXT = st.none() | st.text()


def frame(**columns):
    return pd.DataFrame(columns)


def stream_of(times, **keywords):
    rows = [{"type": "A", "time": time, "n": n} for n, time in enumerate(times)]
    return Stream.from_records(rows, **keywords)


def refused(call, *parts, row=None, column=None):
    """The call is refused by an error that names the row, the column and the fix."""
    with pytest.raises(StreamError) as caught:
        call()
    assert isinstance(caught.value, CepError)
    for part in parts:
        assert part in str(caught.value)
    assert (caught.value.row, caught.value.column) == (row, column)


# One event


def test_attribute_reads_as_attribute_and_as_item():
    event = Event("Stock", 5, price=120, symbol="GOOG")
    assert event.price == event["price"] == event.get("price") == 120
    assert event.get("volume") is None
    assert event.get("volume", 7) == 7


def test_point_event_has_one_time_and_interval_has_two():
    point, interval = Event("A", 5), Event("A", 5, end=8)
    assert (point.start, point.end, point.time, point.is_interval) == (5, 5, 5, False)
    assert (interval.start, interval.end, interval.time, interval.is_interval) == (5, 8, 8, True)


def test_attribute_comes_before_built_in_of_the_same_name():
    event = Event("A", 5, id=3, end=6, attributes={"type": "inner", "end": "wall", "x y": 1})
    assert (event["type"], event.get("end"), event["x y"]) == ("inner", "wall", 1)
    assert (event.type, event.end) == ("A", 6)
    assert (event["id"], event["time"], event.get("start")) == (3, 6, 5)


def test_missing_attribute_suggests_the_near_one():
    event = Event("A", 5, id=1, price=1)
    with pytest.raises(AttributeError, match=r"e1 has no attribute 'prise'.*did you mean 'price'"):
        _ = event.prise
    with pytest.raises(KeyError, match="did you mean 'price'"):
        event["prise"]
    assert not hasattr(event, "volume")


def test_event_does_not_change():
    event = Event("A", 5, x=1)
    with pytest.raises(AttributeError, match="events do not change: cannot set 'x'"):
        event.x = 2
    with pytest.raises(AttributeError, match="cannot set 'time'"):
        event.time = 2
    with pytest.raises(AttributeError):
        del event.end


def test_events_are_equal_by_value():
    assert Event("A", 5, x=1) == Event("A", 5, x=1)
    assert hash(Event("A", 5, x=1)) == hash(Event("A", 5, x=1))
    for other in (Event("B", 5, x=1), Event("A", 6, x=1), Event("A", 5, x=2), Event("A", 5), "A"):
        assert Event("A", 5, x=1) != other
    assert Event("A", 5, id=1) != Event("A", 5, id=2)
    assert len({Event("A", 5, x=[1]), Event("A", 5, x=[1])}) == 1


def test_nan_attribute_is_none():
    assert Event("A", 5, x=float("nan")).x is None


def test_event_survives_pickle_and_copy():
    event = Stream.from_records(ROWS)[1]
    for twin in (pickle.loads(pickle.dumps(event)), copy.copy(event), copy.deepcopy(event)):
        assert twin == event and type(twin) is Event
        assert repr(twin) == repr(event)


def test_event_prints_label_type_attributes_and_time():
    assert repr(Event("Stock", 5, id=6, symbol="GOOG", price=120.0)) == (
        "e6 Stock symbol=GOOG price=120 at 5"
    )
    assert repr(Event("A", 5, end=7.5, id="x9")) == "x9 A from 5 to 7.5"
    assert repr(Event("A", 5, name="John Smith", note="", x=None)) == (
        "A name='John Smith' note='' x=None at 5"
    )
    assert [Event("A", 5, id=i).label for i in (6, "x9", None)] == ["e6", "x9", "A"]
    dated = Stream.from_records([{"kind": "A", "at": "2024-01-02 10:02", "x": 1}],
                                type="kind", time="at")  # fmt: skip
    assert repr(dated[0]) == "e0 A x=1 at 2024-01-02 10:02:00"


def test_event_prints_hostile_values_short_and_on_one_line():
    text = repr(Event("A", 1, big="x" * 10_000, line="a\nb", rtl="\u202egnp", emoji="🚀", b="'\""))
    assert len(text) < 200
    assert "\n" not in text and "\u202e" not in text
    assert "big=xxxxxxxxxxxxxxxxxxxxxxxx…xxxxxxxxxxxxxxx " in text
    assert "emoji=🚀" in text
    assert "and 92 more at 1" in repr(Event("A", 1, attributes={f"c{i}": i for i in range(100)}))


def test_column_cannot_answer_the_notebook():
    event = Event("A", 1, attributes={"_repr_html_": "<b>", "_c0": 4})
    assert not hasattr(event, "_repr_html_")
    assert event["_repr_html_"] == "<b>"
    assert event._c0 == 4


# The clock


@pytest.mark.parametrize(
    ("unit", "amount", "word", "expected"),
    [
        ("s", 10, "minutes", 600),
        ("s", 1, "second", 1),
        ("min", 30, "s", 0.5),
        ("ns", 0.1, "s", 100_000_000),
        ("ms", 2, "Hours", 7_200_000),
        ("h", 1, "week", 168),
        ("d", 36, "h", 1.5),
        ("us", 5, "ms", 5000),
    ],
)
def test_duration_is_exact_in_the_streams_unit(unit, amount, word, expected):
    found = Schema(unit=unit).duration(amount, word)
    assert found == expected
    assert type(found) is type(expected)


def test_duration_takes_text_and_timedelta_and_bare_numbers():
    seconds = Schema()
    assert seconds.duration("5 minutes") == 300
    assert seconds.duration("1 h 30min") == 5400
    assert seconds.duration(timedelta(minutes=1)) == 60
    assert Schema(unit="ns").duration(pd.Timedelta(1001, "ns")) == 1001
    assert seconds.duration(7.5) == 7.5


def test_unknown_unit_suggests_the_near_one():
    refused(lambda: Schema().duration(5, "minuts"), "'minuts'", "did you mean 'minutes'")
    refused(lambda: Schema().duration("soon"), "'soon' is not a length of time", "'5 minutes'")
    refused(lambda: Schema().duration("5 minutes-ish"), "not a length of time")
    refused(lambda: Schema(unit="m"), "'m'", "ns, us, ms, s, min, h, d")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("2024-01-02", "2024-01-02"),
        ("2024-01-02T10:02", "2024-01-02 10:02:00"),
        ("2024-01-02 10:02:00.5", "2024-01-02 10:02:00.500"),
        ("2024-01-02 10:02:00.000001", "2024-01-02 10:02:00.000001"),
        ("1969-12-31 23:59:59.999999999", "1969-12-31 23:59:59.999999999"),
    ],
)
def test_dates_print_as_short_as_is_exact(text, printed):
    schema = Schema(unit="ns", zone="UTC", naive=True)
    assert schema.format_time(schema.timestamp(text)) == printed


def test_timestamp_takes_dates_and_numbers():
    schema = Schema(unit="ns", zone="UTC", naive=True)
    assert schema.timestamp(datetime(1970, 1, 2)) == DAY
    assert schema.timestamp(pd.Timestamp(1001)) == 1001
    assert schema.timestamp(np.datetime64("1970-01-02")) == DAY
    assert schema.timestamp(5) == 5


def test_timestamp_without_zone_is_in_the_streams_zone():
    berlin = Schema(unit="ns", zone="Europe/Berlin")
    assert berlin.timestamp("1970-01-02 01:00") == DAY
    assert berlin.timestamp("1970-01-02 00:00Z") == DAY
    assert berlin.format_time(DAY) == "1970-01-02 01:00:00+01:00"


def test_timestamp_refuses_what_the_clock_cannot_read():
    naive = Schema(unit="ns", zone="UTC", naive=True)
    refused(lambda: naive.timestamp("soon"), "'soon' is not a date", "2024-01-31 10:00:00")
    refused(lambda: naive.timestamp("2024-01-01 10:00Z"), "has a time zone", "leave it out")
    refused(lambda: Schema().timestamp("2024-01-01"), "plain numbers", "give a number")


def test_numeric_times_and_durations_print_as_numbers():
    assert Schema(unit="ms").format_time(302.0) == "302"
    assert Schema(unit="ms").format_duration(0.25) == "0.25"


def test_durations_of_dates_print_in_units():
    schema = Schema(unit="ns", zone="UTC", naive=True)
    assert schema.format_duration(302 * 10**9) == "5 min 2 s"
    assert schema.format_duration(DAY + 1_500_000) == "1 d 1 ms 500 us"
    assert schema.format_duration(-MINUTE) == "-1 min"
    assert schema.format_duration(0) == "0 s"


@given(st.integers(-(2**62), 2**62), st.sampled_from(["UTC", "Europe/Berlin", "UTC-05:30"]))
def test_printed_time_reads_back_exactly(number, zone):
    for schema in (Schema(unit="ns", zone=zone), Schema(unit="ns", zone="UTC", naive=True)):
        assert schema.timestamp(schema.format_time(number)) == number
        assert schema.duration(schema.format_duration(abs(number))) == abs(number)


# Getting data in


def test_stream_from_pandas_iterates_as_events():
    stream = Stream.from_pandas(pd.DataFrame(ROWS))
    assert len(stream) == 3
    assert [(e.position, e.id, e.type, e.time, e.symbol) for e in stream] == [
        (0, 0, "Stock", 1, "GOOG"),
        (1, 1, "News", 2, "IBM"),
        (2, 2, "Stock", 2, "IBM"),
    ]
    assert [e.price for e in stream] == [120.0, None, 80.5]
    assert stream[0].attributes == ROWS[0]


def test_values_are_plain_python():
    stream = Stream.from_pandas(pd.DataFrame(ROWS).assign(good=[True, False, True]))
    assert {type(value) for e in stream for value in e.attributes.values()} == {
        str, int, float, bool, type(None),
    }  # fmt: skip
    assert {type(x) for e in stream for x in (e.position, e.id, e.start, e.end)} == {int}
    assert type(stream_of([1.0])[0].time) is float


def test_kinds_of_columns():
    day = datetime(2024, 1, 2)
    stream = Stream.from_pandas(
        frame(
            type=["A", "A"],
            time=[1, 2],
            whole=[1, 2],
            real=[1.5, None],
            money=[Decimal("1.5"), None],
            text=["a", None],
            group=pd.Categorical(["x", None]),
            grade=pd.Categorical([1, None]),
            yes=[True, False],
            maybe=[True, None],
            when=[day, None],
            day=[date(2024, 1, 2), None],
            took=[timedelta(minutes=1), None],
            trace=[[1, 2], None],
            pair=[(1, 2), np.array([3, 4])],
            mixed=[1, "one"],
            nothing=[None, None],
            huge=[2**70, None],
            wide=np.array([2**64 - 1, 1], dtype="uint64"),
        )
    )
    assert dict(stream.schema.attributes) == {
        "type": "string", "time": "number", "whole": "number", "real": "number",
        "money": "number", "text": "string", "group": "string", "grade": "number",
        "yes": "bool", "maybe": "bool", "when": "time", "day": "time", "took": "number",
        "trace": "list", "pair": "list", "mixed": "other", "nothing": "other",
        "huge": "number", "wide": "number",
    }  # fmt: skip
    seconds = int(day.replace(tzinfo=UTC).timestamp())
    assert list(stream[0].attributes.values()) == [
        "A", 1, 1, 1.5, 1.5, "a", "x", 1, True, True, seconds, seconds, 60,
        [1, 2], [1, 2], 1, None, 2**70, 2**64 - 1,
    ]  # fmt: skip
    assert list(stream[1].attributes.values()) == [
        "A", 2, 2, None, None, None, None, None, False, None, None, None, None,
        None, [3, 4], "one", None, None, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["object", "string", "string[pyarrow]", "category"])
@pytest.mark.parametrize("whole", ["Int64", "int64[pyarrow]", "object"])
@pytest.mark.parametrize("clock", ["datetime64[s]", "datetime64[ns]", "timestamp[us][pyarrow]"])
def test_every_dtype_reads_the_same(text, whole, clock):
    stream = Stream.from_pandas(
        frame(
            type=pd.Series(["A", "B"], dtype=text),
            time=pd.Series(pd.to_datetime(["1970-01-02", "1970-01-03"])).astype(clock),
            name=pd.Series(["x", None], dtype=text),
            n=pd.Series([7, None], dtype=whole),
            b=pd.Series([None, True], dtype="boolean"),
            real=pd.Series([None, 0.5], dtype="double[pyarrow]"),
        )
    )
    assert [e.attributes for e in stream] == [
        {"type": "A", "time": DAY, "name": "x", "n": 7, "b": None, "real": None},
        {"type": "B", "time": 2 * DAY, "name": None, "n": None, "b": True, "real": 0.5},
    ]
    assert type(stream[0].n) is int


def test_dates_count_nanoseconds_whatever_their_spelling():
    for times in (
        ["1970-01-02", "1970-01-03T00:00:00.5"],
        pd.to_datetime(["1970-01-02 00:00:00.0", "1970-01-03 00:00:00.5"]),
        [datetime(1970, 1, 2), datetime(1970, 1, 3, 0, 0, 0, 500_000)],
    ):
        stream = Stream.from_pandas(frame(type=["A", "A"], time=times))
        assert stream.ends.tolist() == [DAY, 2 * DAY + 500_000_000]
        assert (stream.schema.unit, stream.schema.zone, stream.schema.naive) == ("ns", "UTC", True)
        assert stream.schema.attributes["time"] == "time"


def test_other_date_columns_share_the_clock_of_the_stream():
    due = [datetime(1970, 1, 2), None]
    assert Stream.from_pandas(frame(type=["A", "A"], time=[1, 2], due=due))[0].due == 86400
    half = [datetime(1970, 1, 1, 12), None]
    days = Stream.from_pandas(frame(type=["A", "A"], time=[1, 2], due=half), unit="d")
    assert days[0].due == 0.5
    dated = frame(type=["A", "A"], time=["1970-01-01", "1970-01-02"], due=due)
    stream = Stream.from_pandas(dated)
    assert (stream[0].due, stream[1].due) == (DAY, None)
    assert repr(stream[0]) == "e0 A due=1970-01-02 at 1970-01-01"


def test_text_attributes_that_look_like_dates_stay_text():
    stream = Stream.from_records([{"type": "A", "time": 1, "day": "2024-01-02"}])
    assert stream[0].day == "2024-01-02"


@pytest.mark.parametrize(
    ("times", "zone", "printed"),
    [
        (["1970-01-02T00:00Z"], "UTC", "1970-01-02 00:00:00+00:00"),
        (["1970-01-02T01:00+01:00"], "UTC+01:00", "1970-01-02 01:00:00+01:00"),
        (["1970-01-01T19:00-0500"], "UTC-05:00", "1970-01-01 19:00:00-05:00"),
        (["1970-01-02T01:00+01:00", "1970-01-02T02:00+02:00"], "UTC", "1970-01-02 00:00:00+00:00"),
        (
            [datetime(1970, 1, 2, 1, tzinfo=ZoneInfo("Europe/Berlin"))],
            "Europe/Berlin",
            "1970-01-02 01:00:00+01:00",
        ),
        (
            [datetime(1970, 1, 2, 1, tzinfo=timezone(HOUR)), pd.Timestamp(DAY, tz="UTC")],
            "UTC",
            "1970-01-02 00:00:00+00:00",
        ),
        (
            pd.to_datetime(["1970-01-02 01:00"]).tz_localize("Europe/Berlin"),
            "Europe/Berlin",
            "1970-01-02 01:00:00+01:00",
        ),
    ],
)  # fmt: skip
def test_zoned_times_are_kept_as_instants_and_printed_in_their_zone(times, zone, printed):
    stream = Stream.from_pandas(frame(type=["A"] * len(times), time=times))
    assert set(stream.ends.tolist()) == {DAY}
    assert (stream.schema.zone, stream.schema.naive) == (zone, False)
    assert stream.schema.format_time(DAY) == printed


def test_summer_time_in_one_zone_is_one_zone():
    berlin = ZoneInfo("Europe/Berlin")
    times = [datetime(2024, 1, 1, tzinfo=berlin), datetime(2024, 7, 1, tzinfo=berlin)]
    stream = Stream.from_records([{"type": "A", "time": time} for time in times])
    assert repr(stream[0]).endswith("at 2024-01-01 00:00:00+01:00")
    assert repr(stream[1]).endswith("at 2024-07-01 00:00:00+02:00")


def test_one_type_for_all_rows():
    stream = Stream.from_records([{"time": 1, "x": 2}], every="Stock")
    assert (stream[0].type, stream[0].attributes) == ("Stock", {"time": 1, "x": 2})
    assert stream.column("type").tolist() == ["Stock"]


def test_given_ids_name_events():
    rows = [{"type": "A", "time": 2, "key": "b"}, {"type": "A", "time": 1, "key": "a"}]
    stream = Stream.from_records(rows, id="key", sort=True)
    assert [(e.id, e.label, e.position) for e in stream] == [("a", "a", 0), ("b", "b", 1)]
    assert [e.id for e in stream_of([1, 2], id="n")] == [0, 1]


def test_intervals_are_ordered_by_their_end():
    rows = [{"type": "A", "time": 5, "until": 6}, {"type": "B", "time": 1, "until": 9}]
    stream = Stream.from_records(rows, end="until")
    assert [(e.type, e.start, e.end, e.is_interval) for e in stream] == [
        ("A", 5, 6, True),
        ("B", 1, 9, True),
    ]
    assert repr(stream[1]) == "e1 B from 1 to 9"
    assert (stream.starts.tolist(), stream.ends.tolist()) == ([5, 1], [6, 9])


def test_missing_keys_are_missing_values():
    stream = Stream.from_records(
        [{"type": "A", "time": 1, "x": 5}, {"type": "B", "time": 2, "y": 6}]
    )
    assert [(e.x, e.y) for e in stream] == [(5, None), (None, 6)]
    assert type(stream[0].x) is int


def test_stream_of_events_keeps_types_times_and_attributes():
    events = [Event("A", 1, x=3), Event("B", 2, end=4, y="z")]
    stream = Stream.from_records(iter(events))
    assert [(e.type, e.start, e.end, e.id, e.attributes) for e in stream] == [
        ("A", 1, 1, 0, {"x": 3, "y": None}),
        ("B", 2, 4, 1, {"x": None, "y": "z"}),
    ]


def test_hand_made_events_may_have_dates():
    stream = Stream.from_records([Event("A", "2024-01-01")])
    assert repr(stream[0]) == "e0 A at 2024-01-01"


def test_stream_of_a_streams_events_is_that_stream():
    rows = [
        {"kind": "A", "at": f"2024-01-0{day}", "due": datetime(2024, 2, 1)} for day in (1, 2, 3)
    ]
    stream = Stream.from_records(rows, type="kind", time="at")
    again = Stream.from_records(stream)
    assert list(again) == list(stream)
    assert again.schema == stream.schema
    assert [e.id for e in Stream.from_records(stream[1:])] == [1, 2]


def test_files_read_as_the_records_they_hold(tmp_path):
    rows = [
        {"type": "A", "time": 1, "n": 5, "name": "x", "ok": True, "r": 0.5},
        {"type": "B", "time": 2, "n": None, "name": None, "ok": None, "r": 2.0},
    ]
    table = pd.DataFrame(rows).astype({"n": "Int64", "ok": "boolean"})
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows))
    for stream in (
        Stream.from_records(rows),
        Stream.read_csv(tmp_path / "x.csv"),
        Stream.read_parquet(str(tmp_path / "x.parquet")),
        Stream.read_json(tmp_path / "x.jsonl"),
    ):
        assert [e.attributes for e in stream] == rows
        assert type(stream[0].n) is int


def test_ragged_csv_does_not_shift_its_columns(tmp_path):
    (tmp_path / "x.csv").write_text("type,time\nA,1,\nB,2,\n")
    assert [e.type for e in Stream.read_csv(tmp_path / "x.csv")] == ["A", "B"]
    (tmp_path / "x.csv").write_text("type,time\nA,1,x\nB,2,y\n")
    with pytest.warns(pd.errors.ParserWarning):
        assert [e.type for e in Stream.read_csv(tmp_path / "x.csv")] == ["A", "B"]


def test_readers_take_the_same_keywords(tmp_path):
    (tmp_path / "x.csv").write_text("kind,at,key\nA,2024-01-02,k1\nB,2024-01-01,k2\n")
    stream = Stream.read_csv(tmp_path / "x.csv", type="kind", time="at", id="key", sort=True)
    assert [repr(e) for e in stream] == ["k2 B at 2024-01-01", "k1 A at 2024-01-02"]
    (tmp_path / "x.jsonl").write_text('{"t": 3, "tags": ["a"]}\n{"t": 1}\n')
    late = Stream.read_json(tmp_path / "x.jsonl", time="t", every="A", lateness=1, unit="h")
    assert (late.schema.unit, len(late), len(late.late)) == ("h", 1, 1)


def test_other_data_frames_are_converted():
    pa = pytest.importorskip("pyarrow")
    assert len(Stream.from_pandas(pa.table({"type": ["A"], "time": [1]}))) == 1


def test_stream_does_not_see_later_changes_of_the_frame():
    df = pd.DataFrame(ROWS)
    stream = Stream.from_pandas(df)
    df.loc[0, "time"] = 99
    df.loc[0, "volume"] = 99
    assert (stream[0].time, stream[0].volume) == (1, 10)
    with pytest.raises(ValueError, match="read-only"):
        stream.column("volume")[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        stream.ends[0] = 5


def test_index_of_the_frame_does_not_matter():
    df = pd.DataFrame(ROWS, index=[7, 7, 3])
    assert [e.volume for e in Stream.from_pandas(df)] == [10, 20, 30]


# Order


def test_sort_puts_rows_in_order_and_keeps_ties():
    stream = stream_of([3, 1, 3, 1, 2], sort=True)
    assert [(e.time, e.n, e.id) for e in stream] == [
        (1, 1, 0), (1, 3, 1), (2, 4, 2), (3, 0, 3), (3, 2, 4),
    ]  # fmt: skip


def test_late_rows_are_put_in_order_up_to_the_allowed_lateness():
    stream = stream_of([1, 5, 3, 2, 6], lateness=2)
    assert [(e.time, e.n) for e in stream] == [(1, 0), (3, 2), (5, 1), (6, 4)]
    assert [(e.time, e.n, e.id) for e in stream.late] == [(2, 3, 3)]
    assert len(stream.late) == 1
    assert "late: 1 left out, see stream.late" in repr(stream)
    assert len(stream_of([1, 2], lateness=0).late) == 0


def test_lateness_may_be_given_in_words():
    times = ["2024-01-01 10:05", "2024-01-01 10:00", "2024-01-01 09:59"]
    assert [e.n for e in stream_of(times, lateness="5 minutes")] == [1, 0]
    assert [e.n for e in stream_of(times, lateness=timedelta(minutes=6))] == [2, 1, 0]


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(0, 6))
def test_order_is_end_then_arrival_and_nothing_vanishes(times, lateness):
    by_time = sorted(range(len(times)), key=lambda row: times[row])
    assert [e.n for e in stream_of(times, sort=True)] == by_time
    stream = stream_of(times, lateness=lateness)
    late = {n for n, time in enumerate(times) if max(times[: n + 1]) - time > lateness}
    assert [e.n for e in stream] == [n for n in by_time if n not in late]
    assert [e.n for e in stream.late] == [n for n in by_time if n in late]
    assert [e.position for e in stream] == list(range(len(stream)))


# Looking at a stream


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 4), TEXT), min_size=1),
    st.integers(-9, 9) | st.none(),
    st.integers(-9, 9) | st.none(),
)  # fmt: skip
def test_slice_is_the_slice_of_the_list(rows, low, high):
    records = [{"type": type, "time": time, "s": text} for type, time, text in rows]
    stream = Stream.from_records(records, sort=True)
    events = list(stream)
    assert [e.s for e in events] == [r["s"] for r in sorted(records, key=lambda r: r["time"])]
    assert list(stream[low:high]) == events[low:high]
    assert [stream[i] for i in range(-len(events), len(events))] == events + events
    part = stream[low:high]
    assert part.positions.tolist() == [e.position for e in events[low:high]]
    assert [e.s for e in events[low:high]] == part.column("s").tolist()
    assert part.mask("s").tolist() == [e.s is None for e in events[low:high]]
    assert sum(part.counts().values()) == len(part)


def test_iteration_crosses_its_chunks():
    count = 20_001
    stream = stream_of(range(count))
    assert [e.n for e in stream] == list(range(count))
    assert [e.position for e in stream[8190:8195]] == [8190, 8191, 8192, 8193, 8194]


def test_slices_share_memory_and_positions():
    stream = stream_of(range(100))
    part = stream[10:20][5:]
    assert np.shares_memory(part.column("n"), stream.column("n"))
    assert [e.position for e in part] == [15, 16, 17, 18, 19]
    assert part[0] == stream[15]
    assert len(stream[50:50]) == 0
    assert repr(stream[50:50]) == "Stream of 0 events"
    with pytest.raises(IndexError):
        stream[100]
    refused(lambda: stream[::2], "no gaps", "step 2")


def test_between_takes_the_start_and_leaves_the_end():
    stream = stream_of([1, 2, 2, 3, 5])
    assert [e.n for e in stream.between(2, 3)] == [1, 2]
    assert [e.n for e in stream.between(4)] == [4]
    assert [e.n for e in stream.between(end=2)] == [0]
    assert len(stream.between(5, 1)) == 0
    dated = stream_of(["2024-01-01", "2024-01-02", "2024-01-03"])
    assert [e.n for e in dated.between("2024-01-02", datetime(2024, 1, 3))] == [1]


def test_columns_come_as_arrays_with_masks_and_codes():
    stream = Stream.from_records(ROWS)
    assert stream.column("volume").tolist() == [10, 20, 30]
    assert stream.column("volume").dtype == np.int64
    assert np.isnan(stream.column("price")[1])
    assert stream.mask("price").tolist() == [False, True, False]
    assert stream.mask("volume").tolist() == [False, False, False]
    codes, values = stream.codes("symbol")
    assert (codes.tolist(), codes.dtype, values) == ([0, 1, 1], np.int32, ["GOOG", "IBM"])
    assert stream.column("symbol").tolist() == ["GOOG", "IBM", "IBM"]
    assert list(stream.columns(["volume", "symbol"])) == ["volume", "symbol"]
    assert list(stream.columns()) == ["type", "time", "symbol", "price", "volume"]


def test_built_in_columns_are_there_under_any_name():
    stream = Stream.from_records([Event("A", 1, end=3), Event("B", 4)])
    names = ("type", "id", "time", "start", "end")
    assert {name: stream.column(name).tolist() for name in names} == {
        "type": ["A", "B"], "id": [0, 1], "time": [3, 4], "start": [1, 4], "end": [3, 4],
    }  # fmt: skip
    assert stream.mask("time").tolist() == [False, False]
    assert stream.codes("type")[1] == ["A", "B"]


def test_missing_code_is_minus_one():
    stream = Stream.from_records(
        [{"type": "A", "time": 1, "s": None}, {"type": "A", "time": 2, "s": "x"}]
    )
    assert stream.codes("s")[0].tolist() == [-1, 0]
    assert stream.column("s").tolist() == [None, "x"]


def test_unknown_column_suggests_the_near_one():
    stream = Stream.from_records(ROWS)
    for call in (stream.column, stream.mask, stream.codes):
        refused(lambda call=call: call("prise"), "'prise'", "mean 'price'", column="prise")
    refused(lambda: stream.codes("price"), "'price' holds number values, not text", column="price")


def test_types_are_counted():
    stream = Stream.from_records(ROWS)
    assert stream.schema.types == ("Stock", "News")
    assert stream.types.tolist() == [0, 1, 0]
    assert stream.counts() == {"Stock": 2, "News": 1}
    assert stream[:1].counts() == {"Stock": 1}


def test_stream_goes_back_to_pandas():
    df = pd.DataFrame(ROWS)
    back = Stream.from_pandas(df).to_pandas()
    assert list(back.columns) == list(df.columns)
    assert back["volume"].tolist() == [10, 20, 30]
    zoned = pd.DataFrame({
        "type": ["A", "B"],
        "time": pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("Europe/Berlin"),
        "due": pd.to_datetime(["2024-01-01 10:00:00.123456789", None]).tz_localize("UTC"),
        "n": pd.array([2**60 + 1, None], dtype="Int64"),
        "ok": pd.array([None, True], dtype="boolean"),
        "s": ["x", None],
    })  # fmt: skip
    stream = Stream.from_pandas(zoned)
    again = Stream.from_pandas(stream.to_pandas())
    assert list(again) == list(stream)
    assert again.schema == stream.schema
    assert str(stream.to_pandas()["due"].iloc[0]) == "2024-01-01 11:00:00.123456789+01:00"
    made = Stream.from_records([Event("A", 1, end=2, id="k", x=5)]).to_pandas()
    assert made.to_dict("records") == [{"type": "A", "time": 1, "end": 2, "id": "k", "x": 5}]


# Showing a stream


def test_repr_says_head_types_span_and_length():
    stream = Stream.from_records(
        [{"type": "AB"[n % 2], "time": f"2024-01-02 10:{n:02}", "n": n} for n in range(11)]
    )
    lines = repr(stream).splitlines()
    assert lines[0] == "Stream of 11 events, 2024-01-02 10:00:00 to 2024-01-02 10:10:00 (10 min)"
    assert lines[1] == "types: A 6, B 5"
    assert lines[2] == "  e0 A n=0 at 2024-01-02 10:00:00"
    assert lines[-1] == "  and 3 more"
    assert len(lines) == 11
    bundle = stream._repr_mimebundle_()
    assert bundle["text/plain"] == repr(stream)
    assert bundle["text/html"].count("<tr") == 9
    assert "and 3 more events" in bundle["text/html"]


@pytest.mark.parametrize(
    "value",
    ["<script>x</script>", "' onload='x", '"><b>', "a\nb", "🚀", "\u202eevil", "&amp;", "\ud800"],
)  # fmt: skip
def test_hostile_values_names_types_and_ids_are_escaped(value):
    stream = Stream.from_records(
        [{"kind": value, "at": 1, value: 1, "v": value, "key": value + "x" * 10_000, "l": [value]}],
        type="kind", time="at", id="key",
    )  # fmt: skip
    page = stream._repr_mimebundle_()["text/html"]
    for wild in ("<script", "<b>", "onload='", "\u202e", "\ud800"):
        assert wild not in page
    assert len(page) < 10_000
    assert "\n" not in repr(stream[0])
    page.encode()


def test_long_values_are_cut_with_the_whole_on_hover():
    page = Stream.from_records([{"type": "A", "time": 1, "v": "<" + "y" * 100}])._repr_mimebundle_()
    assert f"title='&lt;{'y' * 100}'" in page["text/html"]
    assert "yyy…yyy" in page["text/html"]


def test_wide_streams_and_many_types_are_cut():
    rows = [{"type": f"T{n}", "time": n, **{f"c{i}": i for i in range(30)}} for n in range(20)]
    stream = Stream.from_records(rows)
    assert "T7 1 and 12 more" in repr(stream)
    assert "and 18 more columns" in stream._repr_mimebundle_()["text/html"]


# Bad input


def test_time_going_back_is_refused_with_row_times_and_fixes():
    refused(
        lambda: stream_of([1, 5, 3, 2]),
        "row 2, column 'time'", "from 5 to 3", "sort=True", "lateness=3",
        row=2, column="time",
    )  # fmt: skip
    refused(
        lambda: stream_of(["2024-01-01 10:05", "2024-01-01 10:00"]),
        "from 2024-01-01 10:05:00 to 2024-01-01 10:00:00", "lateness='5 min'",
        row=1, column="time",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keywords", "column", "parts"),
    [
        ({"time": "tme"}, "tme", ["no time column 'tme'", "did you mean 'time'", "with time="]),
        ({"type": "kind"}, "kind", ["no type column 'kind'", "every='Stock'", "type, time, n"]),
        ({"end": "until"}, "until", ["no end column 'until'", "with end="]),
        ({"id": "key"}, "key", ["no id column 'key'", "with id="]),
    ],
)
def test_missing_column_is_refused(keywords, column, parts):
    refused(lambda: stream_of([1], **keywords), *parts, column=column)


def test_time_in_the_index_is_refused_with_the_fix():
    df = pd.DataFrame(ROWS).set_index("time")
    refused(lambda: Stream.from_pandas(df), "it is the index", "reset_index", column="time")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NaT, pd.NA])
def test_missing_time_is_refused(missing):
    refused(
        lambda: stream_of([1, missing, 2]),
        "row 1, column 'time': the time is missing: drop such rows", row=1, column="time",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "row", "parts"),
    [
        (["2024-01-01", "soon"], 1, ["soon is no date", "2024-01-31 10:00:00"]),
        (["01/02/2024"], 0, ["01/02/2024 is no date", "pd.to_datetime"]),
        (["2024-01-01", "9999-12-31"], 1, ["9999-12-31", "1678 to 2261"]),
        ([datetime(2024, 1, 1), datetime(9999, 1, 1)], 1, ["9999-01-01", "1678 to 2261"]),
        (["1700", "1701"], 0, ["1700 is a number written as text", "pd.to_numeric"]),
        ([1, "two"], 1, ["two is a str and row 0 (1) a int", "all numbers or all dates"]),
        ([datetime(2024, 1, 1), 5], 1, ["5 is a int and row 0", "a datetime"]),
        ([True, False], 0, ["True is a bool", "all numbers or all dates"]),
        ([1.0, float("inf")], 1, ["inf is no time", "finite"]),
        ([1, 2**70], 1, [f"{2**70} is no time", "2**63"]),
        ([timedelta(1)], 0, ["is a ", "all numbers or all dates"]),
        (["2024-01-01T10:00", "2024-01-01T10:00Z"], 1, ["has a time zone, row 0 has none"]),
        (["2024-01-01T10:00Z", "2024-01-01T10:00"], 1, ["has no time zone, row 0 has one"]),
        (
            [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)],
            1,
            ["has a time zone, row 0 has none", "give all of them a zone, or none"],
        ),
    ],
)
def test_bad_time_is_refused_with_its_row(times, row, parts):
    refused(lambda: stream_of(times), f"row {row}, column 'time'", *parts, row=row, column="time")


def test_mixed_zones_across_columns_are_refused():
    rows = [{"type": "A", "time": "2024-01-01 10:00", "due": datetime(2024, 1, 1, tzinfo=UTC)}]
    refused(
        lambda: Stream.from_records(rows),
        "'due' holds dates with a zone and 'time' holds dates without a zone", "tz_localize",
        column="due",
    )  # fmt: skip
    rows = [{"type": "A", "time": "2024-01-01 10:00", "until": 5}]
    refused(
        lambda: Stream.from_records(rows, end="until"),
        "'until' holds plain numbers and 'time' holds dates without a zone: make them alike",
        column="until",
    )  # fmt: skip


def test_end_before_start_is_refused():
    rows = [{"type": "A", "time": 1, "until": 2}, {"type": "A", "time": 9, "until": 5}]
    refused(
        lambda: Stream.from_records(rows, end="until"),
        "row 1, column 'until': the end 5 is before the start 9: swap or correct them",
        row=1, column="until",
    )  # fmt: skip
    events = [Event("A", 9, end=5)]
    refused(lambda: Stream.from_records(events), "before the start 9", row=0, column="end")


def test_missing_or_nameless_type_is_refused():
    rows = [{"type": "A", "time": 1}, {"type": None, "time": 2}]
    refused(
        lambda: Stream.from_records(rows),
        "row 1, column 'type': the event type is missing: fill it in", row=1, column="type",
    )  # fmt: skip
    rows = [{"type": "A", "time": 1}, {"type": 7, "time": 2}]
    refused(
        lambda: Stream.from_records(rows),
        "row 1, column 'type': the event type 7 is not text", "astype(str)", row=1, column="type",
    )  # fmt: skip
    refused(lambda: stream_of([1], type="n"), "type 0 is not text", row=0, column="n")
    refused(lambda: stream_of([1], type="n", every="A"), "type= and every= exclude each other")


def test_duplicate_missing_or_odd_id_is_refused():
    def stream(*keys):
        rows = [{"type": "A", "time": n, "key": key} for n, key in enumerate(keys)]
        return Stream.from_records(rows, id="key")

    refused(
        lambda: stream("a", "b", "a"),
        "row 2, column 'key': the id a is already that of row 0", "leave id= out",
        row=2, column="key",
    )  # fmt: skip
    refused(lambda: stream(5, 5), "the id 5 is already that of row 0", row=1, column="key")
    refused(lambda: stream("a", None), "the id is missing", "leave id= out", row=1, column="key")
    refused(lambda: stream([1], [2]), "[1] is no id", "numbers or text", row=0, column="key")
    refused(
        lambda: Stream.from_records([Event("A", 1, id=1), Event("A", 2)]),
        "row 1, column 'id': the id is missing", row=1, column="id",
    )  # fmt: skip


def test_empty_input_is_refused(tmp_path):
    refused(lambda: Stream.from_records([]), "has no rows")
    refused(lambda: Stream.from_pandas(pd.DataFrame({"type": [], "time": []})), "has no rows")
    for name, text in (("empty.csv", ""), ("head.csv", "type,time\n")):
        (tmp_path / name).write_text(text)
        refused(lambda name=name: Stream.read_csv(tmp_path / name), "has no rows")
    (tmp_path / "empty.jsonl").write_text("\n")
    refused(lambda: Stream.read_json(tmp_path / "empty.jsonl"), "has no rows")


def test_missing_and_unreadable_files_are_refused(tmp_path):
    (tmp_path / "stocks.csv").write_bytes(b"\xff\xfe\x00\x81,\n")
    (tmp_path / "bad.parquet").write_text("not parquet")
    (tmp_path / "bad.jsonl").write_text('{"type": "A", "time": 1}\n{"type": \n')
    (tmp_path / "array.json").write_text('[{"type": "A"}]')
    refused(lambda: Stream.read_csv(tmp_path / "stock.csv"), "no file", "mean 'stocks.csv'")
    refused(lambda: Stream.read_parquet(tmp_path / "none.parquet"), "there is no file")
    refused(lambda: Stream.read_json(tmp_path / "none.jsonl"), "there is no file")
    refused(lambda: Stream.read_csv(tmp_path / "stocks.csv"), "cannot read")
    refused(lambda: Stream.read_csv(tmp_path), "cannot read")
    refused(lambda: Stream.read_parquet(tmp_path / "bad.parquet"), "cannot read", "bad.parquet")
    refused(
        lambda: Stream.read_json(tmp_path / "bad.jsonl"),
        "line 2 of", "is not JSON", "one object a line", row=1,
    )  # fmt: skip
    refused(lambda: Stream.read_json(tmp_path / "array.json"), "row 0 is a list", "a dict", row=0)


def test_other_things_than_frames_and_records_are_refused():
    refused(lambda: Stream.from_pandas([1, 2]), "takes a DataFrame, not a list", "from_records")
    refused(lambda: Stream.from_records({"type": ["A"]}), "list of dicts or events, not a dict")
    refused(lambda: Stream.from_records("abc"), "not a str")
    refused(lambda: Stream.from_records(5), "not a int")
    refused(lambda: Stream.from_records([{"type": "A", "time": 1}, 5]), "row 1 is a int", row=1)
    refused(lambda: Stream.from_records([Event("A", 1), {}]), "as row 0 is", row=1)


def test_odd_column_names_are_refused():
    refused(
        lambda: Stream.from_pandas(pd.DataFrame({0: [1]})),
        "column 0 is named 0, which is not text", "df.columns", column=0,
    )  # fmt: skip
    df = pd.DataFrame([["A", 1, 2]], columns=["type", "time", "time"])
    refused(
        lambda: Stream.from_pandas(df),
        "column 2 is named 'time', as another column is",
        "df.columns",
        column="time",
    )


def test_contradicting_keywords_are_refused():
    refused(lambda: stream_of([1], sort=True, lateness=5), "leave lateness= out")
    refused(lambda: stream_of([1], lateness=-1), "lateness=-1 must not be negative")
    refused(lambda: stream_of([1], lateness="5 parsecs"), "unknown unit of time 'parsecs'")
    refused(lambda: stream_of([1], unit="parsec"), "unknown unit 'parsec'")
    refused(lambda: stream_of(["2024-01-01"], unit="s"), "leave unit='s' out", column="time")


def test_events_of_different_clocks_are_refused():
    dated = stream_of(["2024-01-01"])[0]
    refused(
        lambda: Stream.from_records([stream_of([1])[0], dated]),
        "row 1 is on another clock",
        "same unit",
        row=1,
    )
    refused(lambda: Stream.from_records([dated], unit="s"), "row 0 is on another clock", row=0)
