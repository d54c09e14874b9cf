"""What a Python source says, apart from how it is laid out: its imports and a digest of its syntax.

Below `scripts`. The text is parsed and never compiled or run. The digest is over our own rendering
of the syntax tree, since Python's dump of one tree differs between Python's versions.
"""

import ast
import hashlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

_SCRIPT_METADATA = re.compile(rb"^# /// [a-zA-Z0-9-]+[ \t]*\r?\n(?:#[^\n]*\n)*?# ///", re.MULTILINE)
_NO_MEANING = {"kind", "type_comment", "ctx", "type_ignores"}
_IMPORTERS = {"import_module", "__import__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedName:
    """A module as an import names it: `level` dots, then `module`."""

    module: tuple[str, ...]
    level: int = 0


def parse(data: bytes) -> ast.Module:
    """Return the syntax tree of a source.

    Raises:
        SyntaxError: it is not Python of this interpreter, or nested beyond its limits.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or "nested too deeply") from error


def imported_names(tree: ast.Module) -> tuple[ImportedName, ...]:
    """Return what a source may import: conditional imports and literal `import_module` included.

    `from a import b` yields `a` and `a.b`, since `b` may be a module.
    """
    return tuple(dict.fromkeys(name for node in ast.walk(tree) for name in _names(node)))


def _names(node: ast.AST) -> Iterator[ImportedName]:
    if isinstance(node, ast.Import):
        yield from (ImportedName(module=_parts(alias.name)) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = _parts(node.module or "")
        yield ImportedName(module=module, level=node.level)
        for alias in node.names:
            if alias.name != "*":
                yield ImportedName(module=(*module, alias.name), level=node.level)
    elif isinstance(node, ast.Call) and node.args and _called(node.func) in _IMPORTERS:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            bare = name.value.lstrip(".")
            yield ImportedName(module=_parts(bare), level=len(name.value) - len(bare))


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part for part in dotted.split(".") if part)


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def code_digest(tree: ast.Module, data: bytes) -> str:
    """Return the SHA-256 of a source without its comments and layout.

    Inline script metadata (PEP 723) are comments that choose dependencies: they count.
    """
    digest = hashlib.sha256()
    waiting: list[object] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.AST):
            fields = [(n, v) for n, v in ast.iter_fields(item) if n not in _NO_MEANING]
            kept = [(name, value) for name, value in fields if value not in (None, [])]
            digest.update(f"({type(item).__name__} {[name for name, _ in kept]}".encode())
            waiting.extend(value for _, value in reversed(kept))
        elif isinstance(item, list):
            digest.update(f"[{len(item)}".encode())
            waiting.extend(reversed(item))
        else:
            text = hex(item) if isinstance(item, int) else repr(item)
            digest.update(f"{type(item).__name__} {text}\n".encode("utf-8", "backslashreplace"))
    for block in _SCRIPT_METADATA.findall(data):
        digest.update(b"\n".join(line.strip() for line in block.splitlines()))
    return digest.hexdigest()
