"""The command `cqk`: run, analyze, check, power, import, status, list, bench.

Only typer and the standard library are imported here; a command imports what it needs when it runs,
so that `cqk --help` answers at once and `cqk analyze` works without torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from .installation import require_own_analysis

require_own_analysis()

app = typer.Typer(
    name="cqk",
    help="From a study file to an honest verdict: multi-seed experiments on attention.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)

INCOMPLETE_EXIT = 3


class Executor(StrEnum):
    """Where runs are executed."""

    local = "local"
    slurm = "slurm"


class Side(StrEnum):
    """Which side the treatment is expected on."""

    less = "less"
    greater = "greater"
    two_sided = "two-sided"


class Listing(StrEnum):
    """What `cqk list` knows."""

    attention = "attention"
    coupling = "coupling"
    presets = "presets"
    studies = "studies"
    corpora = "corpora"
    formats = "formats"


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn an error of the user's into its sentence and exit code 2, without a traceback."""
    try:
        yield
    except ValueError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors", "tokenizers", "tiktoken", "huggingface_hub"):
            raise
        _fail(
            f"this command needs the package {error.name}; install cqk with its extra: cqk[train]"
        )
    except OSError as error:
        if error.filename is None:
            raise
        _fail(f"{error.filename}: {error.strerror}; nothing that was there is lost")


