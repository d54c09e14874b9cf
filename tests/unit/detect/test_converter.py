"""What made a model, as facts, and what moved in it, in sentences."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import Pin, PinSet
from ci_parity.base.pins.normal import marker_text
from ci_parity.detect.converter import ModelOrigin, converter_facts, explain_converter
from ci_parity.detect.pin_facts import facts_of_pins, pins_of_facts

ORIGIN = ModelOrigin(
    producer_name="pytorch", producer_version="2.8.0", ir_version=10, opsets={"": 17, "pkg.t": 1},
    metadata="ab" * 32, function_domains=("pkg.t",),
)  # fmt: skip
COMMAND = ("python", "tools/export.py", "{out}")
LOCK = """\
onnxscript==0.7.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via -r converter.in
torch==2.8.0 \\
    --hash=sha256:cc
    # via -r converter.in
typing-extensions==4.15.0 ; python_version < "3.13" \\
    --hash=sha256:dd
    # via torch
"""
OLD, NEWER = (f'python_version < "3.{minor}"' for minor in (13, 12))
FILES = {
    "converter.lock": LOCK,
    "tools/export.py": "import _model\n\n_model.export()  # writes the graph\n",
    "tools/_model.py": "def export():\n    pass\n",
    "README.md": "notes\n",
}


def facts_of(root: Path, files: dict[str, str], origin: ModelOrigin = ORIGIN) -> dict[str, str]:
    """Write a repository and return the facts of its converter, as a log would give them back."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    found = converter_facts(
        origin=origin, requires=Path("converter.lock"), command=COMMAND, root=root
    )
    assert json.loads(canonical_bytes(found)) == found
    return found


@pytest.fixture
def explained(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """Return what the sentences are after an edit of one file."""

    def explain(file: str = "README.md", old: str = "notes", new: str = "notes") -> tuple[str, ...]:
        assert old in FILES[file]
        after = FILES | {file: FILES[file].replace(old, new)}
        return explain_converter(
            facts_of(tmp_path / "before", FILES), facts_of(tmp_path / "after", after)
        )

    return explain


def test_the_facts_of_a_converter(tmp_path: Path) -> None:
    """Flat, readable, in order: the model's words, the command, the pins, the scripts."""
    facts = facts_of(tmp_path, FILES)
    files = facts["pin onnxscript"].removeprefix("0.7.0 files=2:").removesuffix(" direct")
    assert len(files) == 32
    assert list(facts.items())[:-2] == [
        ("producer", "pytorch 2.8.0"),
        ("ir version", "10"),
        ("opset ai.onnx", "17"),
        ("opset pkg.t", "1"),
        ("function domains", "pkg.t"),
        ("metadata", "ab" * 32),
        ("command", "python tools/export.py '{out}'"),
        ("requires", "converter.lock"),
        ("pin onnxscript", f"0.7.0 files=2:{files} direct"),
        ("pin torch", "2.8.0 files=sha256:cc direct"),
        ('pin typing-extensions [python_version < "3.13"]', "4.15.0 files=sha256:dd transitive"),
    ]
    assert list(facts)[-2:] == ["script tools/_model.py", "script tools/export.py"]
    assert all(len(facts[key].partition(" code=")[0]) == 64 for key in list(facts)[-2:])


def test_what_is_not_known_is_no_fact(tmp_path: Path) -> None:
    """A variant without a configured converter has the model's words alone."""
    assert converter_facts(origin=None, requires=None, command=(), root=tmp_path) == {}
    origin = ModelOrigin(producer_name="skl2onnx")
    facts = converter_facts(origin=origin, requires=None, command=(), root=tmp_path)
    assert facts == {"producer": "skl2onnx"}


def test_nothing_changed(explained: Callable[..., tuple[str, ...]]) -> None:
    """Other files of the repository are not the converter's."""
    assert explained() == ()
    assert explained("README.md", "notes", "other notes") == ()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("torch==2.8.0", "torch==2.9.0", "torch 2.8.0 → 2.9.0"),
        ("torch==2.8.0", "torch>=2.8", "torch 2.8.0 → >=2.8"),
        ("torch==2.8.0", "torch[opt]==2.8.0", "extras of torch 2.8.0: (none) → opt"),
        ("4.15.0", "4.16.0", "transitive: typing-extensions 4.15.0 → 4.16.0"),
        (
            "sha256:bb",
            "sha256:ee",
            "only the hash of onnxscript 0.7.0 changed: same version, other file",
        ),
        (
            " \\\n    --hash=sha256:bb",
            "",
            "only the admitted files of onnxscript 0.7.0 changed: same version, other hashes",
        ),
        (" \\\n    --hash=sha256:cc", "", "hashes of torch 2.8.0 removed, same version"),
        (
            '"3.13"',
            '"3.12"',
            f"transitive: typing-extensions 4.15.0 holds under another condition: {OLD} → {NEWER}",
        ),
        ("onnxscript", "--pre\nonnxscript", "--pre (none) → set"),
        (
            "# via torch",
            "# via -r converter.in",
            "typing-extensions 4.15.0 is now direct, before transitive, same version",
        ),
    ],
)
def test_a_pin_that_moved(
    explained: Callable[..., tuple[str, ...]], old: str, new: str, sentence: str
) -> None:
    """Each sentence says what is certain, and where."""
    assert explained("converter.lock", old, new) == (f"{sentence} (converter.lock)",)


