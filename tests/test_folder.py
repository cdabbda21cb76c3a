import errno
import json
import multiprocessing
import os

import pytest

from analysis.records import Result, Spec
from runner.folder import RunFolder, RunIsBusy
from runner.metrics import MetricsLog
from runner.settings import RunSettings
from runner.writing import CannotWrite, cut_torn_tail

SETTINGS = {
    "data": {"corpus": "c", "text_sha256": "t", "tokenizer": "byte"},
    "model": {
        "layers": 1, "width": 4, "heads": 1, "head_dim": 4, "feed_forward": 4,
        "rope_base": 10000.0, "preset": None,
    },
    "attention": {"name": "standard", "options": {}},
    "coupling": {"name": "none", "options": {}},
    "train": {"seq_len": 4, "tokens": 40, "batch": 1, "lr": 0.1},
    "seed": 1,
}  # fmt: skip
RUN_ID = RunSettings.model_validate(SETTINGS).run_id


def spec(**changes):
    record = {"run_id": RUN_ID, "study": "s", "arm": "a", "seed": 1, "cell": {}}
    return Spec(**{**record, "settings": SETTINGS, **changes})


def result(**changes):
    record = {
        "run_id": RUN_ID, "study": "s", "arm": "a", "seed": 1, "status": "done", "steps": 10,
        "tokens": 40, "params": 9, "metrics": {"valid": {"loss": 0.1 + 0.2}},
        "data_fingerprint": "f", "weights_sha256": "w", "timing": {"train_seconds": 1.5},
    }  # fmt: skip
    return Result(**{**record, **changes})


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / RUN_ID)
    made.create(spec())
    return made


def test_a_spec_is_frozen_once(folder):
    before = folder.spec_path.stat().st_mtime_ns
    folder.create(spec())
    assert folder.spec_path.stat().st_mtime_ns == before
    assert folder.read_spec() == spec()
    other = {**SETTINGS, "seed": 2}
    folder.spec_path.write_text(
        folder.spec_path.read_text().replace('"seed": 1', '"seed": 2'), encoding="utf-8"
    )
    assert folder.settings().seed == other["seed"]
    with pytest.raises(ValueError, match="disagrees with the settings its folder is named after"):
        folder.create(spec())


def test_a_spec_written_before_a_setting_existed_is_the_same_run(folder):
    record = json.loads(folder.spec_path.read_text())
    full = RunSettings.model_validate(SETTINGS).model_dump(mode="json")
    assert "precision" in full["train"]
    assert "precision" not in record["settings"]["train"]
    folder.create(spec(settings=full))
    assert folder.settings() == RunSettings.model_validate(full)


def test_one_process_holds_a_run_and_the_kernel_frees_it(folder):
    assert not folder.is_locked()
    ready, done = multiprocessing.get_context("fork").Pipe()
    child = os.fork()
    if child == 0:
        with folder.lock():
            ready.send(True)
            ready.recv()
        os._exit(0)
    assert done.recv()
    assert folder.is_locked()
    with pytest.raises(RunIsBusy), folder.lock():
        pytest.fail("two processes hold one run")
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert not folder.is_locked()
    with folder.lock():
        assert folder.is_locked()
    ready.close()
    done.close()


def test_a_result_is_published_once_and_a_second_must_agree(folder):
    folder.publish(result())
    first = folder.result_path.read_bytes()
    folder.publish(result(timing={"train_seconds": 99.0}))
    assert folder.result_path.read_bytes() == first
    with pytest.raises(ValueError, match="another process has published another result"):
        folder.publish(result(weights_sha256="x"))
    assert folder.result_path.read_bytes() == first
    assert {p.name for p in folder.path.iterdir()} == {"spec.json", "result.json"}
    assert folder.read_result().metrics["valid"]["loss"] == 0.1 + 0.2


