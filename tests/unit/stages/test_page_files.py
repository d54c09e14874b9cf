from pathlib import Path

import pytest

from ci_parity.stages.report_files import write_forms
from tests.unit.report.samples import divergence, passed

FAILED = passed(divergences=(divergence(reproduction="repro-1"),))


@pytest.mark.parametrize(
    ("page", "folder", "href"),
    [("out/page.html", "out", "./repro-1/README.md"),
     ("page.html", "out", "./out/repro-1/README.md"),
     ("pages/page.html", "my repro", "./../my%20repro/repro-1/README.md")],
)  # fmt: skip
def test_a_page_links_to_the_reproductions_from_where_it_is(
    tmp_path: Path, page: str, folder: str, href: str
) -> None:
    """The link leads to the folder, wherever both are."""
    path = tmp_path / page
    path.parent.mkdir(exist_ok=True)
    write_forms(FAILED, {"html": path}, tmp_path / folder)
    assert f'href="{href}"' in path.read_text(encoding="utf-8")


def test_without_a_folder_there_is_no_link(tmp_path: Path) -> None:
    """The name of the reproduction is there all the same."""
    path = tmp_path / "page.html"
    write_forms(FAILED, {"html": path})
    text = path.read_text(encoding="utf-8")
    assert "repro-1/README.md</code>" in text
    assert "repro-1/README.md</code></a>" not in text
