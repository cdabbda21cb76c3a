"""Writes the small files of this folder with the tools whose formats are imported.

Each tool needs an environment of its own beside torch: ``python write_imports.py FORMAT OUT``.
The README here lists the versions that wrote the files at hand.
"""

import math
import random
import shutil
import sqlite3
import sys
from pathlib import Path

ARMS, SEEDS = ("plain", "coupled"), (0, 1)
STEPS = 8


def loss(arm, seed, step):
    """A loss curve of its own for every run; in binary fractions, so float32 keeps it exactly."""
    noise = random.Random(f"{arm} {seed} {step}").randrange(64) / 1024
    return 2.0 + 2.0 ** -(step // 2) + noise - (0.25 if arm == "coupled" else 0.0)


def hf_trainer(out):
    """Train a line by the Trainer; the last run is stopped after its first checkpoint."""
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x, labels=None):
            return {"loss": ((self.layer(x)[:, 0] - labels) ** 2).mean(), "logits": self.layer(x)}

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 6:
                raise KeyboardInterrupt

    for arm in ARMS:
        for seed in SEEDS:
            torch.manual_seed(seed)
            rows = [{"x": torch.randn(3), "labels": torch.randn(())} for _ in range(32)]
            folder = out / f"{arm}-s{seed}"
            settings = TrainingArguments(
                output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=4,
                logging_steps=2, eval_strategy="steps", eval_steps=4, save_steps=4, seed=seed,
                learning_rate=0.1, report_to=[], use_cpu=True, disable_tqdm=True,
                save_total_limit=1,
            )  # fmt: skip
            crash = [Stop()] if (arm, seed) == ("coupled", 1) else []
            trainer = Trainer(Line(), settings, train_dataset=rows, eval_dataset=rows[:8],
                              callbacks=crash)  # fmt: skip
            try:
                trainer.train()
                trainer.save_state()
            except KeyboardInterrupt:
                pass
            keep_only(folder, "trainer_state.json")


def keep_only(folder, name):
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path.name != name:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def lm_eval(out):
    """Evaluate a model that answers at random on a task of eight questions."""
    import json

    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Guess(LM):
        def __init__(self, seed):
            super().__init__()
            self.random = random.Random(seed)

        def loglikelihood(self, requests, **_):
            return [(-self.random.randrange(1, 64) / 8, False) for _ in requests]

        def loglikelihood_rolling(self, requests, **_):
            raise NotImplementedError

        def generate_until(self, requests, **_):
            raise NotImplementedError

    scratch = out.parent / "scratch"
    scratch.mkdir(parents=True)
    docs = [
        {"question": f"{i} + 1 =", "choices": [str(i), str(i + 1)], "gold": 1} for i in range(8)
    ]
    (scratch / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)) + "\n")
    (scratch / "tinyq.yaml").write_text(
        "task: tinyq\ndataset_path: json\n"
        f"dataset_kwargs:\n  data_files:\n    test: {scratch / 'docs.jsonl'}\n"
        "test_split: test\noutput_type: multiple_choice\n"
        'doc_to_text: "{{question}}"\ndoc_to_choice: "{{choices}}"\ndoc_to_target: "{{gold}}"\n'
        "metric_list:\n  - metric: acc\n  - metric: acc_norm\nmetadata:\n  version: 1.0\n"
    )
    (scratch / "tiny.yaml").write_text(
        "group: tiny\ntask: [tinyq]\naggregate_metric_list:\n  - metric: acc\n"
        "metadata:\n  version: 1.0\n"
    )
    tasks = TaskManager(include_path=str(scratch), include_defaults=False)
    for arm in ARMS:
        for seed in SEEDS:
            name = f"runs/{arm}-s{seed}"
            found = simple_evaluate(
                Guess(f"{arm} {seed}"), tasks=["tiny"], task_manager=tasks, random_seed=5,
                bootstrap_iters=0,
            )  # fmt: skip
            found["config"]["model"], found["config"]["model_args"] = "hf", {"pretrained": name}
            tracker = EvaluationTracker(output_path=str(out))
            tracker.general_config_tracker.log_experiment_args(
                model_source="hf", model_args=f"pretrained={name}", system_instruction=None,
                chat_template=None, fewshot_as_multiturn=False,
            )  # fmt: skip
            tracker.save_results_aggregated(results=found, samples=None)
    for path in out.rglob("results_*.json"):
        text = path.read_text().replace(str(scratch), "tasks")
        document = json.loads(text)
        for machine in ("pretty_env_info", "git_hash", "transformers_version"):
            document.pop(machine, None)
        path.write_text(json.dumps(document, indent=1))
    shutil.rmtree(scratch)


