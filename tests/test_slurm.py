"""Runs on a real Slurm of two nodes on this machine, and every answer that its queue may give."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.executors import queue, slurm
from runner.executors.queue import QueueIsSilent, queued_runs
from runner.executors.submissions import Job, next_submission
from runner.folder import RunFolder
from runner.profiles import Profile
from runner.status import read_status

CQK = Path(sys.executable).with_name("cqk")
SCRIPTS = Path(__file__).with_name("slurm")
PROFILES = """
[low]
partition = "low"
mem = "400M"

[gpu]
partition = "low"
gpus_per_run = 1

[limited]
time = 1
signal_s = 40

[impossible]
partition = "low"
gpus_per_run = 1
extra = { constraint = "no-such-thing" }

[here]
executor = "local"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A running cluster's folder; its commands find it by SLURM_CONF."""
    missing = [name for name in ("slurmctld", "slurmd", "munged") if not shutil.which(name)]
    missing += ["root"] if os.getuid() else []
    if missing:
        reason = f"no test cluster: {', '.join(missing)} missing"
        if os.environ.get("CQK_REQUIRE_SLURM"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run(
        [SCRIPTS / "up.sh", folder, str(_free_port())], capture_output=True, text=True
    )
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    try:
        assert started.returncode == 0, started.stderr
        yield folder
    finally:
        subprocess.run([SCRIPTS / "down.sh", folder], check=False, capture_output=True)
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


def _free_port():
    for port in range(17_500, 19_000, 7):
        try:
            for offset in range(3):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return port
    raise AssertionError("no three free ports in a row")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with profiles in it."""
    (tmp_path / "cqk.profiles.toml").write_text(PROFILES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def cqk(*arguments):
    return subprocess.run([CQK, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def submitted(study, *options, results="results"):
    return cqk("run", study, "--results", results, "--executor", "slurm", *options)


def wait_for(condition, seconds, said):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.2)


def wait_until_over(results, seconds=600):
    def said():
        logs = [p.read_text(errors="replace")[-500:] for p in results.glob("submissions/*/*.log")]
        return f"{read_status(results).counts} {_squeue()} {logs}"

    wait_for(lambda: read_status(results).over, seconds, said)


def _squeue():
    return subprocess.run(["squeue"], capture_output=True, text=True).stdout


def records(results):
    """Return run id -> (result without times, curve)."""
    found = {}
    for path in sorted(results.glob("runs/*/result.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        record.pop("timing")
        found[path.parent.name] = record, (path.parent / "metrics.jsonl").read_bytes()
    return found


def starts(results):
    folders = sorted((results / "runs").iterdir())
    return [sum(a["event"] == "start" for a in RunFolder(f).attempts()) for f in folders]


def training(results, count=1):
    """Return the run folders that have a curve and no result."""
    found = [
        folder
        for folder in sorted((results / "runs").iterdir())
        if (folder / "metrics.jsonl").exists()
        and (folder / "metrics.jsonl").stat().st_size > 2000
        and not (folder / "result.json").exists()
    ]
    return found if len(found) >= count else []


def element_of(results, run_id):
    for folder in sorted((results / "submissions").iterdir(), reverse=True):
        ids = (folder / "tasks.txt").read_text(encoding="ascii").split()
        if run_id in ids:
            job = json.loads((folder / "job.json").read_text(encoding="utf-8"))["job_id"]
            return f"{job}_{ids.index(run_id)}"
    raise AssertionError(f"{run_id} was not submitted")


@pytest.mark.slow
def test_slurm_runs_are_the_local_ones_in_chunks_and_exactly_once(cluster, small_study, place):
    study = small_study()
    first = submitted(study, "--profile", "low")
    assert first.returncode == 3, first.stderr
    assert "6 unfinished; 6 submitted to Slurm (job " in first.stdout
    results = place / "results" / "small"
    # MaxArraySize is 4 on this cluster, and bounds the index: arrays of three.
    tasks = sorted(results.glob("submissions/*/tasks.txt"))
    listed = [path.read_text(encoding="ascii").split() for path in tasks]
    assert [len(ids) for ids in listed] == [3, 3]
    again = submitted(study, "--profile", "low")
    assert "trained now" in again.stdout, "runs in the queue were submitted again"
    wait_until_over(results)
    assert [path.read_text(encoding="ascii").split() for path in tasks] == listed
    last = submitted(study, "--profile", "low")
    assert (last.returncode, last.stdout) == (0, "6 done, 0 diverged, 0 failed; 0 trained now\n")
    assert starts(results) == [1] * 6
    assert cqk("run", study, "--results", "here").returncode == 0
    assert records(place / "here" / "small") == records(results)
    attempts = [RunFolder(folder).attempts()[0] for folder in (results / "runs").iterdir()]
    assert all(attempt["slurm_job"] for attempt in attempts)


LONG = ("tokens = 768", "tokens = 256000\ncheckpoint_every = 100\nevaluate_every = 700")


@pytest.mark.slow
def test_requeued_preempted_and_killed_elements_end_as_the_local_ones(cluster, small_study, place):
    # Long enough to be running still when the preemption comes, up to 20 s later.
    long = LONG[1].replace("256000", "1536000").replace("= 100", "= 1000")
    study = small_study((LONG[0], long), ("[1, 2, 3]", "[1, 2]"))
    results = place / "results" / "small"
    assert submitted(study, "--profile", "low").returncode == 3
    wait_for(lambda: training(results, 4), 300, _squeue)
    requeued, killed, *preempted = training(results, 4)
    subprocess.run(["scontrol", "requeue", element_of(results, requeued.name)], check=True)
    os.kill(RunFolder(killed).attempts()[-1]["pid"], signal.SIGKILL)
    # A job of a partition with priority pushes what still runs back into the queue.
    preempting = ["sbatch", "--partition=high", "--nodes=2", "--ntasks=4", "--exclusive"]
    preempting += ["--output=/dev/null", "--wrap", "sleep 2"]
    subprocess.run(preempting, check=True, capture_output=True)
    wait_for(lambda: all(map(_was_stopped, (requeued, *preempted))), 300, _squeue)
    wait_for(lambda: read_status(results).counts.get("done") == 3, 600, _squeue)
    assert read_status(results).counts == {"done": 3, "failed": 1}
    [lost] = [run for run in read_status(results).runs if run.status == "failed"]
    assert (lost.run_id, lost.detail.startswith("killed on ")) == (killed.name, True)
    again = submitted(study, "--profile", "low")
    assert "1 submitted to Slurm" in again.stdout, again.stderr
    wait_until_over(results)
    assert cqk("run", study, "--results", "here").returncode == 0
    assert records(place / "here" / "small") == records(results)


def _was_stopped(folder):
    return any(line.get("reason") == "stopped" for line in RunFolder(folder).attempts())


@pytest.mark.slow
def test_a_dead_nodes_runs_go_on_elsewhere_and_a_time_limit_is_no_end(cluster, small_study, place):
    longer = LONG[1].replace("256000", "1024000")
    study = small_study((LONG[0], longer), ("[1, 2, 3]", "[1]"))
    results = place / "results" / "small"
    assert submitted(study, "--profile", "limited").returncode == 3
    wait_for(lambda: training(results, 2), 300, _squeue)
    node = subprocess.run(
        ["squeue", "--noheader", "--array", "--format=%N"], capture_output=True, text=True
    ).stdout.split()[0]
    _kill_node(cluster, node)
    try:
        wait_until_over(results)
    finally:
        subprocess.run(["slurmd", "-N", node], check=True)
    assert max(starts(results)) >= 2
    assert any(map(_was_stopped, (results / "runs").iterdir())), "nobody heard of the time limit"
    assert cqk("run", study, "--results", "here").returncode == 0
    assert records(place / "here" / "small") == records(results)


def _kill_node(cluster, node):
    """Kill a node's daemon, and every job on it with the step that watches over it."""
    doomed = [int((cluster / f"slurmd.{node}.pid").read_text(encoding="ascii"))]
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True)
    table = [line.split(None, 2) for line in listed.stdout.splitlines()]
    for pid, _, args in table:
        if args.startswith("slurmstepd") and f"slurmd.{node}.log" in _open_files(pid):
            doomed += [int(pid), *(int(child) for child, parent, _ in table if parent == pid)]
    assert len(doomed) >= 3, "no job ran on that node"
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)


