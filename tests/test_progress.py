"""The remaining time that is promised, against a plan whose end is known."""

import heapq
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.attempt import Ended
from runner.executors.local import Event
from runner.forecast import Forecast
from runner.progress import PlanProgress, spoken
from runner.settings import Train
from runner.workload import Workload, scoring_passes


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def played(runs, slots, *, resumed=None, until=None):
    """Play a plan of (kind, work, seconds) runs; return the forecast and the true time left.

    Every run reports ten times. ``resumed`` maps a run's index to the share that was done before.
    """
    clock, resumed = Clock(), resumed or {}
    forecast = Forecast(
        [kind for kind, _, _ in runs], [work for _, work, _ in runs], slots, clock=clock
    )
    free_at, events = [0.0] * slots, []
    for index, (_, work, seconds) in enumerate(runs):
        begin = heapq.heappop(free_at)
        done = resumed.get(index, 0.0)
        end = begin + seconds * (1 - done)
        heapq.heappush(free_at, end)
        events.append((begin, index, "begin", 0))
        for part in range(11):
            share = done + (1 - done) * part / 10
            events.append((begin + (end - begin) * part / 10, index, "progress", share * work))
        events.append((end, index, "end", 0))
    finish = max(free_at)
    for moment, index, what, done in sorted(events, key=lambda e: (e[0], e[1])):
        if until is not None and moment > until:
            break
        clock.now = moment
        if what == "begin":
            forecast.begin(index)
        elif what == "progress":
            forecast.progress(index, done=int(done), total=runs[index][1])
        else:
            forecast.end(index)
    if until is not None:
        clock.now = until
    return forecast, finish - clock.now


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("until", [5.0, 13.0, 30.0])
def test_equal_runs_are_foretold_exactly(slots, until):
    forecast, left = played([("a", 1000, 10.0)] * 7, slots, until=until)
    assert forecast.seconds_left() == pytest.approx(max(0.0, left), abs=1e-6)


def test_arms_of_different_cost_have_their_own_pace():
    runs = [("cheap", 1000, 10.0), ("dear", 1000, 30.0)] * 4
    forecast, left = played(runs, 2, until=31.0)
    assert forecast.seconds_left() == pytest.approx(left, abs=1e-6)


def test_the_last_run_counts_alone():
    forecast, left = played([("a", 1000, 10.0)] * 3, 2, until=10.0)
    assert left == 10.0
    assert forecast.seconds_left() == pytest.approx(10.0)


def test_of_a_resumed_run_only_the_rest_counts():
    runs = [("a", 1000, 10.0)] * 4
    forecast, left = played(runs, 1, resumed={0: 0.9}, until=3.0)
    assert forecast.seconds_left() == pytest.approx(left, abs=0.2)
    assert forecast.fraction() == pytest.approx((1000 + 200) / 4000, abs=0.03)


def test_an_arm_that_has_not_run_yet_is_given_the_pace_of_the_others():
    runs = [("a", 1000, 10.0), ("a", 1000, 10.0), ("b", 1000, 10.0)]
    forecast, left = played(runs, 1, until=12.0)
    assert forecast.seconds_left() == pytest.approx(left, abs=1e-6)


def test_nothing_is_promised_before_a_pace_is_known():
    forecast = Forecast(["a"], [10], 1)
    assert forecast.seconds_left() is None
    forecast.begin(0)
    forecast.progress(0, done=0, total=100)
    assert forecast.seconds_left() is None


def test_time_that_passes_without_a_report_shortens_the_promise():
    clock = Clock()
    forecast = Forecast(["a"], [10], 1, clock=clock)
    forecast.begin(0)
    forecast.progress(0, done=0, total=100)
    clock.now = 10.0
    forecast.progress(0, done=10, total=100)
    assert forecast.seconds_left() == pytest.approx(90.0)
    clock.now = 25.0
    assert forecast.seconds_left() == pytest.approx(75.0)
    clock.now = 500.0
    assert forecast.seconds_left() == 0.0


def test_ten_thousand_runs_are_foretold_at_once():
    import time

    forecast = Forecast(["a", "b"] * 5000, [10] * 10_000, 8)
    forecast.begin(0)
    forecast.progress(0, done=0, total=100)
    forecast.progress(0, done=1, total=100)
    begun = time.perf_counter()
    assert forecast.seconds_left() > 0
    assert 0 < forecast.fraction() < 1e-4
    assert time.perf_counter() - begun < 0.5


def schedule(**settings):
    return Train(**{"seq_len": 8, "tokens": 1600, "batch": 2, "lr": 0.1, **settings})


@pytest.mark.parametrize("n_tokens", [2, 8, 9, 10, 17, 100, 101, 1000])
@pytest.mark.parametrize("stride", [None, 1, 3, 8])
def test_the_work_of_a_score_is_the_tokens_that_go_through_the_model(n_tokens, stride):
    from runner.evaluate import windows

    expected = sum(w.stop - w.start for w in windows(n_tokens, 8, stride))
    assert scoring_passes(n_tokens, schedule(eval_stride=stride)) == expected


@pytest.mark.parametrize("every", [None, 1, 7, 50, 99, 100, 101])
def test_a_resumed_run_has_done_what_it_did_before(every):
    sizes = {"valid": 81, "test": 41}
    train = schedule(evaluate_every=every)
    whole = Workload(train, sizes, step=0)
    for step in range(train.steps + 1):
        resumed = Workload(train, sizes, step)
        assert (resumed.done, resumed.total) == (whole.done, whole.total)
        if step and every and step % every == 0:
            whole.add_passes(scoring_passes(81, train))
        if step < train.steps:
            whole.add_step()


def planned(arm, seed):
    train = SimpleNamespace(tokens=100)
    return SimpleNamespace(
        arm=arm, seed=seed, cell={}, run_id=f"id{seed}", settings=SimpleNamespace(train=train)
    )


def test_without_a_terminal_there_is_one_line_for_each_run_that_ends(capsys):
    folders = {Path("a"): planned("plain", 1), Path("b"): planned("coupled", 2)}
    with PlanProgress(folders, 1) as progress:
        progress(Event(Path("a")))
        progress(Event(Path("a"), 0, 100))
        progress(Event(Path("a"), 50, 100))
        progress(Event(Path("a"), ended=Ended("failed", "E: why")))
        progress(Event(Path("b")))
        progress(Event(Path("b"), ended=Ended("done")))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "[1/2] plain seed 1 failed: E: why (id1); remaining time not known yet",
        "[2/2] coupled seed 2 done (id2); 0 s in all",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"),
     (86_399, "1 d 0 h"), (90_000, "1 d 1 h")],
)  # fmt: skip
def test_durations_are_spoken_in_two_units(seconds, said):
    assert spoken(seconds) == said
