"""The streams and queries of SASE+ section 6 and LAZY section 7."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import cepviz as cep
from cepviz import data
from cepviz.data import (
    FINANCE,
    HI_TECH,
    correlated,
    correlation_threshold,
    letters,
    paired,
    sector_ticks,
    stock_ticks,
    template,
)
from cepviz.data.stocks import ITERATORS, STRATEGIES


def moves(stream: cep.Stream, symbol: int) -> np.ndarray:
    """The steps of one symbol's price round the circle: -1, 0 or 1."""
    prices = stream.column("price")[stream.column("symbol") == symbol]
    return (np.diff(prices) + 1) % 1000 - 1


def test_values_have_the_ranges_of_the_paper():
    stream = stock_ticks(50_000)
    assert stream.counts() == {"STOCK": 50_000}
    for name, least, most in (("symbol", 1, 2), ("price", 1, 1000), ("volume", 1, 1000)):
        column = stream.column(name)
        assert (column.min(), column.max()) == (least, most), name
    assert stream.ends.tolist() == list(range(50_000))


def test_lowest_moves_the_circle_of_prices():
    low, high = stock_ticks(50_000, lowest=0), stock_ticks(50_000)
    assert (low.column("price").min(), low.column("price").max()) == (0, 999)
    assert (high.column("price") - low.column("price") == 1).all()


@pytest.mark.parametrize("p", [0.55, 0.7])
def test_price_of_a_symbol_rises_with_probability_p_and_falls_or_stays_with_half_the_rest(p):
    stream = stock_ticks(100_000, p=p, seed=3)
    for symbol in (1, 2):
        steps = moves(stream, symbol)
        assert set(steps.tolist()) == {-1, 0, 1}
        assert (steps == 1).mean() == pytest.approx(p, abs=0.01)
        assert (steps == -1).mean() == pytest.approx((1 - p) / 2, abs=0.01)
        assert (steps == 0).mean() == pytest.approx((1 - p) / 2, abs=0.01)


def test_price_goes_round_at_both_ends():
    rising, falling = (stock_ticks(3000, symbols=1, p=p).column("price") for p in (1, 0))
    assert rising[np.flatnonzero(rising == 1000)[0] + 1] == 1
    assert set(np.diff(rising).tolist()) == {1, -999}
    assert 999 in np.diff(falling)  # p=0: falls or stays


def test_symbol_and_volume_are_uniform():
    stream = stock_ticks(100_000, symbols=4)
    assert np.bincount(stream.column("symbol"))[1:] == pytest.approx(25_000, rel=0.03)
    assert (stream.column("volume") < 150).mean() == pytest.approx(0.149, abs=0.005)


def test_same_seed_same_stream():
    first, again, other = (stock_ticks(500, seed=seed) for seed in (4, 4, 5))
    assert list(first) == list(again)
    assert list(first) != list(other)


def test_many_symbols_walk_each_by_itself():
    stream = stock_ticks(20_000, symbols=1000)
    for symbol in (1, 500, 1000):
        assert set(moves(stream, symbol).tolist()) <= {-1, 0, 1}


def test_one_event_and_symbols_that_never_come():
    assert len(stock_ticks(1, symbols=50)) == 1


@pytest.mark.parametrize("arguments", [{"n": 0}, {"n": 5, "symbols": 0}, {"n": 5, "p": 1.5}])
def test_impossible_tickers_are_refused(arguments):
    with pytest.raises(cep.CepError):
        stock_ticks(**arguments)


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_template_is_a_pattern(strategy, iterator):
    pattern = cep.parse(template(strategy, iterator, 500, non_overlap=True))
    assert pattern.strategy == STRATEGIES[strategy]
    assert pattern.output == "non_overlap"
    assert list(pattern.variables) == (["a", "b", "c"] if iterator == "p3*" else ["a", "b"])


def test_window_is_one_of_a_symbols_own_events():
    assert "WITHIN 1000 events" in template("s2", "p1", 500)
    assert "WITHIN 10000 events" in template("s2", "p1", 500, symbols=20)


def test_template_names_a_wrong_parameter():
    with pytest.raises(cep.CepError, match=r"'p4'.*p3avg"):
        template("s2", "p4", 500)


def test_match_lengths_are_those_of_table_2():
    stream = stock_ticks(100_000, lowest=0)
    result = cep.match(template("s2", "p2", 500), stream, engine="sase")
    lengths = [len(match.events) for match in result]
    assert np.mean(lengths) == pytest.approx(1 + 1 / 0.3, abs=0.6)  # the paper: 4.5


# ---- LAZY section 7 ----


