"""A runtime that is a command: any program that speaks the worker protocol.

Says what is started and which bytes that is. The first word is a path or a program on PATH; other
words that name a file of the repository are passed with their full paths, because a worker starts
in the exchange folder. Paths are looked for in several folders: a baseline's commit first, then the
checkout, for a program that is built and not committed. Nothing is started here, and no shell reads
the words.
"""

import shlex
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.errors import ConfigError, InfrastructureError
from ci_parity.base.process import worker_environment
from ci_parity.records.facts import Facts, reading

_LABEL_CHARS = 80


def argv_of(words: Sequence[str], roots: Sequence[Path]) -> tuple[str, ...]:
    """Return the argument list that starts a command.

    Args:
        words: the program and its arguments, at least one.
        roots: the folders that paths start from; the first one that has a file counts.

    Raises:
        ConfigError: the program is a path that climbs.
        InfrastructureError: there is no such program.
    """
    program, *arguments = words
    return (str(_program(program, roots)), *(str(_file(word, roots) or word) for word in arguments))


def label_of(words: Sequence[str]) -> str:
    """Return the command as a reader knows it, shortened."""
    text = shlex.join(words)
    return text if len(text) <= _LABEL_CHARS else f"{text[:_LABEL_CHARS]} …"


def command_facts(words: Sequence[str], roots: Sequence[Path]) -> Facts:
    """Return the digests of the program and of the words that are files of the repository.

    Empty where the program is not on this machine: what it is is not known here.

    Raises:
        ConfigError: the program is a path that climbs.
    """
    try:
        program = _program(words[0], roots).resolve()
    except InfrastructureError:
        return {}
    files = {Path(words[0]).name: program}
    for word in words[1:]:
        file = _file(word, roots)
        if file is not None:
            # A file that is called like the program keeps a name of its own.
            files[f"./{word}" if word in files and files[word] != file else word] = file
    return {f"library.{name}": reading(partial(sha256_file, path)) for name, path in files.items()}


def digest_of(facts: Facts) -> str:
    """Return one digest of a command's facts."""
    return sha256_bytes("".join(f"{key}={facts[key]}\n" for key in sorted(facts)).encode())


def _program(word: str, roots: Sequence[Path]) -> Path:
    remedy = "build it before this step, correct the path, or put it on PATH"
    if "/" not in word:
        found = shutil.which(word, path=worker_environment().get("PATH", ""))
        if found is None:
            raise InfrastructureError(f"no program {word!r} on PATH", remedy=remedy)
        return Path(found).absolute()
    if ".." in Path(word).parts:
        raise ConfigError(
            f"the runtime's program {word!r} leaves the deployment's folder",
            remedy="name a path below it, or a program on PATH",
        )
    for root in roots:
        if (root / word).is_file():
            return (root / word).absolute()
    raise InfrastructureError("the runtime's program is missing", where=word, remedy=remedy)


def _file(word: str, roots: Sequence[Path]) -> Path | None:
    """Return the file of the repository that a word names, None for any other word."""
    for root in roots:
        path = root / word
        try:
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                return path.absolute()
        except (OSError, ValueError):  # a name no file system has
            return None
    return None