def tensorboard(out):
    """Log by torch's writer; plain-s1 is resumed from step 4 by a second file."""
    import torch
    from torch.utils.tensorboard import SummaryWriter

    for arm in ARMS:
        for seed in SEEDS:
            resumed = (arm, seed) == ("plain", 1)
            for start, worse in ((0, 0.5), (4, 0.0)) if resumed else ((0, 0.0),):
                with SummaryWriter(str(out / f"{arm}-s{seed}"), flush_secs=1) as writer:
                    writer.add_text("note", f"{arm} from step {start}")
                    for step in range(start, STEPS + 1, 2):
                        writer.add_scalar("valid/loss", loss(arm, seed, step) + worse, step)
                    writer.add_histogram("weights", torch.arange(8.0), start)
    with SummaryWriter(str(out / "doubles")) as writer:
        writer.add_scalar("third", 1 / 3, 2**40, new_style=True)
        writer.add_scalar("third", math.nan, 2**40 + 1, double_precision=True)
        writer.add_scalar("third", math.inf, 2**40 + 2)
        writer.add_scalars("both", {"valid": 0.5, "test": 0.25}, 3)
        writer.add_hparams({"lr": 0.1}, {"hp": 0.5})
    rename_hosts(out)
    write_expected(out)


def rename_hosts(out):
    """Replace host and process in the names of files; time and order stay."""
    for number, path in enumerate(sorted(out.rglob("*tfevents*"))):
        time = path.name.split(".")[3]
        path.rename(path.with_name(f"events.out.tfevents.{time}.host.1.{number}"))


