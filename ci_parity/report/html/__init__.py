"""Reports as self-contained pages: pure functions, like the other reports."""

from ci_parity.report.html.files import Files
from ci_parity.report.html.page import render

__all__ = ["Files", "render"]
