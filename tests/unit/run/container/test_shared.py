from pathlib import Path

import pytest

from ci_parity.run.container.files import Part
from ci_parity.run.container.shared import Shared
from tests.fakes.container_archives import ContainerArchives

USER = (1001, 121)


@pytest.fixture
def inputs(tmp_path: Path) -> Part:
    """Return a folder with one input."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / "x.bin").write_bytes(b"x")
    return Part(path=folder, inside="/ci-parity/inputs")


@pytest.fixture
def exchange(tmp_path: Path) -> Part:
    """Return the folder the worker writes to."""
    folder = tmp_path / "exchange"
    folder.mkdir()
    return Part(path=folder, inside="/ci-parity/exchange", writable=True)


@pytest.fixture
def archives() -> ContainerArchives:
    """Return a container without files."""
    return ContainerArchives()


def shared(archives: ContainerArchives, *parts: Part, bound: tuple[Part, ...] = ()) -> Shared:
    """Return what a container sees."""
    return Shared(archives, "container", parts, bound, USER)


def test_what_is_bound_is_neither_copied_nor_fetched(
    archives: ContainerArchives, inputs: Part, exchange: Part
) -> None:
    """It is the same file; a folder in it too."""
    seen = shared(archives, inputs, exchange, bound=(inputs, exchange))
    assert seen.named(inputs.path, written=False) == "/ci-parity/inputs"
    assert seen.named(exchange.path, written=True) == "/ci-parity/exchange"
    assert seen.named(exchange.path / "a", written=True) == "/ci-parity/exchange/a"
    seen.settle()
    assert archives.puts == 0


def test_what_is_not_bound_is_copied_once(archives: ContainerArchives, inputs: Part) -> None:
    """And again what has changed since, before it is named again."""
    seen = shared(archives, inputs)
    assert archives.files == {"/ci-parity/inputs/x.bin": b"x"}
    assert seen.named(inputs.path, written=False) == "/ci-parity/inputs"
    assert archives.puts == 1
    (inputs.path / "x.bin").write_bytes(b"longer")
    (inputs.path / "y.bin").write_bytes(b"y")
    seen.named(inputs.path, written=False)
    assert archives.puts == 2
    assert archives.files == {"/ci-parity/inputs/x.bin": b"longer", "/ci-parity/inputs/y.bin": b"y"}


def test_what_a_request_wrote_is_fetched_once_it_is_answered(
    archives: ContainerArchives, exchange: Part
) -> None:
    """Each request has a folder of its own, so that nothing is fetched twice."""
    seen = shared(archives, exchange)
    first = seen.named(exchange.path, written=True)
    assert archives.folders[first] == USER
    archives.files[f"{first}/c0.bin"] = b"first"
    seen.settle()
    second = seen.named(exchange.path, written=True)
    assert second != first
    archives.files |= {f"{second}/c1.bin": b"second", f"{first}/c0.bin": b"late"}
    seen.settle()
    seen.settle()
    written = {path.name: path.read_bytes() for path in exchange.path.iterdir()}
    assert written == {"c0.bin": b"first", "c1.bin": b"second"}


def test_a_folder_may_be_read_from_and_written_to(
    archives: ContainerArchives, exchange: Part
) -> None:
    """Inputs that lie beside the outputs are copied under a name of their own."""
    seen = shared(archives, exchange)
    (exchange.path / "x.bin").write_bytes(b"x")
    read = seen.named(exchange.path, written=False)
    assert archives.files == {f"{read}/x.bin": b"x"}
    assert seen.named(exchange.path, written=True) != read


def test_a_file_nobody_announced_is_copied_when_it_is_named(
    archives: ContainerArchives, tmp_path: Path
) -> None:
    """A worker may be asked to load many models, one after the other."""
    seen = shared(archives)
    models = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for model in models:
        model.write_bytes(model.name.encode())
    names = [seen.named(model, written=False) for model in models]
    assert [archives.files[name] for name in names] == [b"a.onnx", b"b.onnx"]
    assert seen.named(models[0], written=False) == names[0]
    assert archives.puts == 2


def test_a_bound_file_that_was_replaced_is_copied(
    archives: ContainerArchives, tmp_path: Path
) -> None:
    """A container keeps the file it was bound to, whatever has its name now."""
    model = tmp_path / "m.onnx"
    model.write_bytes(b"old")
    part = Part(path=model, inside="/ci-parity/model/m.onnx")
    seen = shared(archives, part, bound=(part,))
    assert seen.named(model, written=False) == part.inside
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "new").replace(model)
    assert archives.files[seen.named(model, written=False)] == b"new"


def test_a_missing_file_is_missing_inside(archives: ContainerArchives, tmp_path: Path) -> None:
    """Under a name that says which it was, for the runtime to complain of."""
    assert shared(archives).named(tmp_path / "m.onnx", written=False).endswith("/missing/m.onnx")


def test_a_link_in_a_bound_folder_is_gone_after_the_answer(
    archives: ContainerArchives, exchange: Part
) -> None:
    """Before anybody of ours reads there."""
    seen = shared(archives, exchange, bound=(exchange,))
    (exchange.path / "c0.bin").symlink_to("/etc/hostname")
    seen.settle()
    assert list(exchange.path.iterdir()) == []
