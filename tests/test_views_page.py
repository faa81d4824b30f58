"""Every view of every engine on one page, in a real browser, in light and dark."""

from __future__ import annotations

import pytest
from literal import WATCHED, stream

import cepviz as cep
from cepviz.explain import why, why_not
from cepviz.steps import Check, Replan
from cepviz.trace import Trace
from cepviz.views.automaton import automaton
from cepviz.views.buffer import buffer
from cepviz.views.invariants import invariants
from cepviz.views.metrics import metrics
from cepviz.views.pattern import pattern
from cepviz.views.plan import plan
from cepviz.views.runs import runs
from cepviz.views.timeline import timeline

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

PATTERN = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN 9"
EVENTS = "a1(x=1) a2(x=3) b1(x=2) b2(x=4) c1(x=3) c2(x=5)"


def scenes():
    for engine in WATCHED:
        trace = cep.trace(PATTERN, stream(EVENTS), engine=engine)
        index = trace.next(0, "match")
        for view in (automaton, buffer, timeline, runs):
            yield f"{engine} {view.__name__}", view(trace, index)
        if trace.plan:
            yield f"{engine} plan", plan(trace)
            expected = dict.fromkeys(("a", "b", "c", "(a b)", "((a b) c)"), 3.0)
            yield f"{engine} plan, expected", plan(trace, expected=expected)
    yield "pattern", pattern("PATTERN SEQ(AND(A a, B+ b[]), ~(D d), OR(C c, D e)) WITHIN 9")
    yield "why", why(cep.match(PATTERN, stream(EVENTS))[0]).picture()
    yield "why not", why_not(PATTERN, stream(EVENTS), a="a2", b="b1", c="c1").picture()
    broken = Trace()
    broken(Check("1", "rate(C)", "rate(B)", 10.0, 15.0, True))
    broken(Replan("C, B, A", "C, A, B", "invariant 2 broke"))
    broken(Check("2", "rate(B)", "rate(A)", 16.2, 15.8, False))
    yield "invariants", invariants(broken)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_shows_in_a_browser(tmp_path, page, watch, screenshot, scheme):
    drawn = list(scenes())
    parts = [f"<h3>{name}</h3>{scene._repr_mimebundle_()['text/html']}" for name, scene in drawn]
    paper = {"light": "#fff", "dark": "#16181d"}[scheme]
    path = tmp_path / "views.html"
    path.write_text(
        f"<meta charset=utf-8><body style='background:{paper};color:#888'>" + "".join(parts)
    )
    page.emulate_media(color_scheme=scheme)
    page.goto(path.as_uri())
    assert page.locator("svg").count() == len(drawn)
    # Nothing is cut off: every mark lies inside its picture.
    outside = page.evaluate(
        """[...document.querySelectorAll('svg')].map(svg => [...svg.querySelectorAll('text')]
        .filter(text => { const box = text.getBBox(), view = svg.viewBox.baseVal;
          return !text.getAttribute('transform') && (box.x < -2 || box.y < -2
            || box.x + box.width > view.width + 2 || box.y + box.height > view.height + 2); })
        .map(text => text.textContent)).flat()"""
    )
    assert outside == []
    assert screenshot(f"views-{scheme}").stat().st_size > 50_000
    assert (watch.errors, watch.outside) == ([], [])


def test_metrics_compare_traces():
    traces = {e: cep.trace(PATTERN, stream(EVENTS), engine=e) for e in ("eager", "lazy_chain")}
    figure = metrics(traces)
    assert {line.name for line in figure.data} == {"eager", "lazy_chain"}