def _open_files(pid):
    return {Path(os.readlink(link)).name for link in Path(f"/proc/{pid}/fd").iterdir()}


@pytest.mark.slow
def test_two_drivers_and_an_edited_study_change_nothing(cluster, small_study, place):
    study = small_study(("tokens = 768", "tokens = 64000"))
    command = [CQK, "run", study, "--results", "results"]
    drivers = [
        subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for more in (["--profile", "low"], ["--profile", "low"], ["--profile", "here"])
    ]
    results = place / "results" / "small"
    wait_for(lambda: (results / "plan.json").exists(), 300, _squeue)
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace("lr = 1e-2", "lr = 5e-2"), encoding="utf-8")
    ended = [driver.communicate(timeout=300) for driver in drivers]
    for driver, fine, (_, stderr) in zip(drivers, ({0, 3}, {0, 3}, {0}), ended, strict=True):
        # One that was slow to start read the edited file, and may not add a single run of it.
        late = driver.returncode == 2 and b"differs from the study frozen in" in stderr
        assert late or driver.returncode in fine, ended
    assert any(driver.returncode != 2 for driver in drivers), ended
    wait_until_over(results)
    assert starts(results) == [1] * 6
    study.write_text(text, encoding="utf-8")
    assert cqk("run", study, "--results", "here").returncode == 0
    assert records(place / "here" / "small") == records(results)


