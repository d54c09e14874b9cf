"""What lies beside a page, so that it can be linked to."""

import posixpath
import re
from dataclasses import dataclass

from ci_parity.records.divergence import Divergence
from ci_parity.report.divergence_words import reproduction
from ci_parity.report.html.element import Html, beside, code, link

_OURS = re.compile(r"repro-[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What a page may link to; empty where there is nothing.

    `report` and `comment` are the JSON and the Markdown of the same verdict, `bundle` the manifest,
    `reproductions` the folder that the divergences' own are in; all are paths from the page's
    folder. `commit` and `run_url` say what was judged and where.
    """

    report: str = ""
    comment: str = ""
    bundle: str = ""
    reproductions: str = ""
    commit: str = ""
    run_url: str = ""

    def reproduction(self, found: Divergence) -> Html:
        """Return the place of a reproduction, as a link where it is known to be one of ours."""
        path = reproduction(found)
        if not path or not self.reproductions or not _OURS.fullmatch(found.reproduction):
            return code(path)
        return link(code(path), beside(posixpath.normpath(f"{self.reproductions}/{path}")))