def test_sectors_are_equally_frequent_and_goog_as_rare_as_asked():
    for f_c in (0.001, 0.1, 1):
        tickers = sector_ticks(30_000, f_c).column("ticker")
        a, b = (np.isin(tickers, sector).sum() for sector in (FINANCE, HI_TECH))
        assert a == pytest.approx(b, rel=0.03)
        assert (tickers == "GOOG").sum() == pytest.approx(f_c * (a + b) / 2, rel=0.04)


def test_sectors_take_turns_in_being_slightly_more_frequent():
    is_a = np.isin(sector_ticks(20_000, 0.01).column("ticker"), FINANCE)
    share = is_a.reshape(-1, 1000).mean(axis=1)
    assert (share[::2] > 0.5).mean() > 0.8 and (share[1::2] < 0.5).mean() > 0.8
    assert share == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("f_c", [0.001, 1])
def test_ten_minutes_hold_a_hundred_events_of_each_sector(f_c):
    stream = sector_ticks(20_000, f_c)
    a = stream.ends[np.isin(stream.column("ticker"), FINANCE)]
    assert len(a) / (a[-1] / 600) == pytest.approx(100, rel=0.02)


def test_a_history_is_the_last_prices_of_its_stock():
    known: dict[tuple[str, int], float] = {}
    seen = 0
    for event in sector_ticks(5_000, h=4):
        minute, history = event.end // 60, event["history"]
        assert len(history) == 4 and history[-1] == event["price"]
        known[event["ticker"], minute] = event["price"]
        for back, price in enumerate(reversed(history)):
            if (event["ticker"], minute - back) in known:
                assert known[event["ticker"], minute - back] == price
                seen += 1
    assert seen > 5_000


def test_the_threshold_lets_one_pair_in_a_hundred_pass():
    stream = sector_ticks(4_000, 0.01, seed=3)
    given = {"h": "10 minutes", "Finance": FINANCE, "Hi_Tech": HI_TECH}
    text = (
        "PATTERN SEQ(Stock a, Stock b) WHERE a.ticker IN Finance AND b.ticker IN Hi-Tech "
        "AND Corr(a.history, b.history) > T WITHIN h"
    )
    threshold = correlation_threshold(stream)
    found, pairs = (
        len(cep.match(cep.parse(text).given(T=t, **given), stream, engine="eager"))
        for t in (threshold, -2)
    )
    assert found / pairs == pytest.approx(0.01, abs=0.002)


@pytest.mark.parametrize("make", [sector_ticks, letters])
def test_the_rare_kind_changes_with_every_period(make):
    stream = make(6_000, 0.05, period=1_000)
    if make is letters:
        names = np.array(stream.schema.types)[stream.types]
        kinds = [names == "C", names == "A", names == "B"]
    else:
        tickers = stream.column("ticker")
        kinds = [tickers == "GOOG", np.isin(tickers, FINANCE), np.isin(tickers, HI_TECH)]
    rarest = np.argmin([kind.reshape(6, 1_000).sum(axis=1) for kind in kinds], axis=0)
    assert rarest.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("make", [sector_ticks, letters])
def test_same_seed_same_stocks(make):
    first, again, other = (make(300, seed=seed) for seed in (4, 4, 5))
    assert list(first) == list(again)
    assert list(first) != list(other)


@pytest.mark.parametrize("sequence", ["abc", "cba", "acb"])
def test_queries_name_their_variables_in_sequence(sequence):
    pattern = cep.parse(correlated(sequence))
    pattern = pattern.given(T=0.9, h="10 minutes", Finance=FINANCE, Hi_Tech=HI_TECH)
    assert list(pattern.variables) == list(cep.parse(paired(sequence)).variables) == [*sequence]


@pytest.mark.parametrize(
    "arguments",
    [{"n": 0}, {"n": 5, "f_c": 0}, {"n": 5, "f_c": 2}, {"n": 5, "h": 1}, {"n": 5, "period": 0}],
)
def test_impossible_stocks_are_refused(arguments):
    with pytest.raises(cep.CepError):
        sector_ticks(**arguments)


def test_a_wrong_sequence_is_named():
    with pytest.raises(cep.CepError, match="'abd'"):
        correlated("abd")
    with pytest.raises(cep.CepError, match="no two events"):
        correlation_threshold(sector_ticks(1))


def test_data_is_loaded_only_when_asked_for():
    code = "import sys, cepviz.data; print('cepviz.data.stocks' in sys.modules)"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.strip() == "False"
    assert set(data.__all__) <= set(dir(data))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        data.nothing  # noqa: B018