@pytest.mark.slow
def test_every_element_has_its_own_gpus(cluster, small_study, place):
    study = small_study(("tokens = 768", "tokens = 64000"), ("[1, 2, 3]", "[1, 2]"))
    assert submitted(study, "--profile", "gpu").returncode == 3
    results = place / "results" / "small"
    wait_until_over(results)
    used = [RunFolder(folder).attempts()[0]["gpus"] for folder in (results / "runs").iterdir()]
    assert set(used) <= {"0", "1"}


@pytest.mark.slow
def test_what_slurm_can_never_run_is_refused_at_once(cluster, small_study, place):
    study = small_study()
    refused = submitted(study, "--profile", "impossible")
    assert refused.returncode == 2
    assert "sbatch refused:" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not list((place / "results" / "small" / "submissions").glob("*"))
    assert read_status(place / "results" / "small").counts == {"missing": 6}
    shown = submitted(study, "--profile", "low", "--dry-run", results="nothing")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("#SBATCH --array=0-2\n") == 2
    assert not (place / "nothing").exists()


@pytest.mark.slow
def test_a_controller_that_stands_still_is_not_taken_for_an_empty_queue(
    cluster, small_study, place, monkeypatch
):
    study = small_study(("tokens = 768", "tokens = 64000"))
    assert submitted(study, "--profile", "low").returncode == 3
    results = place / "results" / "small"
    controller = int((cluster / "slurmctld.pid").read_text(encoding="ascii"))
    monkeypatch.setattr(queue, "ANSWER_SECONDS", 3)
    os.kill(controller, signal.SIGSTOP)
    try:
        with pytest.raises(QueueIsSilent, match="squeue did not answer within 3 s"):
            queued_runs(results)
        assert "is not shown" in read_status(results).notice
    finally:
        os.kill(controller, signal.SIGCONT)
    wait_until_over(results)
    assert starts(results) == [1] * 6


@pytest.mark.slow
def test_the_shipped_smoke_study_comes_out_the_same_here_and_on_slurm(cluster, place):
    if not os.environ.get("CQK_DATA_DIR"):
        said = "WikiText-2 is needed: name its folder in CQK_DATA_DIR"
        pytest.fail(said) if os.environ.get("CQK_REQUIRE_DATA") else pytest.skip(said)
    name = "wikitext2-micro-smoke"
    here = subprocess.run([CQK, "run", name, "--results", "here"], capture_output=True, text=True)
    assert here.returncode == 0, here.stderr
    assert submitted(name, "--profile", "low").returncode == 3
    wait_until_over(place / "results" / name, seconds=900)
    assert len(records(place / "here" / name)) == 4
    assert records(place / "here" / name) == records(place / "results" / name)


# From here on the answers come from a squeue of our own, and no cluster is needed.

