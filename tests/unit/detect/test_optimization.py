"""The recipe of a variant and the tools that follow it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.config.systems import Optimization, Target
from ci_parity.detect.changes import compare_identities
from ci_parity.detect.optimization import (
    as_facts,
    optimization_text,
    strange_libraries,
    with_strange_libraries,
)
from ci_parity.records.condensed import condense
from ci_parity.records.identity import Axis, BaselineSource, Change
from tests.unit.base.pins.samples import LOCKS, edited, project
from tests.unit.detect.test_changes import IDENTITY

PINS = "onnxsim==0.4.36\nonnxruntime==1.32.0 --hash=sha256:{}\n"


def made(root: Path, pins: str = PINS.format("a" * 64), recipe: str = "bits: 8\n") -> str:
    """Return the identity of a recipe and its tools."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "recipe.yml").write_text(recipe, encoding="utf-8")
    (root / "tools.lock").write_text(pins, encoding="utf-8")
    return optimization_text(
        Optimization(recipe=root / "recipe.yml", requires=root / "tools.lock"), root
    )


def change(before: str, after: str) -> Change | None:
    """Return the only change between two optimizations, None for none."""
    sides = [replace(IDENTITY, optimization=text) for text in (before, after)]
    found = compare_identities(BaselineSource(kind="log"), sides[:1], sides[1:]).changes
    assert [c.axis for c in found] == [Axis.OPTIMIZATION] * len(found)
    return found[0] if found else None


def test_a_recipe_alone_is_its_digest(tmp_path: Path) -> None:
    """As release logs have it from before tools were recorded."""
    made(tmp_path)
    recipe = tmp_path / "recipe.yml"
    assert optimization_text(Optimization(recipe=recipe), tmp_path) == sha256_file(recipe)
    assert optimization_text(None, tmp_path) == ""


def test_a_recipe_and_its_tools_are_facts(tmp_path: Path) -> None:
    """Digest, file and pins."""
    facts = json.loads(made(tmp_path))
    assert facts["recipe"] == sha256_file(tmp_path / "recipe.yml")
    assert (facts["requires"], facts["pin onnxsim"]) == ("tools.lock", "0.4.36")
    alone = optimization_text(Optimization(requires=tmp_path / "tools.lock"), tmp_path)
    assert json.loads(alone).keys() == facts.keys() - {"recipe"}


@pytest.mark.parametrize(
    ("pins", "sentence"),
    [
        ("onnxsim==0.4.37\n" + PINS.partition("\n")[2].format("a" * 64),
         "onnxsim 0.4.36 → 0.4.37 (tools.lock)"),
        (PINS.format("b" * 64),
         "only the hash of onnxruntime 1.32.0 changed: same version, other file (tools.lock)"),
        (PINS.format("a" * 64) + "olive-ai==0.9.0\n", "olive-ai 0.9.0 added (tools.lock)"),
    ],
)  # fmt: skip
def test_a_tool_that_moved_is_named(tmp_path: Path, pins: str, sentence: str) -> None:
    """In the words of the converter's packages; the recipe is not mentioned."""
    found = change(made(tmp_path / "a"), made(tmp_path / "b", pins))
    assert found is not None
    assert found.sentences == (sentence,)
    assert "recipe" not in found.before + found.after


def test_only_the_recipe_changed(tmp_path: Path) -> None:
    """Its digests are told, and nothing of the tools."""
    found = change(made(tmp_path / "a"), made(tmp_path / "b", recipe="bits: 4\n"))
    assert found is not None
    assert (found.before[:7], found.sentences) == ("recipe ", ())


def test_what_stands_elsewhere_in_a_lock_is_no_change(tmp_path: Path) -> None:
    """Pins are compared, not lines."""
    text = PINS.format("a" * 64)
    assert change(made(tmp_path / "a"), made(tmp_path / "b", f"# new\n\n{text}")) is None


@pytest.mark.parametrize("file", LOCKS)
def test_every_lock_format_tells_of_tools(tmp_path: Path, file: str) -> None:
    """One package of it bumped is one sentence."""
    sides = []
    for side, text in (("a", LOCKS[file]), ("b", edited(LOCKS[file], ("2.8.0", "2.9.0")))):
        path = project(tmp_path / side, file, text)
        sides.append(optimization_text(Optimization(requires=path), tmp_path / side))
    found = change(*sides)
    assert found is not None
    assert found.sentences == (f"torch 2.8.0 → 2.9.0 ({file})",)


def test_tools_that_are_named_now_are_a_change(tmp_path: Path) -> None:
    """To have none was known; the recipe is the same."""
    with_tools = made(tmp_path)
    recipe = sha256_file(tmp_path / "recipe.yml")
    for sides, sentence in (
        ((recipe, with_tools), "requires (none) → tools.lock"),
        ((with_tools, recipe), "requires tools.lock → (none)"),
    ):
        found = change(*sides)
        assert found is not None
        assert found.sentences == (sentence,)


def test_condensed_tools_are_compared_by_digest(tmp_path: Path) -> None:
    """A long list of pins is kept in the log as its digest."""
    text = made(tmp_path / "a")
    assert change(condense(text), text) is None
    found = change(condense(text), made(tmp_path / "b", recipe="bits: 4\n"))
    assert found is not None
    assert found.sentences == ()


def test_every_form_has_facts() -> None:
    """Digest, facts and nothing."""
    assert as_facts("") == "{}"
    assert as_facts("b" * 64) == f'{{"recipe":"{"b" * 64}"}}'
    assert as_facts('{"requires":"x"}') == '{"requires":"x"}'


@pytest.mark.parametrize("file", ["gone.txt", "folder", "x" * 300])
@pytest.mark.parametrize("name", ["recipe", "requires"])
def test_what_is_named_must_be_there(tmp_path: Path, name: str, file: str) -> None:
    """A recipe or lock that is missing, or cannot be one, is no known optimization."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(EvidenceError):
        optimization_text(Optimization(**{name: tmp_path / file}), tmp_path)


def test_a_library_counts_where_no_place_has_its_bytes(tmp_path: Path) -> None:
    """It may be in the checkout alone, or nowhere yet; what cannot be read is none of it."""
    tree, checkout = tmp_path / "tree", tmp_path / "checkout"
    tree.mkdir()
    checkout.mkdir()
    (checkout / "ops.so").write_bytes(b"ours")
    library = {"path": "ops.so", "sha256": sha256_file(checkout / "ops.so")}
    target = Target(name="cpu", session_options={"custom_ops": [library]})
    assert strange_libraries(target, (tree, checkout)) == {}
    assert strange_libraries(target, (tree,)) == {}
    (tree / "ops.so").write_bytes(b"another")
    assert strange_libraries(target, (tree, checkout)) == {}
    other = sha256_file(tree / "ops.so")
    found = strange_libraries(target, (tree,))
    assert found == {"library ops.so": other}
    said = change("b" * 64, with_strange_libraries("b" * 64, found))
    assert said is not None
    assert said.sentences == (
        f"library ops.so has the digest {other[:12]}, which is not the config's",
    )
    (tree / "ops.so").unlink()
    (tree / "ops.so").mkdir()
    said = change("", with_strange_libraries("", strange_libraries(target, (tree,))))
    assert said is not None
    assert said.sentences == ("library ops.so: failed: Is a directory",)
