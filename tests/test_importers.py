"""Other tools' files, read as the tools wrote them, down to the verdict at the command line."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.importers import import_runs
from analysis.importers.recognise import recognise
from analysis.importers.request import parse_request
from analysis.table import load_runs

IMPORTS = Path(__file__).parent / "reference" / "imports"
CQK = Path(sys.executable).with_name("cqk")
BY_NAME = {"arm": r"(?:^|/)([a-z]+)-s\d+", "seed": r"-s(\d+)"}


def read(format_, *names, **options):
    return import_runs(format_, [IMPORTS / n for n in names], parse_request(**options))


def values(imported, metric=None):
    """(arm, seed) -> value and status, of one metric."""
    table = imported.table
    rows = table[table["metric"] == (metric or table["metric"].iloc[0])]
    return {(r.arm, r.seed): (r.value, r.status) for r in rows.itertuples()}


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_a_chart_export_of_weights_and_biases():
    found = read("wandb", "wandb/plain.csv", "wandb/coupled.csv", step="last", **BY_NAME)
    wanted = {}
    for arm in ("plain", "coupled"):
        with (IMPORTS / "wandb" / f"{arm}.csv").open(newline="") as file:
            last = list(csv.DictReader(file))[-1]
        wanted |= {(arm, s): (float(last[f"{arm}-s{s} - valid/loss"]), "done") for s in range(5)}
    assert values(found) == wanted
    assert set(found.table["metric"]) == {"valid/loss"}
    assert set(found.table["step"]) == {8.0}
    assert all("5 runs read" in notice for notice in found.notices)


def test_a_runs_table_keeps_crashed_runs_as_failed_and_leaves_out_what_still_runs():
    found = read(
        "wandb", "wandb/runs_table.csv", columns=["arm=attn", "seed=optim.seed"],
        metrics=["loss=valid/loss"],
    )  # fmt: skip
    statuses = {key: status for key, (_, status) in values(found, "loss").items()}
    assert statuses == {
        ("plain", 0): "done", ("plain", 1): "done", ("plain", 2): "failed",
        ("coupled", 0): "diverged", ("coupled", 1): "done",
    }  # fmt: skip
    assert found.notices[0].startswith("1 of 6 runs did not finish and count as failed")
    assert "1 of 6 runs are not over yet" in found.notices[1]
    with pytest.raises(ValueError, match=r"name the results with --metric.*'valid/loss'"):
        read("wandb", "wandb/runs_table.csv", columns=["arm=attn", "seed=optim.seed"])


def test_history_entries_take_back_what_a_resumed_run_did_again():
    options = {"columns": ["arm=config.attn", "seed=config.optim.seed"]}
    last = read("wandb", "wandb/history.jsonl", step="last", **options)
    assert values(last)["coupled", 1][1] == "diverged"
    assert values(last)["plain", 1] == (2.1064453125, "done")
    best = read("wandb", "wandb/history.jsonl", step="min:valid.loss", **options)
    assert values(best)["coupled", 1][1] == "done"
    assert set(best.table["step"]) == {6.0, 8.0}


def test_the_trainers_state_is_the_newest_and_a_stopped_run_failed():
    folders = [f"hf_trainer/{arm}-s{seed}" for arm in ("plain", "coupled") for seed in (0, 1)]
    found = read("hf-trainer", *folders, metrics=["loss=eval_loss"], step="last", **BY_NAME)
    state = json.loads((IMPORTS / folders[0] / "trainer_state.json").read_text())
    last = [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry][-1]
    assert values(found)["plain", 0] == (last, "done")
    assert values(found)["coupled", 1][1] == "failed"
    older = read(
        "hf-trainer", *(f"{folders[0]}/{p}trainer_state.json" for p in ("", "checkpoint-8/")),
        step="4", metrics=["eval_loss"], **BY_NAME,
    )  # fmt: skip
    assert len(older.table) == 1
    assert "the newest was read" in older.notices[0]
    # A step that was declared and reached is a result, whatever became of the run after it.
    reached = read("hf-trainer", folders[3], metrics=["eval_loss"], step="4", **BY_NAME)
    assert values(reached)["coupled", 1][1] == "done"


def test_the_trainers_summary_and_speeds_are_no_metrics():
    found = read("hf-trainer", "hf_trainer/plain-s0", step="8", **BY_NAME)
    assert set(found.table["metric"]) == {"loss", "eval_loss", "grad_norm", "learning_rate"}


def test_the_harness_gives_one_value_a_task_and_says_what_must_not_be_counted_twice():
    found = read("lm-eval", "lm_eval", **BY_NAME)
    for path in (IMPORTS / "lm_eval").rglob("results_*.json"):
        document = json.loads(path.read_text())
        arm, seed = re.fullmatch(r"runs/([a-z]+)-s(\d)", document["model_name"]).groups()
        for task, metric in (("tinyq", "acc"), ("tinyq", "acc_norm"), ("tiny", "acc")):
            wanted = document["results"][task][f"{metric},none"]
            assert values(found, f"{task}/{metric}")[arm, int(seed)] == (wanted, "done")
    assert set(found.table["metric"]) == {"tinyq/acc", "tinyq/acc_norm", "tiny/acc"}
    assert any("'tiny' is the mean of its tasks" in notice for notice in found.notices)
    with pytest.raises(ValueError, match="is a seed of the evaluation"):
        read("lm-eval", "lm_eval", arm=BY_NAME["arm"], columns=["seed=config.random_seed"])


def test_the_harness_before_filters_had_names(tmp_path):
    path = tmp_path / "base-s3" / "results.json"
    path.parent.mkdir()
    tasks = {"hellaswag": {"acc": 0.5, "acc_stderr": 0.01, "acc_norm": 0.625}}
    write(path, json.dumps({"results": tasks, "config": {}}))
    found = import_runs("lm-eval", [path], parse_request(**BY_NAME))
    assert values(found, "hellaswag/acc") == {("base", 3): (0.5, "done")}
    assert values(found, "hellaswag/acc_norm") == {("base", 3): (0.625, "done")}
    assert len(found.table) == 2


def test_settings_of_the_harness_that_differ_are_named(tmp_path):
    shutil.copytree(IMPORTS / "lm_eval", tmp_path / "lm_eval")
    path = next((tmp_path / "lm_eval").rglob("results_*.json"))
    document = json.loads(path.read_text())
    document["n-shot"]["tinyq"] = 5
    document["config"]["limit"] = 4
    path.write_text(json.dumps(document))
    notices = import_runs("lm-eval", [tmp_path / "lm_eval"], parse_request(**BY_NAME)).notices
    assert any(n.startswith("n-shot of tinyq differs between runs") for n in notices)
    assert any(n.startswith("limit differs between runs") for n in notices)


def test_a_resumed_event_file_takes_over_from_its_first_step_on():
    found = read("tensorboard", "tensorboard/plain-s1", "tensorboard/plain-s0", step="last",
                 **BY_NAME)  # fmt: skip
    assert values(found)["plain", 1] == (2.1064453125, "done")
    early = read("tensorboard", "tensorboard/plain-s1", step="2", **BY_NAME)
    assert values(early)["plain", 1] == (3.0556640625, "done")
    best = read("tensorboard", "tensorboard/plain-s1", step="max:valid/loss", **BY_NAME)
    assert best.table["step"].tolist() == [0.0]


def test_lightnings_sparse_rows_and_the_settings_beside_them():
    folders = [f"lightning/{a}-s{s}/version_0" for a in ("plain", "coupled") for s in (0, 1)]
    found = read("lightning", *folders, columns=["arm=attn"], metrics=["val_loss"], step="last")
    with (IMPORTS / folders[0] / "metrics.csv").open(newline="") as file:
        last = [row["val_loss"] for row in csv.DictReader(file) if row["val_loss"]][-1]
    assert values(found)["plain", 0] == (float(last), "done")
    assert len(found.table) == 4
    with pytest.raises(ValueError, match="the value of 'net' is no plain word or number"):
        read("lightning", folders[0], columns=["arm=net"], step="last")


@pytest.mark.parametrize("store", ["mlflow.db", "mlruns"])
def test_mlflow_leaves_out_what_was_deleted_and_names_what_is_not_done(store):
    options = {"columns": ["arm=params.attn", "seed=params.seed"], "step": "last"}
    found = read("mlflow", f"mlflow/{store}", **options)
    loss, odd = values(found, "valid/loss"), values(found, "odd")
    assert loss["plain", 0] == (2.1015625, "done")
    assert loss["coupled", 0] == (1.8525390625, "done")
    assert loss["plain", 2][1] == "failed"
    assert odd["plain", 0][1] == "diverged"
    assert ("coupled", 2) not in loss
    assert ("coupled", 3) not in loss
    said = " ".join(found.notices)
    assert "deleted" in said
    assert "'plain-s2 (failed)'" in said
    assert "'coupled-s2 (running)'" in said
    if store == "mlflow.db":  # infinity is the largest double there
        assert odd["plain", 1][1] == "diverged"


LONG = "arm,seed,step,metric,value\nbase,0,100,loss,1.93\nbase,1,100,loss,\nlin,0,100,loss,NaN\n"


def chart(tmp_path, *runs, metric="loss", name="chart.csv"):
    header = ",".join(['"Step"', *(f'"{run} - {metric}"' for run in runs)])
    cells = ",".join(f'"{1 + i / 8}"' for i in range(len(runs)))
    return write(tmp_path / name, f'{header}\n"5",{cells}\n')


def some(folder, pattern, *which):
    found = sorted(p.relative_to(IMPORTS).as_posix() for p in (IMPORTS / folder).rglob(pattern))
    return [found[i] for i in which]


CORPUS = {
    "wandb": ["wandb/plain.csv", "wandb/runs_table.csv", "wandb/history.jsonl"],
    "hf-trainer": ["hf_trainer/plain-s0/trainer_state.json"],
    "lm-eval": some("lm_eval", "*.json", 0),
    "tensorboard": some("tensorboard", "*tfevents*", 2, 4, 5, 6),
    "lightning": ["lightning/plain-s0/version_0/metrics.csv"],
    "mlflow": ["mlflow/mlflow.db"],
    "csv": ["long.csv"],
}  # fmt: skip


def cqk(*arguments, cwd):
    return subprocess.run(
        [CQK, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd
    )


FAMILY = """
[study]
name = "borrowed"
[seeds]
values = [0, 1, 2, 3, 4]
[family]
[[family.comparisons]]
name = "coupling"
treatment = "coupled"
baseline = "plain"
"""


def test_two_chart_exports_become_a_verdict_in_two_commands(tmp_path):
    for arm in ("plain", "coupled"):
        shutil.copy(IMPORTS / "wandb" / f"{arm}.csv", tmp_path)
    write(tmp_path / "family.toml", FAMILY)
    imported = cqk(
        "import", "wandb", "plain.csv", "coupled.csv", "--arm", r"(.+)-s\d", "--seed", r"-s(\d)",
        "--metric", "loss=valid/loss", "--step", "last", cwd=tmp_path,
    )  # fmt: skip
    assert (imported.returncode, imported.stdout) == (
        0, "runs.csv: 10 runs of 2 arms; 10 values: 10 done\n",
    )  # fmt: skip
    judged = cqk("analyze", "runs.csv", "--family", "family.toml", "--no-figures", cwd=tmp_path)
    assert judged.returncode == 0, judged.stderr
    assert re.search(r"coupling +supported", judged.stdout)


def test_what_was_imported_is_read_back_as_it_was(tmp_path):
    out = tmp_path / "runs.csv"
    found = read("mlflow", "mlflow/mlflow.db", step="last", **BY_NAME)
    out.write_text(found.table.to_csv(index=False))
    again = load_runs(out)
    for column in ("arm", "seed", "metric", "value", "status"):
        assert again[column].equals(found.table[column]), column


def test_import_prints_one_json_document_and_notices_apart(tmp_path):
    ended = cqk(
        "import", "mlflow", IMPORTS / "mlflow" / "mlflow.db", "--step", "last", "--json",
        "--map", "arm=params.attn", "--map", "seed=params.seed", cwd=tmp_path,
    )  # fmt: skip
    document = json.loads(ended.stdout)
    assert {row["status"] for row in document["runs"]} == {"done", "diverged", "failed"}
    assert all(row["value"] is None for row in document["runs"] if row["status"] != "done")
    assert ended.stderr.splitlines() == [f"note: {notice}" for notice in document["notices"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["import", "wnadb", "x.csv"], "there is no format 'wnadb'; did you mean \"wandb\"?"),
        (["import", "csv", "x.csv"], "x.csv: does not exist"),
        (["import", "csv", "runs.csv", "--out", "./runs.csv"], "is one of the files to read"),
        (["analyze", "runs.csv", "--family", "family.toml"], "cqk import csv runs.csv --step last"),
    ],
)
def test_a_users_error_is_a_sentence_and_exit_code_2(tmp_path, arguments, said):
    write(tmp_path / "runs.csv", LONG + "base,0,200,loss,1.5\n")
    write(tmp_path / "family.toml", FAMILY)
    ended = cqk(*arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_analyze_reads_other_tools_files_where_they_name_arm_and_seed(tmp_path):
    path = write(tmp_path / "seeds.csv", "arm,seed0,seed1\nplain,2.5,2.25\ncoupled,2,1.5\n")
    table = load_runs(path, "loss")
    assert table[["arm", "seed", "value"]].values.tolist()[0] == ["plain", 0, 2.5]
    with pytest.raises(ValueError, match=r"start with: cqk import wandb .*chart\.csv"):
        load_runs(chart(tmp_path, "a-s0"), "loss")


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("wandb/plain.csv", "wandb"), ("wandb/runs_table.csv", "wandb"),
        ("wandb/history.jsonl", "wandb"), ("mlflow/mlflow.db", "mlflow"),
        ("hf_trainer/plain-s0/trainer_state.json", "hf-trainer"),
        (CORPUS["lm-eval"][0], "lm-eval"), (CORPUS["tensorboard"][0], "tensorboard"),
        ("lightning/plain-s0/version_0/metrics.csv", "lightning"),
        ("tensorboard/expected.csv", None),
    ],
)  # fmt: skip
def test_a_format_is_told_from_name_and_first_bytes(name, format_):
    assert recognise(IMPORTS / name) == format_