@pytest.mark.parametrize(
    ("file", "old", "new", "how"),
    [
        ("tools/export.py", "export()", "export(17)", ""),
        ("tools/_model.py", "pass", "return", ""),
        ("tools/_model.py", "pass", "pass\nimport _new", ""),
        ("tools/_model.py", "pass", "'pass'", ""),
        ("tools/export.py", "  # writes the graph", "", ", only comments or formatting changed"),
        ("tools/export.py", "\n\n", "\n", ", only comments or formatting changed"),
    ],
)
def test_a_script_that_moved(
    explained: Callable[..., tuple[str, ...]], file: str, old: str, new: str, how: str
) -> None:
    """The pins are said to be equal; a comment alone is said to be that."""
    assert explained(file, old, new) == (f"converter script changed ({file}){how}, pins equal",)


def test_packages_come_and_go(tmp_path: Path) -> None:
    """Added and removed ones are told with their versions."""
    before = facts_of(tmp_path / "a", FILES)
    lock = LOCK.replace("onnxscript==0.7.0", "onnx-ir==0.1.0")
    after = facts_of(tmp_path / "b", FILES | {"converter.lock": lock})
    assert explain_converter(before, after) == (
        "onnx-ir 0.1.0 added (converter.lock)",
        "onnxscript 0.7.0 removed (converter.lock)",
    )


def test_several_differences_in_order(tmp_path: Path) -> None:
    """The model's words, what was asked for, what that pulled in, then the scripts."""
    before = facts_of(tmp_path / "a", FILES)
    files = {
        "converter.lock": LOCK.replace("2.8.0", "2.9.0").replace("4.15.0", "4.16.0"),
        "tools/export.py": "import _b\n",
        "tools/_b.py": "",
    }
    origin = ModelOrigin(producer_name="pytorch", producer_version="2.9.0", ir_version=10,
                         opsets={"ai.onnx": 18}, metadata="cd" * 32)  # fmt: skip
    after = facts_of(tmp_path / "b", FILES | files, origin)
    assert explain_converter(before, after) == (
        "producer pytorch 2.8.0 → pytorch 2.9.0",
        "opset ai.onnx 17 → 18",
        "opset pkg.t 1 → (none)",
        "function domains pkg.t → (none)",
        "the metadata of the model changed",
        "torch 2.8.0 → 2.9.0 (converter.lock)",
        "transitive: typing-extensions 4.15.0 → 4.16.0 (converter.lock)",
        "converter script changed (tools/export.py, tools/_b.py added, tools/_model.py removed)",
    )


def test_another_source_for_all_is_one_sentence(tmp_path: Path) -> None:
    """A mirror that changed is not told once a package."""
    sides = []
    for host in ("a", "b"):
        packages = "".join(
            f'[[packages]]\nname = "p{number}"\nversion = "1"\n'
            f'index = "https://{host}.example.invalid/simple"\n'
            for number in range(30)
        )
        lock = f'lock-version = "1.0"\ncreated-by = "x"\n{packages}'
        sides.append(facts_of(tmp_path / host, FILES | {"converter.lock": lock}))
    (sentence,) = explain_converter(*sides)
    assert sentence == (
        "30 packages come from elsewhere: registry+https://a.example.invalid/simple → "
        "registry+https://b.example.invalid/simple, versions equal"
    )