def write_expected(out):
    """TensorBoard's own reading of its files, one line a scalar."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    rows = []
    for path in sorted(out.rglob("*tfevents*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = tensor_util.make_ndarray(value.tensor).item()
                    name = path.relative_to(out).as_posix()
                    rows.append(f"{name},{value.tag},{event.step},{number!r}")
    (out / "expected.csv").write_text("\n".join(["file,tag,step,value", *rows]) + "\n")


def lightning(out):
    """Fit a line with Lightning's CSVLogger, which writes sparse rows."""
    import pytorch_lightning as L
    import torch
    from pytorch_lightning.loggers import CSVLogger

    class Line(L.LightningModule):
        def __init__(self, attn, seed, net=None, dtype=torch.float32):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(3, 1)

        def training_step(self, batch, _):
            found = ((self.layer(batch[0])[:, 0] - batch[1]) ** 2).mean()
            self.log("train_loss", found, on_step=True, on_epoch=True)
            return found

        def validation_step(self, batch, _):
            self.log("val_loss", ((self.layer(batch[0])[:, 0] - batch[1]) ** 2).mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    for arm in ARMS:
        for seed in SEEDS:
            L.seed_everything(seed, verbose=False)
            data = torch.utils.data.TensorDataset(torch.randn(16, 3), torch.randn(16))
            loader = torch.utils.data.DataLoader(data, batch_size=4)
            trainer = L.Trainer(
                max_epochs=2, logger=CSVLogger(str(out), name=f"{arm}-s{seed}"),
                log_every_n_steps=2, enable_progress_bar=False, enable_checkpointing=False,
                enable_model_summary=False, accelerator="cpu",
            )  # fmt: skip
            trainer.fit(Line(arm, seed, net={"width": 8}), loader, loader)


def mlflow(out):
    """Log four finished runs, a failed one, one still going on and a deleted one."""
    import os

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    out.mkdir(parents=True)
    runs = [(arm, seed, "FINISHED") for arm in ARMS for seed in SEEDS]
    others = [("plain", 2, "FAILED"), ("coupled", 2, "RUNNING"), ("coupled", 3, "FINISHED")]
    log_to_mlflow(f"sqlite:///{out / 'mlflow.db'}", runs + others)
    log_to_mlflow(f"file://{out / 'mlruns'}", runs[::2] + others)
    shrink(out / "mlflow.db")
    for path in out.rglob("meta.yaml"):
        path.write_text(path.read_text().replace(str(out), "/data"))


def log_to_mlflow(uri, runs):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("attention", artifact_location="/data/artifacts")
    for arm, seed, status in runs:
        run = client.create_run(experiment, run_name=f"{arm}-s{seed}").info.run_id
        client.log_param(run, "seed", seed)
        client.log_param(run, "attn", arm)
        for step in range(0, STEPS + 1, 4):
            client.log_metric(run, "valid/loss", loss(arm, seed, step), step=step)
        last = {("plain", 0): math.nan, ("plain", 1): math.inf}.get((arm, seed), 1.0)
        client.log_metric(run, "odd", last, step=STEPS)
        if status != "RUNNING":
            client.set_terminated(run, status)
        if (arm, seed) == ("coupled", 3):
            client.delete_run(run)


def shrink(path):
    """Drop MLflow's other tables, which hold nothing here and a megabyte of empty pages."""
    keep = {"runs", "metrics", "latest_metrics", "params", "tags"}
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            if name not in keep and not name.startswith("sqlite_"):
                database.execute(f'DROP TABLE "{name}"')
        database.execute("UPDATE runs SET user_id = '', source_name = ''")
    database = sqlite3.connect(path)
    database.execute("VACUUM")
    database.close()


def wandb(out):
    """Write by hand what W&B exports: there is no server here to export from."""
    import csv
    import json

    out.mkdir(parents=True)
    metric = "valid/loss"
    for arm in ARMS:
        runs = [f"{arm}-s{seed}" for seed in range(5)]
        header = ["Step"]
        for run in runs:
            header += [f"{run} - {metric}{suffix}" for suffix in ("", "__MIN", "__MAX")]
        rows = [header]
        for step in range(0, STEPS + 1, 2):
            cells = [str(loss(arm, seed, step)) for seed in range(5) for _ in range(3)]
            rows.append([str(step), *cells])
        with (out / f"{arm}.csv").open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    standard = ["Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep"]
    rows = [[*standard, "ID", "attn", "optim.seed", metric, "epoch"]]
    for number, (arm, seed) in enumerate((a, s) for a in ARMS for s in range(3)):
        state = {2: "crashed", 5: "running"}.get(number, "finished")
        last = "" if number == 2 else "NaN" if number == 3 else str(loss(arm, seed, STEPS))
        created = f"2026-11-30T0{number}:00:00.000Z"
        rows.append(["eager-wave", state, "", "", "", created, "61", "", f"id{number}", arm,
                     str(seed), last, "2"])  # fmt: skip
    with (out / "runs_table.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    lines = []
    for arm in ARMS:
        for seed in SEEDS:
            for step in [0, 2, 4, 2, 4, 6, 8] if (arm, seed) == ("plain", 1) else range(0, 9, 2):
                value = loss(arm, seed, step) if (arm, seed, step) != ("coupled", 1, 8) else "NaN"
                lines.append({"run_id": f"{arm[0]}{seed}", "name": f"{arm}-s{seed}",
                              "config": {"attn": arm, "optim": {"seed": seed}}, "_step": step,
                              "_timestamp": 1796063221.5, "valid": {"loss": value}})  # fmt: skip
    (out / "history.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


if __name__ == "__main__":
    writers = {w.__name__: w for w in (hf_trainer, lm_eval, tensorboard, lightning, mlflow, wandb)}
    writers[sys.argv[1]](Path(sys.argv[2]).absolute())
