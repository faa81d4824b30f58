"""The stock ticker and the query template of SASE+ section 6."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import cepviz as cep
from cepviz import data
from cepviz.data import stock_ticks, template
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


def test_data_is_loaded_only_when_asked_for():
    code = "import sys, cepviz.data; print('cepviz.data.stocks' in sys.modules)"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.strip() == "False"
    assert set(data.__all__) <= set(dir(data))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        data.nothing  # noqa: B018