def test_a_disk_without_hard_links_gets_its_result_too(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("runner.folder.os.link", refuse)
    folder.publish(result())
    assert folder.read_result() == result()
    assert not list(folder.path.glob(".result*"))


def test_attempts_are_numbered_and_torn_ones_cut(folder):
    assert folder.start_attempt({"host": "h"}) == 1
    folder.end_attempt(1, "stopped")
    with open(folder.attempts_path, "ab") as file:
        file.write(b'{"event": "sta')
    assert folder.start_attempt({"host": "h"}) == 2
    folder.log_resume(7, ["step-000000009"])
    folder.end_attempt(2, "failed", error="E: é")
    lines = folder.attempts()
    assert [line["event"] for line in lines] == ["start", "end", "start", "resume", "end"]
    assert lines[-1]["error"] == "E: é"


def test_the_curve_is_cut_back_to_the_checkpoint_and_grows_on(folder):
    log = MetricsLog(folder.metrics_path, 0)
    for step in range(1, 7):
        log.write(step, 10 * step, "train", "loss", 1 / step)
        if step % 2 == 0:
            log.write(step, 10 * step, "valid", "loss", 1 / 3)
    log.close()
    whole = folder.metrics_path.read_bytes()
    with open(folder.metrics_path, "ab") as file:
        file.write(b'{"torn": ')
    log = MetricsLog(folder.metrics_path, 4)
    lines = folder.metrics_path.read_text().splitlines()
    assert [(line["step"], line["split"]) for line in map(json.loads, lines)] == [
        (1, "train"), (2, "train"), (2, "valid"), (3, "train"), (4, "train"),
    ]  # fmt: skip
    log.write(4, 40, "valid", "loss", 1 / 3)
    for step in (5, 6):
        log.write(step, 10 * step, "train", "loss", 1 / step)
    log.write(6, 60, "valid", "loss", 1 / 3)
    log.close()
    assert folder.metrics_path.read_bytes() == whole


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_not_finite_is_null_with_its_kind(folder, value):
    log = MetricsLog(folder.metrics_path, 0)
    log.write(1, 4, "train", "loss", value)
    log.close()
    line = json.loads(folder.metrics_path.read_text())
    assert (line["value"], line["nonfinite"]) == (None, str(value))


def test_a_damaged_middle_of_the_curve_is_refused_not_repaired(folder):
    folder.metrics_path.write_text('{"step": 1\n{"step": 2}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"metrics\.jsonl:1: is no JSON"):
        MetricsLog(folder.metrics_path, 5)


def test_a_write_that_the_disk_cuts_short_is_said_and_closing_stays_quiet(folder, monkeypatch):
    log = MetricsLog(folder.metrics_path, 0)

    class Full:
        def write(self, data):
            return len(data) // 2

        def close(self):
            pass

    log._file.close()
    monkeypatch.setattr(log, "_file", Full())
    with pytest.raises(CannotWrite, match=r"metrics\.jsonl: cannot be written \(No space left"):
        log.write(1, 4, "train", "loss", 1.0)
    log.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (b"a\n", b"a\n"), (b"a", b""), (b"a\nb", b"a\n"), (b"\nb", b"\n")],
)
def test_a_torn_tail_is_cut(tmp_path, before, after):
    path = tmp_path / "lines"
    cut_torn_tail(path)
    path.write_bytes(before)
    cut_torn_tail(path)
    assert path.read_bytes() == after


def test_what_a_kill_left_behind_is_swept(folder):
    for name in (".result.json.new", ".metrics.jsonl.x1", ".result.json.abc"):
        (folder.path / name).touch()
    folder.checkpoints.folder.mkdir()
    folder.sweep()
    assert folder.checkpoints.folder.exists()  # the run is not over
    folder.publish(result())
    assert not folder.is_swept()
    folder.sweep()
    assert folder.is_swept()
    assert {p.name for p in folder.path.iterdir()} == {"spec.json", "result.json"}
