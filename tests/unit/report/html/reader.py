"""A page as a parser sees it: its elements, their attributes and nesting, and what is read."""

from html.parser import HTMLParser

VOID = {"meta", "input"}


class Page(HTMLParser):
    """What stands on a page. Parsing fails where an end tag does not fit what is open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.declarations: list[str] = []
        self.comments: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every element in order, with the names of its attributes."""
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]

    @property
    def text(self) -> str:
        """All that is read, in order."""
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a shape of a picture."""
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close an element, which must be the innermost one."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        around = self._open[-1] if self._open else ""
        if around in self.inside:
            self.inside[around].append(data)
        elif data.strip():
            self.words.append(data)

    def handle_decl(self, decl: str) -> None:
        """Keep a declaration."""
        self.declarations.append(decl)

    def handle_comment(self, data: str) -> None:
        """Keep a comment; we write none."""
        self.comments.append(data)