def test_many_sentences_are_cut(tmp_path: Path) -> None:
    """The comment names twenty differences of pins and counts the rest."""
    sides = [
        facts_of(
            tmp_path / v, FILES | {"converter.lock": "".join(f"p{n}=={v}\n" for n in range(50))}
        )
        for v in "12"
    ]
    sentences = explain_converter(*sides)
    assert len(sentences) == 21
    assert sentences[-1] == "and 30 more differences of pins"


def test_requirements_that_appear_are_not_told_package_by_package(tmp_path: Path) -> None:
    """The config named none before; there is nothing to compare."""
    after = facts_of(tmp_path, FILES)
    before = {
        key: value for key, value in after.items() if not key.startswith(("pin ", "requires"))
    }
    assert explain_converter(before, after) == ("requires (none) → converter.lock",)


def test_facts_of_another_form_are_said_to_be_that(tmp_path: Path) -> None:
    """A digest of syntax that another Python computed differs under equal bytes."""
    facts = facts_of(tmp_path, FILES)
    other = facts | {
        "script tools/export.py": facts["script tools/export.py"].replace("code=", "code=0")
    }
    assert explain_converter(facts, other) == (
        "the converter is recorded in another form, with equal content",
    )


def test_a_script_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """What it imports is not known: neither silence nor a guess."""
    before = facts_of(tmp_path / "a", FILES)
    broken = facts_of(tmp_path / "b", FILES | {"tools/export.py": "print 'x'\n"})
    gone = {k: v for k, v in FILES.items() if k != "tools/export.py"}
    assert explain_converter(before, broken) == (
        "converter script changed (tools/export.py, tools/_model.py removed), pins equal",
        "tools/export.py cannot be parsed: what it imports is not known",
    )
    assert explain_converter(before, facts_of(tmp_path / "c", gone)) == (
        "converter script changed (tools/export.py, tools/_model.py removed), pins equal",
        "tools/export.py is not there: what it imports is not known",
    )


def test_missing_requirements_are_refused(tmp_path: Path) -> None:
    """A file the config names must be there."""
    with pytest.raises(EvidenceError, match="no such file"):
        converter_facts(origin=None, requires=Path("x.lock"), command=(), root=tmp_path)


def test_what_a_model_says_is_one_printable_line(tmp_path: Path) -> None:
    """Its author is not trusted."""
    origin = ModelOrigin(producer_name="py\x1b[31m\ntorch" + "x" * 10_000, opsets={"a\nb": 1})
    facts = converter_facts(origin=origin, requires=None, command=(), root=tmp_path)
    assert facts["producer"].startswith("py\\x1b[31m\\ntorchx")
    assert len(facts["producer"]) < 200
    assert facts["opset a\\nb"] == "1"


WORDS = st.text("ab1 %;[]#=.-é\u2003", max_size=12)
PINS = st.builds(
    Pin,
    name=st.sampled_from(["torch", "onnx-ir", "./with space", "a#1 [x]"]),
    version=st.sampled_from(["", "1.0", "2.8.0+cu128", "1!2"]),
    marker=st.sampled_from(["", marker_text("python_version < '3'"), "odd ] marker #2"]),
    extras=st.sampled_from([(), ("a", "b")]),
    hashes=st.sampled_from([(), ("sha256:aa",)]),
    source=WORDS.map(lambda text: f"directory+{text}" if text.strip() else ""),
    direct=st.sampled_from([True, False, None]),
)


@settings(deadline=None)
@given(st.lists(PINS, max_size=4, unique_by=lambda pin: (pin.name, pin.marker)))
def test_pins_come_back_from_facts(pins: list[Pin]) -> None:
    """Whatever stands in them."""
    facts = facts_of_pins(PinSet(name="x", format="requirements", pins=tuple(pins)))
    found = pins_of_facts(facts, "").pins
    unequal = {(p.name, p.version, p.marker, p.extras, p.hashes, p.source, p.direct) for p in pins}
    assert unequal == {
        (p.name, p.version, p.marker, p.extras, p.hashes, p.source, p.direct) for p in found
    }


@settings(deadline=None)
@given(
    st.dictionaries(st.just("pin ") | WORDS.map("pin {}".format) | WORDS, WORDS, max_size=5),
    st.dictionaries(WORDS.map("script {}".format) | WORDS.map("setting {}".format), WORDS),
)
def test_facts_of_any_log_are_explained(one: dict[str, str], other: dict[str, str]) -> None:
    """A log that another version wrote, or somebody else, crashes nothing."""
    both = {"requires": "x"}
    assert explain_converter(one | both, other | both) != () or one == other
