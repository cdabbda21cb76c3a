"""Which logged value counts: the rule against the history that stands in the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.importers import import_runs
from analysis.importers.request import parse_request
from analysis.importers.steps import Best, Kept, StepError, StepRule, parse_step

LONG = "arm,seed,step,metric,value\nbase,0,100,loss,1.93\nbase,1,100,loss,\nlin,0,100,loss,NaN\n"


def values(imported, metric=None):
    """(arm, seed) -> value and status, of one metric."""
    table = imported.table
    rows = table[table["metric"] == (metric or table["metric"].iloc[0])]
    return {(r.arm, r.seed): (r.value, r.status) for r in rows.itertuples()}


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_the_forms_of_a_step():
    assert parse_step("last") == StepRule("last")
    assert parse_step(" 400 ").step == 400
    assert parse_step("max:acc/valid") == StepRule("max", metric="acc/valid")
    for text in ("", "first", "-1", "min:", "1e3", "best:loss"):
        with pytest.raises(ValueError, match="is none of: last; a step"):
            parse_step(text)


@st.composite
def histories(draw):
    """A log with resumed parts, and the history that stands in the end."""
    log, stands = [], {}
    step = 0
    for value in draw(st.lists(st.integers(-5, 5), min_size=1, max_size=30)):
        log.append((float(step), float(value)))
        stands = {s: v for s, v in stands.items() if s < step} | {float(step): float(value)}
        step = draw(st.integers(0, step)) if draw(st.integers(0, 4)) == 0 else step + 1
    return log, stands


@given(histories())
def test_the_best_step_of_a_resumed_log_is_that_of_what_stands_in_the_end(history):
    log, stands = history
    for sign, choose in ((1, min), (-1, max)):
        best = Best(sign, in_order=True)
        for step, value in log:
            best.add(step, value)
        goal = choose(stands.values())
        assert best.step == min(step for step, value in stands.items() if value == goal)


@given(histories())
def test_the_last_value_of_a_log_is_the_one_written_last(history):
    log, stands = history
    kept = Kept(StepRule("last"), in_order=True)
    for step, value in log:
        kept.add(step, value)
    assert (kept.step, kept.value) == log[-1] == max(stands.items())


@given(st.dictionaries(st.integers(0, 50), st.integers(-9, 9), min_size=1), st.randoms())
def test_the_order_of_a_tables_rows_does_not_matter(series, rng):
    points = [(float(step), float(value)) for step, value in series.items()]
    rng.shuffle(points)
    kept, best = Kept(StepRule("last"), in_order=False), Best(1, in_order=False)
    for step, value in points:
        kept.add(step, value)
        best.add(step, value)
    assert (kept.step, kept.value) == max(points)
    assert best.step == min(points, key=lambda p: (p[1], p[0]))[0]


def test_values_without_a_step_are_never_chosen_among(tmp_path):
    kept = Kept(None, in_order=True)
    kept.add(None, 1.0)
    with pytest.raises(StepError, match="declare which counts"):
        kept.add(None, 2.0)
    with pytest.raises(StepError, match="values without a step"):
        Best(1, in_order=True).add(None, 1.0)


def test_a_step_that_no_run_reached_is_an_error_and_one_that_some_missed_a_failure(tmp_path):
    path = write(tmp_path / "runs.csv", LONG.replace("base,1,100", "base,1,50"))
    with pytest.raises(ValueError, match="--step 7: no run has a value of 'loss' there"):
        import_runs("csv", [path], parse_request(step="7"))
    assert values(import_runs("csv", [path], parse_request(step="100")))["base", 1][1] == "failed"


def test_runs_that_end_at_different_steps_are_named(tmp_path):
    path = write(tmp_path / "runs.csv", LONG + "lin,1,40,loss,1.5\n")
    notices = import_runs("csv", [path], parse_request(step="last")).notices
    assert any("the last loss is at step 100, but earlier in 'lin 1'" in n for n in notices)
