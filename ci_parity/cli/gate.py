"""`ci-parity gate`: the verdict on all legs of a plan, from what they observed."""

from pathlib import Path

import click

from ci_parity.cli import options
from ci_parity.cli.output import files_in_any_case, show_progress

_EXAMPLES = """\b
Examples:
  ci-parity gate --plan plan.json --artifacts artifacts
  ci-parity gate --plan plan.json --artifacts artifacts --run-id "$CI_PIPELINE_ID"
"""


@click.command(epilog=_EXAMPLES)
@options.root
@options.config
@options.base
@options.log
@options.plan_file
@options.run_id
@click.option(
    "--artifacts", type=click.Path(path_type=Path, file_okay=False), required=True,
    help="Folder with what the legs brought, one folder each.",
)  # fmt: skip
@options.record
@options.report_dir
@options.json_report
@options.report_files
def command(
    root: Path, config: str, base: str, log: str, plan_path: Path, run_id: str, artifacts: Path,
    record: str, report_dir: Path, json_path: str, **forms: Path | None,
) -> int:  # fmt: skip
    """Judge what the legs of a plan observed; nothing is run.

    Every leg must be there, whole, once, and of this run and commit: anything else leaves the
    verdict inconclusive.
    """
    from ci_parity.cli.check import deliver_verdict
    from ci_parity.fanout import GateOptions, gate
    from ci_parity.pipeline import CheckOptions
    from ci_parity.records.leg_report import Origin
    from ci_parity.stages.stored_report import drop_record

    drop_record(report_dir)
    files = options.asked_files(forms)
    with files_in_any_case(files):
        plan = options.read_plan_file(plan_path)
        wanted = CheckOptions(
            root=root, config=config, base=base, log=log, records=record == "always"
        )
        origin = Origin(run=run_id, commit=plan.commit)
        given = GateOptions(plan=plan, artifacts=artifacts, origin=origin, results={})
        done = gate(wanted, given, show_progress())
    return deliver_verdict(done, root, report_dir, json_path, record, files)
