"""Planning: the numbers of the power functions, from a command line or from a pilot's folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import analysis
from analysis.pilot import upper_sd
from analysis.planning import from_numbers, from_pilot
from analysis.power import exact_power
from analysis.records import write_atomically

CQK = Path(sys.executable).with_name("cqk")
RUNS = "arm,seed,split,metric,value\n" + "".join(
    f"{arm},{seed},valid,loss,{value}\n"
    for arm, values in {"plain": (2.0, 2.02, 2.05), "coupled": (1.99, 1.95, 1.97)}.items()
    for seed, value in enumerate(values, start=1)
)


@pytest.fixture
def pilot(tmp_path, small_study_toml):
    write_atomically(tmp_path / "study.toml", small_study_toml)
    write_atomically(tmp_path / "runs.csv", RUNS)
    return tmp_path


def test_rows_are_what_the_power_functions_say_at_the_familys_share_of_alpha():
    rows = from_numbers(0.01, 0.02, delta=0.03, family_size=4, alternative="two-sided")
    needed = analysis.seeds_needed(0.03, 0.01, 0.02, 0.8, 0.05 / 4, "two-sided")
    assert needed in rows["seeds"].tolist()
    for row in rows.to_dict("records"):
        n = row["seeds"]
        common = {"alpha": 0.05 / 4, "alternative": "two-sided"}
        expected = analysis.minimum_detectable(0.01, n, 0.02, target_power=0.8, **common)
        assert row["minimum_detectable"] == expected
        assert row["power"] == analysis.power(0.03, 0.01, n, 0.02, **common)
        assert (row["power"] >= 0.8) == (n >= needed)


def test_more_seeds_detect_less_and_a_larger_family_needs_more():
    found = from_numbers(0.01)["minimum_detectable"]
    assert found.is_monotonic_decreasing
    assert (from_numbers(0.01, family_size=8)["minimum_detectable"] > found).all()


def test_a_pilot_gives_its_deviations_and_never_uses_its_own_difference(pilot):
    rows, warnings = from_pilot(pilot, delta=0.05)
    (row,) = rows.to_dict("records")
    assert row["sd_treatment"] == pytest.approx(0.02)
    assert row["seeds_needed"] == analysis.seeds_needed(
        0.05, row["sd_treatment"], row["sd_baseline"]
    )
    assert row["seeds_cautious"] > row["seeds_needed"]
    assert any("arms of 3 runs" in warning for warning in warnings)
    moved = RUNS.replace("coupled,1,valid,loss,1.99", "coupled,1,valid,loss,1.49")
    moved = moved.replace("loss,1.95", "loss,1.45").replace("loss,1.97", "loss,1.47")
    write_atomically(pilot / "runs.csv", moved)
    again, _ = from_pilot(pilot, delta=0.05)
    assert again["seeds_needed"].tolist() == rows["seeds_needed"].tolist()


def test_a_pilot_tells_what_the_planned_study_detects_by_the_plans_own_family(pilot):
    rows, warnings = from_pilot(pilot, n=6, alpha=0.1, family_size=8, alternative="two-sided")
    (row,) = rows.to_dict("records")
    spreads = row["sd_treatment"], row["sd_baseline"]
    upper = [upper_sd(sd, 3) for sd in spreads]
    for sds, column in ((spreads, "minimum_detectable"), (upper, "detectable_cautious")):
        expected = analysis.minimum_detectable(sds[0], 6, sds[1], 6, 0.8, 0.1 / 8, "two-sided")
        assert row[column] == expected
    assert row["seeds"] == 6
    assert not any("--delta" in warning for warning in warnings)
    own = from_pilot(pilot, n=6)[0]["minimum_detectable"].item()
    assert own == analysis.minimum_detectable(spreads[0], 6, spreads[1], 6)


def test_the_command_hands_every_option_to_the_pilots_plan(pilot):
    options = ["--seeds", "6", "--alpha", "0.1", "--family-size", "8", "--alternative", "two-sided"]
    command = [CQK, "power", "--pilot", pilot, *options, "--json"]
    document = json.loads(subprocess.run(command, capture_output=True).stdout)
    rows, warnings = from_pilot(pilot, n=6, alpha=0.1, family_size=8, alternative="two-sided")
    assert document == {"rows": rows.to_dict("records"), "notes": warnings}


def test_a_pilot_of_one_run_shows_no_spread(pilot):
    kept = [line for line in RUNS.splitlines() if ",2," not in line and ",3," not in line]
    write_atomically(pilot / "runs.csv", "\n".join(kept) + "\n")
    with pytest.raises(ValueError, match="fewer than two finished runs"):
        from_pilot(pilot)


def test_the_command_prints_rows_or_one_json_document():
    command = [CQK, "power", "--sd", "0.01", "--seeds", "3", "--delta", "0.03"]
    plain = subprocess.run(command, capture_output=True, text=True)
    words = plain.stdout.split()
    assert words[:4] == ["seeds", "minimum_detectable", "power", "exact_power"]
    sizes = (0.03, 0.01, 3)
    figures = analysis.minimum_detectable(0.01, 3), analysis.power(*sizes), exact_power(*sizes)
    assert words[4:] == ["3", *(f"{figure:.4g}" for figure in figures)]
    document = json.loads(subprocess.run([*command, "--json"], capture_output=True).stdout)
    assert document["rows"][0]["power"] == analysis.power(0.03, 0.01, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--sd", "0.1", "--pilot", "x"],
        ["--sd", "0"],
        ["--pilot", "absent"],
        ["--pilot", ".", "--sd-baseline", "0.1"],
    ],
)
def test_unusable_numbers_end_in_one_sentence(arguments, tmp_path):
    ended = subprocess.run([CQK, "power", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