def _fail(message: str) -> NoReturn:
    for line in message.splitlines():
        typer.echo(f"cqk: {line}", err=True)
    raise typer.Exit(2)


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A shipped study (cqk list studies) or a file.")],
    results: Annotated[Path, typer.Option(help="Folder of all results.")] = Path("results"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run.")] = None,
    executor: Annotated[
        Executor | None, typer.Option(help="Where to run (default: the profile's, or local).")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Executor settings by name.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this arm (repeatable).")] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these seeds, such as 1-3.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Show the plan and train nothing.")] = False,
    amend: Annotated[str | None, typer.Option(help="Reason for changing a frozen study.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train what is missing of a study, every arm on every seed."""
    with user_errors():
        from .plan import parse_seeds
        from .study_run import choose_profile, execute, read

        wanted = parse_seeds(seeds) if seeds is not None else None
        plan = read(study, results, only=only, seeds=wanted, download=not dry_run)
        how = choose_profile(executor and executor.value, profile)
        if dry_run:
            from .dry_run import dry_run as look

            shown = look(plan, how, jobs=jobs, threads=threads)
            typer.echo(shown.json() if as_json else shown.text())
            return
        summary = execute(plan, profile=how, jobs=jobs, threads=threads, reason=amend)
    if as_json:
        typer.echo(json.dumps(summary.as_dict(), indent=1))
    else:
        typer.echo(summary.sentence)
    raise typer.Exit(summary.exit_code)


@app.command()
def analyze(
    paths: Annotated[list[Path], typer.Argument(help="A results folder, or tidy tables.")],
    family: Annotated[
        Path | None, typer.Option(help="Study file with the declared family.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the report.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric in place of the declared one.")] = None,
    split: Annotated[str | None, typer.Option(help="Split in place of the declared one.")] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Tables only.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Test the declared comparisons and write tables, figures and a report."""
    with user_errors():
        from analysis import analyze as analyses

        found = analyses.analyze(
            paths, family=family, out=out, metric=metric, split=split, figures=not no_figures
        )
    for notice in found.notices:
        typer.echo(f"note: {notice}", err=True)
    if as_json:
        typer.echo(analyses.as_json(found))
    else:
        typer.echo(f"{found.verdict_table()}\nreport: {found.report}")
    raise typer.Exit(0 if found.complete else INCOMPLETE_EXIT)


@app.command()
def check(
    claims: Annotated[Path, typer.Argument(help="Published claims, TOML or CSV.")],
    as_json: JsonOption = False,
) -> None:
    """Recompute published significance claims."""
    with user_errors():
        from analysis import claims as checks

        checked = checks.check_claims(claims)
    typer.echo(checks.as_json(checked) if as_json else checks.as_text(checked))
    raise typer.Exit(1 if (checked["verdict"] == checks.INCONSISTENT).any() else 0)


@app.command()
def power(
    sd: Annotated[float | None, typer.Option(min=0, help="Deviation over seeds.")] = None,
    sd_baseline: Annotated[float | None, typer.Option(min=0, help="The baseline's.")] = None,
    seeds: Annotated[int | None, typer.Option(min=2, help="Seeds per arm.")] = None,
    delta: Annotated[float | None, typer.Option(min=0, help="Difference that matters.")] = None,
    pilot: Annotated[Path | None, typer.Option(help="Results folder of a pilot.")] = None,
    target: Annotated[float, typer.Option(min=0, max=1, help="Power wanted.")] = 0.8,
    alpha: Annotated[
        float | None, typer.Option(min=0, max=1, help="Level of the family: 0.05, or the pilot's.")
    ] = None,
    family_size: Annotated[
        int | None, typer.Option(min=1, help="Declared comparisons: 1, or the pilot's.")
    ] = None,
    alternative: Annotated[
        Side | None, typer.Option(help="Side of the test: less, or the pilot's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell seeds needed, power and the smallest detectable difference."""
    with user_errors():
        from analysis.planning import as_text, from_numbers, from_pilot

        if (sd is None) == (pilot is None):
            raise ValueError("give either --sd, a deviation over seeds, or --pilot, a folder")
        warnings: list[str] = []
        family = {"alpha": alpha, "family_size": family_size, "alternative": alternative}
        given = {key: value for key, value in family.items() if value is not None}
        plan = {"n": seeds, "delta": delta, "target_power": target, **given}
        if pilot is None:
            assert sd is not None
            rows = from_numbers(sd, sd_baseline, **plan)
        elif sd_baseline is None:
            rows, warnings = from_pilot(pilot, **plan)
        else:
            raise ValueError("--sd-baseline goes with --sd; a pilot's deviations are its own")
    for warning in warnings:
        typer.echo(f"note: {warning}", err=True)
    if as_json:
        typer.echo(json.dumps({"rows": rows.to_dict("records"), "notes": warnings}, indent=1))
    else:
        typer.echo(as_text(rows))


@app.command("import")
def import_(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="cqk list formats")],
    files: Annotated[list[Path], typer.Argument(help="Files of that format.")],
    out: Annotated[Path, typer.Option(help="The tidy table.")] = Path("runs.csv"),
    arm: Annotated[str | None, typer.Option(help="Pattern on run names: their arm.")] = None,
    seed: Annotated[str | None, typer.Option(help="Pattern on run names: their seed.")] = None,
    map_: Annotated[
        list[str] | None, typer.Option("--map", help="COLUMN=FIELD, as seed=config.seed.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="NAME, or NEW=OLD to rename.")] = None,
    step: Annotated[
        str | None, typer.Option(help="last, a step, or min:METRIC / max:METRIC (best).")
    ] = None,
    decimal_comma: Annotated[
        bool, typer.Option("--decimal-comma", help="CSV with semicolons and 1,5.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring another tool's results into the tidy table."""
    with user_errors():
        from analysis import importers
        from analysis.importers.request import parse_request
        from analysis.records import write_atomically

        if out.resolve() in [path.resolve() for path in files]:
            raise ValueError(f"{out}: is one of the files to read; give --out another name")
        request = parse_request(arm, seed, map_ or (), metric or (), step, decimal_comma)
        found = importers.import_runs(format_, files, request)
        write_atomically(out, found.table.to_csv(index=False))
    for notice in found.notices:
        typer.echo(f"note: {notice}", err=True)
    typer.echo(found.as_json() if as_json else f"{out}: {found.sentence}")


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="results/<study>")],
    as_json: JsonOption = False,
) -> None:
    """Tell what is done, running, failed and missing."""
    with user_errors():
        from .status import read_status

        found = read_status(folder)
    if found.notice:
        typer.echo(f"note: {found.notice}", err=True)
    if as_json:
        rows = [vars(row) for row in found.runs]
        typer.echo(json.dumps({"runs": rows, "counts": found.counts}, indent=1))
    else:
        for row in found.runs:
            detail = f"  {row.detail}" if row.detail else ""
            typer.echo(f"{row.run_id}  {row.status:8}  seed {row.seed}  {row.arm}{detail}")
        typer.echo(", ".join(f"{count} {name}" for name, count in found.counts.items()))
    raise typer.Exit(0 if found.over else INCOMPLETE_EXIT)


@app.command("list")
def list_(
    what: Annotated[Listing, typer.Argument(help="What to list.")],
    as_json: JsonOption = False,
) -> None:
    """List attention, coupling, presets, studies, corpora or formats."""
    with user_errors():
        from .listing import rows

        listed = rows(what.value)
    if as_json:
        typer.echo(json.dumps({what.value: listed}, indent=1))
        return
    for row in listed:
        typer.echo("  ".join(str(value) for value in row.values()))


@app.command()
def bench(
    attention: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    coupling: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    preset: Annotated[str, typer.Option(help="Size of the model.")] = "tiny",
    seq_len: Annotated[int, typer.Option(min=1, help="Tokens of a row.")] = 256,
    batch: Annotated[int, typer.Option(min=1, help="Rows of a step.")] = 4,
    vocab_size: Annotated[int, typer.Option(min=2, help="Token ids.")] = 256,
    rounds: Annotated[int, typer.Option(min=2, help="Timings of each step.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads of a step.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure step time and memory of attention x coupling here, as ratios."""
    with user_errors():
        from . import bench as benches

        step = benches.step(preset, seq_len=seq_len, batch=batch, vocab_size=vocab_size)
        rows = []
        for row in benches.rows(step, attention, coupling, rounds=rounds, threads=threads):
            if not as_json:
                typer.echo(row.line() if rows else f"{benches.HEADER}\n{row.line()}")
            rows.append(row)
    if as_json:
        typer.echo(benches.as_json(step, rows))
