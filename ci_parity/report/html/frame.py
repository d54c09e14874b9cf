"""What every page of ours is inside: readable offline, without a request.

The browser is told to load nothing and to run nothing but the page's own script, known by its
digest (Content Security Policy, level 3). Everything is there without the script; it sorts tables
and switches the colours.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from ci_parity.report.html.element import Child, Html, element, spaced, text, verbatim


def document(title: str, about: Child, head: Child, parts: Mapping[str, tuple[str, Html]]) -> str:
    """Return a whole page.

    Args:
        title: what a tab is called.
        about: what stands beside our name at the top.
        head: how it ended, before the parts.
        parts: by anchor, what the contents call a part, and the part.
    """
    style, script = own_file("page.css"), own_file("page.js")
    skip = element("a", "Skip to the verdict", href="#verdict", class_="skip")
    brand = element("span", "CI Parity", class_="brand")
    bar = element("header", element("div", spaced(brand, about)), class_="top")
    main = element(
        "main", element("div", head, class_="overview"), [shown for _, shown in parts.values()],
        id="verdict", tabindex=-1,
    )  # fmt: skip
    said = element("p", "", id="said", class_="hidden", aria_live="polite")
    content = element("div", _contents(parts), main, class_="layout")
    body = element("body", skip, bar, content, said, element("script", verbatim(script)))
    return f"<!doctype html>\n{element('html', _head(title, style, script), body, lang='en')}\n"


def _head(title: str, style: str, script: str) -> Html:
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", text(title, 200)),
        element("style", verbatim(style)),
    )


def _contents(parts: Mapping[str, tuple[str, Html]]) -> Html:
    links = [
        element("li", element("a", name, href=f"#{anchor}")) for anchor, (name, _) in parts.items()
    ]
    return element("nav", element("ol", links), aria_label="Contents", class_="contents")


def _digest(content: str) -> str:
    found = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{found}'"


@cache
def own_file(name: str) -> str:
    """Return one of the files beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
