"""Every sentence of SEMANTICS sections 1 to 6 as a small case, for every engine that takes it."""

import pytest
from literal import check, stream, written

import cepviz as cep

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

NEXT = "WHERE skip_till_next_match"
STRICT = "WHERE strict_contiguity"


# ---- 1. events and order ----


def test_events_at_the_same_time_are_ordered_by_arrival():
    check("PATTERN SEQ(A a, B b) WITHIN 9", "a1@5 b1@5", "a1|b1")
    check("PATTERN SEQ(A a, B b) WITHIN 9", "b1@5 a1@5")


def test_intervals_precede_only_strictly():
    check("PATTERN SEQ(A a, B b) WITHIN 99", "a1@1-4 b1@4-6 b2@5-7", "a1|b2")


def test_a_point_at_the_end_of_an_interval_does_not_follow_it():
    check("PATTERN SEQ(A a, B b) WITHIN 99", "a1@1-4 b1@4 b2@5", "a1|b2")


def test_and_joins_intervals_that_overlap():
    check("PATTERN AND(A a, B b) WITHIN 99", "a1@0-4 b1@2-5", "a1|b1")


def test_an_event_fills_one_position_of_a_match():
    check("PATTERN AND(A a, A b) WITHIN 9", "a1 a2", "a1|a2", "a2|a1")


def test_equal_rows_are_two_events():
    check("PATTERN SEQ(A a, A b) WITHIN 9", "a1@3 a2@3", "a1|a2")


# ---- 2. windows ----


def test_a_time_window_is_strict():
    check("PATTERN SEQ(A a, B b) WITHIN 10", "a5@5 a6@6 b15@15", "a6|b15")


def test_a_count_window_holds_that_many_events():
    check("PATTERN SEQ(A a, B b) WITHIN 3 events", "a1 a2 c1 b1", "a2|b1")


def test_units_of_a_window_are_those_of_the_stream():
    check("PATTERN SEQ(A a, B b) WITHIN 1 minute", "a1@0 b1@59 b2@60", "a1|b1")


def test_an_interval_match_is_measured_from_its_first_start():
    check("PATTERN SEQ(A a, B b) WITHIN 10", "a1@0-3 a2@4-5 b1@8-10", "a2|b1")


def test_a_pattern_without_window_is_warned_of_with_the_variable_that_grows():
    with pytest.warns(cep.CepWarning, match="events of a are kept"):
        cep.match("PATTERN SEQ(A a, B b)", stream("a1 b1"))


def test_an_unbounded_window_that_was_asked_for_is_not_warned_of(recwarn):
    cep.match("PATTERN SEQ(A a, B b) WITHIN unbounded", stream("a1 b1"))
    assert not recwarn.list


# ---- 3. predicates on Kleene variables ----


def test_a_condition_on_every_element_holds_for_the_first_too():
    check(f"PATTERN SEQ(A+ a[]) {NEXT} {{ a[i].x > 1 }} WITHIN 9", "a1(x=1) a2(x=2)", "a2")


def test_a_condition_that_looks_back_holds_from_the_second_on():
    check(
        f"PATTERN SEQ(A+ a[], B b) {NEXT} {{ a[i].x > a[i-1].x }} WITHIN 9",
        "a1(x=2) a2(x=1) a3(x=3) b1",
        "a1 a3|b1", "a2 a3|b1", "a3|b1",
    )  # fmt: skip


def test_a_condition_on_the_first_element():
    check(
        "PATTERN SEQ(A+ a[], B b) WHERE a[1].x = 1 WITHIN 9",
        "a1(x=1) a2(x=2) b1",
        "a1|b1", "a1 a2|b1",
    )  # fmt: skip


def test_a_condition_on_the_last_element_is_judged_when_the_run_proceeds():
    check(
        f"PATTERN SEQ(A+ a[], B b) {NEXT} {{ a[a.LEN].x = 1 }} WITHIN 9",
        "a1(x=1) b1 a2(x=2) b2",
        "a1|b1",
    )


def test_a_plain_reference_to_a_kleene_variable_is_to_every_element():
    check("PATTERN SEQ(A+ a[]) WHERE a.x = 1 WITHIN 9", "a1(x=1) a2(x=2)", "a1")


def test_aggregates_over_the_elements_so_far():
    check(
        f"PATTERN SEQ(A+ a[], B b) {NEXT} {{ a[i].x > avg(a[..i-1].x) }} WITHIN 9",
        "a1(x=4) a2(x=6) a3(x=5) a4(x=6) b1",
        "a1 a2 a4|b1", "a2|b1", "a3 a4|b1", "a4|b1",
    )  # fmt: skip


def test_aggregates_over_all_elements_and_length():
    check(
        "PATTERN SEQ(A+ a[], B b) WHERE sum(a[].x) = b.x and a.LEN > 1 WITHIN 9",
        "a1(x=1) a2(x=2) a3(x=3) b1(x=3)",
        "a1 a2|b1",
    )