RUNS = [f"{index:016x}" for index in range(4)]


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A study with one submission of four runs, and a squeue that says what a test wants."""
    submission = next_submission(tmp_path, RUNS)
    submission.record(Job(job_id=17, elements=4, time="now"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def answering(script):
        path = tmp_path / "bin" / "squeue"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        path.chmod(0o755)
        return queued_runs(tmp_path)

    return answering


def test_states_are_told_apart(asked):
    lines = ["17|0|PENDING|Priority", "17|1|RUNNING|None", "17|2|COMPLETED|None"]
    lines += ["17|3|REQUEUE_HOLD|launch failed requeued held", "18|0|RUNNING|None"]
    found = asked("\n".join(f"echo '{line}'" for line in lines))
    assert found == {
        RUNS[0]: ("queued", "Priority"),
        RUNS[1]: ("running", ""),
        RUNS[3]: ("queued", "launch failed requeued held"),
    }


@pytest.mark.parametrize(
    "script",
    ["", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"],
    ids=["empty", "invalid job id"],
)
def test_a_job_that_slurm_has_forgotten_is_not_queued(asked, script):
    assert asked(script) == {}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exec sleep 30", "squeue did not answer within 1 s"),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", "Unable to contact slurm"),
        ("exit 7", "squeue failed: 7"),
    ],
)
def test_no_answer_is_not_taken_for_an_empty_queue(asked, script, said, monkeypatch):
    monkeypatch.setattr(queue, "ANSWER_SECONDS", 1)
    with pytest.raises(QueueIsSilent, match=said):
        asked(script)


def test_without_squeue_there_is_no_answer(asked, tmp_path, monkeypatch):
    asked("")
    (tmp_path / "bin" / "squeue").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(QueueIsSilent, match="there is no squeue on this machine"):
        queued_runs(tmp_path)


def test_slurm_is_not_asked_when_everything_is_over(asked, tmp_path):
    for run_id in RUNS:
        folder = tmp_path / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "result.json").touch()
    assert asked("exit 9") == {}


def test_a_submission_that_came_to_nothing_is_no_submission(tmp_path):
    next_submission(tmp_path, RUNS)
    assert queued_runs(tmp_path) == {}
    assert next_submission(tmp_path, RUNS[:1]).folder.name == "0002"


def script_of(tmp_path, profile, devices=1):
    submission = next_submission(tmp_path, RUNS)
    return slurm.array_script(submission, "s", 4, Profile(**profile), devices)


def test_the_script_says_all_that_the_profile_says(tmp_path):
    profile = {"partition": "gpu", "time": "08:00:00", "gpus_per_run": 1, "cpus_per_run": 4}
    profile |= {"mem": "16G", "max_parallel": 32, "setup": ["module load cuda"]}
    profile |= {"extra": {"account": "abc", "exclusive": True, "mail": False, "comment": "a b"}}
    lines = script_of(tmp_path, profile).splitlines()
    assert lines[0] == "#!/bin/bash"
    for option in (
        *("job-name=cqk-s", "array=0-3%32", "requeue", "open-mode=append", "signal=B:USR1@120"),
        *("nodes=1", "cpus-per-task=4", "gpus-per-node=1", "mem=16G", "time=08:00:00"),
        *("partition=gpu", "account=abc", "exclusive", 'comment="a b"'),
    ):
        assert f"#SBATCH --{option}" in lines
    assert not [line for line in lines if "mail" in line]
    assert lines.index("module load cuda") < len(lines) - 1
    assert lines[-1].startswith(f"exec {sys.executable} -P -m runner.worker --tasks ")
    assert lines[-1].endswith('--threads 4 --index "$SLURM_ARRAY_TASK_ID"')


@pytest.mark.parametrize(
    ("profile", "devices", "said"),
    [
        ({"gpus_per_run": 1}, 2, "trains on 2 device.* gives it gpus_per_run = 1"),
        ({"cpus_per_run": 1}, 2, "gives it cpus_per_run = 1"),
        ({"extra": {"array": "0-9"}}, 1, "'array' is set by cqk itself"),
        ({"partition": 'a"b'}, 1, "takes no quotes"),
    ],
)
def test_a_profile_that_cannot_serve_is_refused(tmp_path, profile, devices, said):
    with pytest.raises(ValueError, match=said):
        script_of(tmp_path, profile, devices)


def test_a_folder_with_blanks_and_percent_signs_reaches_sbatch_whole(tmp_path):
    odd = tmp_path / "100 % sure"
    lines = script_of(odd, {}).splitlines()
    output = next(line for line in lines if "--output" in line)
    assert '100 %% sure/submissions/0001/%A_%a.log"' in output
    assert f"'{odd / 'submissions' / '0001' / 'tasks.txt'}'" in lines[-1]


def test_a_machine_without_slurm_says_so(small_study, place, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    refused = submitted(small_study())
    assert refused.returncode == 2
    assert "there is no scontrol on this machine" in refused.stderr
