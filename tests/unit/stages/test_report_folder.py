import json
from pathlib import Path

from ci_parity.report.depth_plot import render
from ci_parity.stages.report_folder import Origin, write_report
from tests.unit.report.samples import divergence, failed, open_divergence, passed


def written(folder: Path) -> set[str]:
    """Return the names of all files in a folder."""
    return {path.name for path in folder.iterdir()}


def test_a_report_is_its_files(tmp_path: Path) -> None:
    """The path of the JSON comes back."""
    report = write_report(passed(), b"{}", tmp_path / "out", Origin())
    assert written(tmp_path / "out") == {
        "verdict.json", "comment.md", "report.html", "bundle.json", "verdict.record.json",
    }  # fmt: skip
    assert json.loads(report.read_bytes())["outcome"] == "pass"


def test_the_page_knows_what_lies_beside_it(tmp_path: Path) -> None:
    """The other files, the reproductions, and what was judged where."""
    origin = Origin(commit="c0ffee" * 6, run_url="https://git.example/acme/models/actions/runs/7")
    write_report(failed(), b"{}", tmp_path, origin)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for href in ("./verdict.json", "./comment.md", "./bundle.json", "./repro-1/README.md"):
        assert f'href="{href}"' in page
    assert f'href="{origin.run_url}"' in page
    assert origin.commit in page


def test_every_divergence_that_can_be_drawn_has_its_plot(tmp_path: Path) -> None:
    """Numbered by its place among all, as the comment says."""
    short = divergence(depth=divergence().depth[:2])
    verdict = passed(divergences=(open_divergence(), divergence(), short, divergence(case="b")))
    write_report(verdict, b"{}", tmp_path, Origin())
    assert {name for name in written(tmp_path) if name.endswith(".svg")} == {
        "depth-2.svg", "depth-4.svg",
    }  # fmt: skip
    assert (tmp_path / "depth-2.svg").read_text(encoding="utf-8") == render(divergence())
    comment = (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert "`depth-2.svg`" in comment
    assert "`depth-4.svg`" in comment


def test_plots_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    """Beside another verdict they would be taken for its own; other files are not ours."""
    (tmp_path / "depth-of-field.svg").touch()
    write_report(failed(), b"{}", tmp_path, Origin())
    assert "depth-2.svg" in written(tmp_path)
    write_report(passed(), b"{}", tmp_path, Origin())
    assert [name for name in written(tmp_path) if name.endswith(".svg")] == ["depth-of-field.svg"]


def test_reproductions_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    """Those of this verdict do, and so do folders that are not ours."""
    for name, ours in (("repro-1", True), ("repro-2", True), ("repro-3", False)):
        (tmp_path / name).mkdir()
        if ours:
            (tmp_path / name / "repro.json").touch()
    verdict = passed(divergences=(divergence(reproduction="repro-2"),))
    write_report(verdict, b"{}", tmp_path, Origin())
    assert {name for name in written(tmp_path) if name.startswith("repro")} == {
        "repro-2", "repro-3",
    }  # fmt: skip