def test_a_condition_between_a_later_event_and_every_element():
    check("PATTERN SEQ(A+ a[], B b) WHERE b.x > a.x WITHIN 9", "a1(x=1) a2(x=5) b1(x=3)", "a1|b1")


def test_missing_values_compare_as_nulls():
    check("PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 9", "a1(x=) b1(x=)")
    check("PATTERN SEQ(A a, B b) WHERE a.x != b.x WITHIN 9", "a1(x=1) b1(x=)")
    check("PATTERN SEQ(A a, B b) WHERE not (a.x = b.x) WITHIN 9", "a1(x=1) b1(x=)")
    check("PATTERN SEQ(A a, B b) WHERE a.x = b.x or b.y = 1 WITHIN 9", "a1(x=) b1(y=1)", "a1|b1")


def test_an_event_without_the_attribute_is_in_no_partition():
    check("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9", "a1(k=) a2(k=1) b1(k=) b2(k=1)", "a2|b2")


# ---- 4. selection strategies ----


def test_strict_takes_the_next_event_or_dies():
    check(f"PATTERN SEQ(A a, B b) {STRICT} WITHIN 9", "a1 b1 a2 c1 b2", "a1|b1")


def test_partition_takes_the_next_event_of_its_partition_or_dies():
    check(
        "PATTERN SEQ(A a, B b) WHERE partition_contiguity { [k] } WITHIN 9",
        "a1(k=1) a2(k=2) c1(k=2) b1(k=1) b2(k=2)",
        "a1|b1",
    )


def test_next_must_take_what_it_can_and_skips_the_rest():
    check(f"PATTERN SEQ(A a, B b) {NEXT} WITHIN 9", "a1 c1 a2 b1 b2", "a1|b1", "a2|b1")


def test_any_may_skip_what_it_can_take():
    check("PATTERN SEQ(A a, B b) WITHIN 9", "a1 c1 b1 b2", "a1|b1", "a1|b2")


def test_the_loop_survives_its_closer():
    check(
        f"PATTERN SEQ(A+ a[], B b) {NEXT} WITHIN 99",
        "a1 a2 b1 a3 b2",
        "a1 a2|b1", "a1 a2 a3|b2", "a2|b1", "a2 a3|b2", "a3|b2",
    )  # fmt: skip


def test_under_any_every_subset_is_a_match():
    check("PATTERN SEQ(A+ a[], B b) WITHIN 99", "a1 a2 b1", "a1|b1", "a2|b1", "a1 a2|b1")


def test_a_kleene_at_the_end_matches_at_every_take():
    check(f"PATTERN SEQ(A a, B+ b[]) {NEXT} WITHIN 99", "a1 b1 c1 b2", "a1|b1", "a1|b1 b2")


def test_a_strict_loop_does_not_survive_its_closer():
    check(f"PATTERN SEQ(A+ a[], B b) {STRICT} WITHIN 99", "a1 a2 b1 b2", "a1 a2|b1", "a2|b1")


def test_an_event_that_can_be_taken_and_close_does_both():
    check(
        f"PATTERN SEQ(A+ a[], A b) {STRICT} {{ b.x = 1 }} WITHIN 99",
        "a1(x=0) a2(x=1) a3(x=1)",
        "a1|a2", "a1 a2|a3", "a2|a3",
    )  # fmt: skip


def test_zero_or_more_includes_the_pattern_without_it():
    check("PATTERN SEQ(A a, B* b[], C c) WITHIN 9", "a1 b1 c1", "a1|b1|c1", "a1||c1")
    assert cep.match("PATTERN SEQ(A a, B* b[]) WITHIN 9", stream("a1"))[0]["b"] == ()


# ---- 5. AND, OR, NOT ----


def test_or_is_the_union_of_its_branches():
    check("PATTERN SEQ(A a, OR(B b, C c)) WITHIN 9", "a1 b1 c1", "a1|b1", "a1|c1")


def test_the_same_bindings_from_two_branches_are_one_match():
    check("PATTERN OR(SEQ(A a, B b), AND(A a, B b)) WITHIN 9", "a1 b1 a2", "a1|b1", "a2|b1")


def test_a_condition_on_another_branch_does_not_apply():
    check(
        "PATTERN SEQ(A a, OR(B b, C c)) WHERE b.x > a.x and c.x < a.x WITHIN 9",
        "a1(x=1) b1(x=2) c1(x=2) c2(x=0)",
        "a1|b1", "a1|c2",
    )  # fmt: skip


def test_and_is_in_any_order():
    check("PATTERN AND(A a, B b) WITHIN 9", "b1 a1 b2", "a1|b1", "a1|b2")


def test_and_inside_seq_keeps_its_place():
    check(
        "PATTERN SEQ(A a, AND(B b, C c), D d) WITHIN 9",
        "b1 a1 c1 b2 d1 c2 d2",
        "a1|b2|c1|d1", "a1|b2|c1|d2", "a1|b2|c2|d2",
    )  # fmt: skip


