"""The chart of lines: where points lie, how lines differ, what is left out."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pandas as pd
import pytest

import cepviz as cep
from cepviz.views.chart import lines
from cepviz.views.style import CLASSES


def places(scene, name):
    path = scene.shapes[f"line:{name}"].attributes["d"]
    return [tuple(map(float, pair.split(","))) for pair in re.findall(r"[-\d.]+,[-\d.]+", path)]


def test_higher_values_are_higher_up_and_later_ones_further_right():
    scene = lines({"up": {1: 10, 2: 20, 3: 30}, "down": {1: 30, 2: 20, 3: 10}})
    (x1, y1), (x2, y2), (x3, y3) = places(scene, "up")
    assert x1 < x2 < x3 and y1 > y2 > y3
    assert places(scene, "down")[1] == (x2, y2)


def test_on_a_logarithmic_axis_equal_factors_are_equal_distances():
    scene = lines({"a": {1: 1, 10: 10, 100: 100}}, log="xy")
    (x1, y1), (x2, y2), (x3, y3) = places(scene, "a")
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y2 - y1 == pytest.approx(y3 - y2, abs=0.2)


def test_every_tenth_power_between_is_marked():
    scene = lines({"a": {1: 3, 2: 4_000}}, log="y")
    marked = [
        shape.text
        for key, shape in scene.shapes.items()
        if key.startswith("y:") and shape.text is not None
    ]
    assert marked == ["1", "10", "100", "1,000", "10,000"]


def test_points_without_a_place_are_left_out():
    scene = lines({"a": {1: 0, 2: 5, 3: math.nan, 4: 7}, "none": {1: 0}}, log="y")
    assert len(places(scene, "a")) == 2
    assert "line:none" not in scene.shapes


def test_one_point_is_drawn():
    assert len(places(lines({"a": {5: 5}}), "a")) == 1


def test_twelve_lines_differ_by_more_than_colour():
    looks = [tuple(sorted(CLASSES[f"line-{n}"].items())) for n in range(12)]
    assert len(set(looks)) == 12
    scene = lines({str(n): {1: n, 2: n} for n in range(14)})
    assert {c for s in scene.shapes.values() for c in s.classes.split()} <= set(CLASSES)


def test_names_at_the_ends_do_not_cover_each_other():
    scene = lines({name: {1: 1, 2: 1} for name in ("a", "b", "c")})
    heights = sorted(scene.shapes[f"name:{name}"].attributes["y"] for name in "abc")
    assert all(later - one >= 12 for one, later in pairwise(heights))


def test_a_frame_has_a_line_for_each_column():
    scene = lines(pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=[10, 20]), "W", "cost")
    assert scene.say == "cost by W: a 1 to 2, b 3 to 4."


def test_names_are_escaped():
    scene = lines({"<script>": {1: 1}}, "<x>", "&")
    ElementTree.fromstring(scene.svg("dark"))
    assert "<script>" not in scene.svg()


def test_what_makes_no_chart_is_refused():
    with pytest.raises(cep.CepError, match="at least one point"):
        lines({"a": {}})
    with pytest.raises(cep.CepError, match="'z'"):
        lines({"a": {1: 1}}, log="z")