def test_not_between_two_events():
    check(
        "PATTERN SEQ(A a, ~(B b), C c) WHERE b.x = a.x WITHIN 9",
        "a1(x=1) b1(x=1) a2(x=2) c1",
        "a2|c1",
    )


def test_not_after_a_kleene_starts_at_its_last_element():
    check(
        f"PATTERN SEQ(A+ a[], ~(B b), C c) {NEXT} WITHIN 9",
        "a1 b1 a2 c1 b2 c2",
        "a1 a2|c1", "a2|c1",
    )  # fmt: skip


def test_negation_does_not_steer_the_runs():
    # The positive part is matched first; its match (a1, c1) is then eliminated, not replaced.
    check(f"PATTERN SEQ(A a, ~(B b), C c) {NEXT} WITHIN 9", "a1 b1 c1 c2")


def test_a_leading_not_looks_back_as_far_as_the_window():
    check("PATTERN SEQ(~(B b), A a, C c) WITHIN 5", "b1@0 a1@1 c1@4 a2@6 c2@8", "a2|c2")
    check("PATTERN SEQ(~(B b), A a, C c) WITHIN 5", "b1@0 a1@1 c1@5", "a1|c1")


def test_a_trailing_not_looks_ahead_as_far_as_the_window():
    check("PATTERN SEQ(A a, C c, ~(B b)) WITHIN 5", "a1@0 c1@1 b1@4 a2@6 c2@7 b2@11", "a2|c2")


def test_a_trailing_not_is_emitted_when_its_window_has_passed():
    engine = _engine("PATTERN SEQ(A a, ~(B b)) WITHIN 5", "naive")
    emitted = [[written(m) for m in engine.push(e)] for e in stream("a1@0 c1@4 c2@5 a2@6")]
    assert emitted == [[], [], ["a1"], []]
    assert [written(m) for m in engine.flush()] == ["a2"]


def test_a_trailing_not_with_a_count_window():
    check("PATTERN SEQ(A a, ~(B b)) WITHIN 2 events", "a1 c1 b1 a2 b2", "a1")


def test_an_equivalence_test_binds_the_negated_event_too():
    check(
        "PATTERN SEQ(A a, ~(B b), C c) WHERE [k] WITHIN 9",
        "a1(k=1) a2(k=2) b1(k=1) c1(k=1) c2(k=2)",
        "a2|c2",
    )


def test_a_negated_part_of_and_lies_in_its_own_sequence():
    check("PATTERN AND(SEQ(A a, ~(B b), C c), D d) WITHIN 9", "a1 b1 c1 d1 a2 c2", "a2|c2|d1")


# ---- 6. output ----


def test_a_match_knows_its_times_and_the_event_that_completed_it():
    match = cep.match("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1@2 b1@5"))[0]
    assert (match.first, match.last, match.completed.id) == (2, 5, "b1")
    assert match.ids == {"a": "a1", "b": "b1"}
    assert match["a"].id == "a1"


def test_events_are_reused():
    check("PATTERN SEQ(A a, B b) WITHIN 9", "a1 a2 b1", "a1|b1", "a2|b1")


def test_non_overlap_starts_after_the_previous_match_completes():
    check(
        "PATTERN SEQ(A a, B b) WITHIN 9 OUTPUT non_overlap", "a1 a2 b1 b2 a3 b3", "a1|b1", "a3|b3"
    )


def test_non_overlap_is_per_partition():
    check(
        "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9 OUTPUT non_overlap",
        "a1(k=1) a2(k=2) b1(k=1) b2(k=2) b3(k=1)",
        "a1|b1", "a2|b2",
    )  # fmt: skip


def test_non_overlap_waits_for_an_earlier_match_to_be_decided():
    check(
        "PATTERN SEQ(A a, C c, ~(B b)) WHERE a.x = c.x WITHIN 5 OUTPUT non_overlap",
        "a1@0(x=2) a2@2(x=1) c1@3(x=1) c2@4(x=2) d1@5 d2@7",
        "a2|c1",
    )


@pytest.mark.parametrize(
    ("limits", "pattern"),
    [
        ({"matches": 3}, "PATTERN SEQ(A a, A b) WITHIN 99"),
        ({"runs": 3}, "PATTERN SEQ(A a, A b, B c) WITHIN 99"),
    ],
)
def test_a_budget_stops_and_keeps_what_was_found(limits, pattern):
    events = stream("a1 a2 a3 a4 a5")
    with pytest.raises(cep.BudgetError) as stopped:
        cep.match(pattern, events, engine="eager", budget=limits)
    (limit,) = limits
    assert stopped.value.limit == limit
    assert len(stopped.value.result) == limits.get("matches", 0)
    assert "WITHIN" in str(stopped.value)
    trace = cep.trace(pattern, events, engine="eager", budget=limits)
    assert "stopped at" in trace.note


def _engine(pattern, name):
    from cepviz.engines.registry import ENGINES

    return ENGINES[name](cep.parse(pattern))
