"""Whatever is done to a bundle is found, and said; numbers are those of the threat model."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.release.bundle.archive import Member, header, read_member
from ci_parity.release.bundle.extract import extract_bundle
from ci_parity.release.bundle.manifest import MAX_FILE_BYTES, MAX_MANIFEST_BYTES
from ci_parity.release.bundle.verify import MAX_PROBLEMS, Verified, verify_bundle
from tests.unit.release.bundles import (
    FILES,
    before_card,
    bundle,
    deployment,
    entries,
    entry,
    named,
    packed,
    repacked,
    rewritten,
)

ANY_SIZE = settings(max_examples=60, deadline=None)
SHARED = settings(
    ANY_SIZE, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120
)


def found(path: Path, expected: str = "") -> str:
    """Return all that is wrong with a bundle; something must be."""
    result = verify_bundle(path, expected)
    assert not result.whole
    assert result.problem_count >= len(result.problems) > 0
    return "\n".join(result.problems)


def whole(path: Path, expected: str = "") -> Verified:
    """Return what a look at a whole bundle found."""
    result = verify_bundle(path, expected)
    assert result.problems == ()
    assert result.whole
    return result


@pytest.mark.parametrize("name", ["b.tar", "b"])
def test_a_bundle_is_whole(tmp_path: Path, name: str) -> None:
    """What was packed verifies, with its digest and without."""
    made = bundle(tmp_path, name)
    digest = whole(made).digest
    assert whole(made, digest).manifest == whole(made, f"sha256:{digest}").manifest


@pytest.mark.parametrize("name", ["b.tar", "b"])
def test_another_bundle_is_not_the_one_expected(tmp_path: Path, name: str) -> None:
    """A whole bundle with another digest is refused where a digest is given."""
    made = bundle(tmp_path, name)
    assert "another bundle" in found(made, "0" * 64)


@pytest.mark.parametrize(
    "digest",
    ["0" * 63, "A" * 64, "md5:" + "0" * 32, "sha1:" + "0" * 40, "sha256:../x", "sha512:" + "0" * 8],
)  # fmt: skip
def test_49_what_is_no_digest_is_refused(tmp_path: Path, digest: str) -> None:
    """Short, uppercase, other algorithms and paths are no digest, and never mean any bundle."""
    with pytest.raises(ConfigError, match="is not the digest of a bundle"):
        verify_bundle(bundle(tmp_path), digest)


def test_nothing_to_verify_is_an_error(tmp_path: Path) -> None:
    """What is not there was not verified."""
    with pytest.raises(EvidenceError, match="No such file"):
        verify_bundle(tmp_path / "gone.tar")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of an archive."""
    return bundle(tmp_path_factory.mktemp("archive")).read_bytes()


@given(data=st.data())
@SHARED
def test_any_flipped_bit_of_an_archive_is_found(
    archive: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    """Headers, padding, contents, manifest, card and end: every byte is what it must be."""
    bit = data.draw(st.integers(0, 8 * len(archive) - 1))
    changed = bytearray(archive)
    changed[bit // 8] ^= 1 << bit % 8
    (tmp_path / "flipped.tar").write_bytes(changed)
    found(tmp_path / "flipped.tar")


@given(data=st.data())
@SHARED
def test_an_archive_cut_or_lengthened_anywhere_is_found(
    archive: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    """Every length but its own is wrong."""
    cut = data.draw(st.integers(0, len(archive) - 1))
    place = tmp_path / "cut.tar"
    place.write_bytes(archive[:cut])
    found(place)
    place.write_bytes(archive + data.draw(st.binary(min_size=1, max_size=2048)))
    found(place)


@given(data=st.data())
@SHARED
def test_entries_swapped_doubled_dropped_or_renamed_are_found(
    archive: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    """The same entries in another order, number or under another name are no bundle."""
    place = tmp_path / "moved.tar"
    place.write_bytes(archive)
    items = entries(place)
    one, other = data.draw(
        st.lists(st.integers(0, len(items) - 1), min_size=2, max_size=2, unique=True)
    )
    act = data.draw(st.sampled_from(["swap", "swap names", "double", "drop", "rename"]))
    if act == "swap":
        items[one], items[other] = items[other], items[one]
    elif act == "swap names":
        first, second = items[one][0], items[other][0]
        first.name, second.name = second.name, first.name
    elif act == "double":
        items.insert(other, items[one])
    elif act == "drop":
        del items[one]
    else:
        items[one][0].name += "x"
    for info, _ in items:
        info.pax_headers = {}
    rewritten(place, lambda _: items)
    found(place)


@given(data=st.data())
@ANY_SIZE
def test_anything_done_to_a_folder_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One bit, one name, one file more or less."""
    made = bundle(tmp_path_factory.mktemp("folder"), "b")
    names = sorted([*FILES, "bundle.json", "BUNDLE.md"])
    name = data.draw(st.sampled_from(names))
    act = data.draw(st.sampled_from(["flip", "rename", "swap", "drop", "add", "append"]))
    file = made / name
    content = file.read_bytes()
    if act == "flip" and content:
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
    elif act == "swap":
        other = made / data.draw(st.sampled_from([n for n in names if n != name]))
        file.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif act == "rename":
        file.rename(file.with_name("other"))
    elif act == "drop":
        file.unlink()
    elif act == "add":
        file.with_name(data.draw(st.sampled_from(["new", ".hidden", "bundle.json2"]))).touch()
    else:
        file.write_bytes(content + b"\0")
    found(made)


def test_everything_that_is_wrong_is_said(tmp_path: Path) -> None:
    """One look tells all."""
    made = bundle(tmp_path, "b")
    (made / "models/weights0.bin").write_bytes(b"short")
    (made / "models/weights1.bin").unlink()
    (made / "models/reader.onnx").write_bytes(b"GRAPH of the reader")
    (made / "new").touch()
    text = found(made)
    assert "models/weights0.bin: has 5 bytes, not 768" in text
    assert "models/weights1.bin: is missing" in text
    assert "models/reader.onnx: was changed" in text
    assert "new: is not listed" in text
    assert len(text.splitlines()) == 4


def test_what_is_said_is_bounded(tmp_path: Path) -> None:
    """A hostile bundle cannot fill the terminal; the count is told all the same."""
    made = bundle(tmp_path, "b")
    for number in range(3 * MAX_PROBLEMS):
        (made / f"new{number}").touch()
    result = verify_bundle(made)
    assert (len(result.problems), result.problem_count) == (MAX_PROBLEMS, 3 * MAX_PROBLEMS)


def test_a_name_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    """Control characters are spelt out."""
    made = bundle(tmp_path, "b")
    (made / "x\x1b[2Jy\n").touch()
    assert "\x1b" not in found(made)


@pytest.mark.parametrize(
    "name",
    [
        "../escape", "a/../../escape", "/etc/passwd", "a\\b", "C:/x", "./x", "a//b", "nul", "x.",
        "new\nline", "e\u0301", "\udcff", "\u202egpj.exe", "bundle.JSON",
    ],
)  # fmt: skip
def test_1_15_34_hostile_names_in_an_archive(tmp_path: Path, name: str) -> None:
    """Escapes, devices, newlines, undecodable and misleading names are refused, never created."""
    made = rewritten(bundle(tmp_path), lambda items: before_card(items, entry(name, b"x")))
    assert "its name" in found(made)
    refused_whole(made, tmp_path)


def refused_whole(made: Path, scratch: Path) -> None:
    """Extract, and see that nothing is left anywhere."""
    before = {path for path in scratch.rglob("*") if "extracted" not in path.parts}
    with pytest.raises(EvidenceError, match="not what its manifest says"):
        extract_bundle(made, scratch / "extracted" / "out")
    assert list((scratch / "extracted").iterdir()) == []
    assert {path for path in scratch.rglob("*") if "extracted" not in path.parts} == before


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.SYMTYPE, "a symbolic link"), (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"), (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"), (tarfile.DIRTYPE, "a folder"), (b"7", "an entry of type"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["models/weights0.bin", "new"])
def test_2_to_5_34_links_and_devices_in_an_archive(
    tmp_path: Path, name: str, kind: bytes, words: str
) -> None:
    """Nothing but plain files, whether listed or not, wherever a link would lead."""

    def change(items: list[tuple[tarfile.TarInfo, bytes]]) -> list[tuple[tarfile.TarInfo, bytes]]:
        kept = [item for item in items if item[0].name != name]
        return before_card(kept, entry(name, kind=kind, link="../../../etc/passwd"))

    made = rewritten(bundle(tmp_path), change)
    assert words in found(made)
    refused_whole(made, tmp_path)


def test_a_link_and_a_file_through_it(tmp_path: Path) -> None:
    """The classic escape: a link to a folder outside, then a file below it (CVE-2025-4517)."""
    made = rewritten(
        bundle(tmp_path),
        lambda items: [
            items[0], entry("models", kind=tarfile.SYMTYPE, link=str(tmp_path)), *items[1:],
        ],
    )  # fmt: skip
    assert "models: is a symbolic link" in found(made)
    refused_whole(made, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "models/weights0.bin").symlink_to("weights1.bin"),
        lambda root: os.mkfifo(root / "models/weights0.bin"),
        lambda root: (root / "models/weights0.bin").mkdir(),
        lambda root: os.link(root / "models/weights1.bin", root / "models/weights0.bin"),
    ],
)
def test_2_to_5_links_pipes_and_folders_in_a_folder(tmp_path: Path, change: object) -> None:
    """Each is refused without being followed, read or waited for."""
    made = bundle(tmp_path, "b")
    (made / "models/weights0.bin").unlink()
    assert callable(change)
    change(made)
    assert "models/weights0.bin: is " in found(made)


def test_3_a_linked_folder_in_a_folder(tmp_path: Path) -> None:
    """The right files behind a link are not in the bundle."""
    made = bundle(tmp_path, "b")
    (made / "models").rename(tmp_path / "elsewhere")
    (made / "models").symlink_to(tmp_path / "elsewhere")
    text = found(made)
    assert "models: is a symbolic link" in text
    assert "models/reader.onnx: is missing" in text


def test_4_a_hard_link_is_refused_although_its_bytes_are_right(tmp_path: Path) -> None:
    """Whoever holds the other name could change them after the look."""
    made = bundle(tmp_path, "b")
    os.link(made / "models/weights0.bin", tmp_path / "other-name")
    assert "hard link" in found(made)
    refused_whole(made, tmp_path)


@pytest.mark.parametrize("name", ["b.tar", "b"])
def test_12_shards_whose_names_are_swapped(tmp_path: Path, name: str) -> None:
    """Both digests are still there, each under the other's name."""
    swapped = dict(FILES)
    swapped["models/weights0.bin"], swapped["models/weights1.bin"] = (
        FILES["models/weights1.bin"], FILES["models/weights0.bin"],
    )  # fmt: skip
    good = whole(bundle(tmp_path, name)).digest
    other = packed(deployment(tmp_path / "swapped", swapped), tmp_path / f"other{name}")
    assert "another bundle" in found(other, good)


def test_13_an_unlisted_file(tmp_path: Path) -> None:
    """Beside the listed ones, in an archive and in a folder, hidden or in a folder of its own."""
    made = rewritten(bundle(tmp_path), lambda items: before_card(items, entry("extra", b"x")))
    assert "extra: is not listed" in found(made)
    folder = packed(tmp_path / "root", tmp_path / "folder")
    (folder / "more/.deep").mkdir(parents=True)
    (folder / "more/.deep/x").touch()
    text = found(folder)
    assert "more/.deep/x: is not listed" in text
    assert "more: is a folder without listed files" in text


def test_14_a_missing_file(tmp_path: Path) -> None:
    """Dropped from an archive."""
    made = rewritten(bundle(tmp_path), lambda items: [*items[:3], *items[4:]])
    assert f"{sorted(FILES)[2]}: is missing" in found(made)


def test_15_names_that_collide_by_case(tmp_path: Path) -> None:
    """The second file would overwrite the first on some machines."""
    made = rewritten(
        bundle(tmp_path),
        lambda items: before_card(items, entry("Models/Weights0.bin", b"other")),
    )
    assert "differs from 'models/weights0.bin' only by case" in found(made)


@pytest.mark.parametrize("data", [b"", b"\0" * 1024, b"garbage" * 200, b"PK\x03\x04" + b"\0" * 600])
def test_26_truncated_empty_and_garbage_archives(tmp_path: Path, data: bytes) -> None:
    """What is no archive is refused, not passed over."""
    (tmp_path / "x.tar").write_bytes(data)
    found(tmp_path / "x.tar")


def test_26_an_empty_folder_is_no_bundle(tmp_path: Path) -> None:
    """Nothing listed and nothing there is not whole."""
    (tmp_path / "empty").mkdir()
    assert "bundle.json" in found(tmp_path / "empty")


def test_27_trailing_bytes_of_a_graph_are_another_bundle(tmp_path: Path) -> None:
    """Both loaders ignore unknown fields at the end; the identity does not."""
    good = whole(bundle(tmp_path)).digest
    more = dict(FILES)
    more["models/reader.onnx"] = ("graph", FILES["models/reader.onnx"][1] + b"\xfa\x07\x01x")
    other = packed(deployment(tmp_path / "more", more), tmp_path / "more.tar", files=more)
    assert whole(other).digest != good


def test_30_a_header_that_claims_terabytes(tmp_path: Path) -> None:
    """A size is only a claim; what is not there is not waited for or made room for."""
    made = bundle(tmp_path)
    data = made.read_bytes()
    first = len(header("bundle.json", 0))
    start = first + entries(made)[0][0].size
    start += -start % 512
    made.write_bytes(data[:start] + header("cases/one/input_0.pb", 2**42) + data[start + 512 :])
    text = found(made)
    assert "has 4398046511104 bytes, not 2" in text
    assert "too early" in text
    made.write_bytes(header("bundle.json", 2**40) + data[512:])
    assert f"more than {MAX_MANIFEST_BYTES} bytes" in found(made)


def test_an_extended_header_that_claims_much_is_refused(tmp_path: Path) -> None:
    """Names are short; whoever says otherwise is not believed."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 2**30
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.USTAR_FORMAT) + bytes(4096))
    assert "extended header of more than 8 KiB" in found(tmp_path / "x.tar")


def test_a_sparse_entry_is_refused(tmp_path: Path) -> None:
    """Its bytes are not all in the archive."""
    info = tarfile.TarInfo("models/reader.onnx")
    info.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "bundle.json",
        "GNU.sparse.realsize": "1099511627776",
    }  # fmt: skip
    data = info.tobuf(tarfile.PAX_FORMAT) + b"0\n".ljust(512, b"\0") + bytes(1024)
    (tmp_path / "x.tar").write_bytes(data)
    found(tmp_path / "x.tar")


def test_an_archive_of_another_tool_is_refused_and_its_folder_is_not(tmp_path: Path) -> None:
    """An archive has one form; the files in it can still be shown to be right."""
    made = repacked(bundle(tmp_path))
    assert "packed by another tool" in found(made)
    with tarfile.open(made) as opened:
        opened.extractall(tmp_path / "by-hand", filter="data")
    whole(tmp_path / "by-hand")


def test_the_card_says_what_the_manifest_says(tmp_path: Path) -> None:
    """A card that tells people something else is found, though its digest stands nowhere."""
    made = bundle(tmp_path, "b")
    card = (made / "BUNDLE.md").read_text()
    assert whole(made).digest in card
    (made / "BUNDLE.md").write_text(card.replace("reader", "leader"))
    assert "BUNDLE.md: is not the card of this bundle" in found(made)


def test_names_in_a_card_are_harmless(tmp_path: Path) -> None:
    """What a config calls a deployment cannot become a link or markup."""
    made = bundle(tmp_path, "b", named("<img src=x> [x](http://evil) @team"))
    card = (made / "BUNDLE.md").read_text()
    assert "<img" not in card
    assert "](http" not in card
    assert "@team" not in card


def test_28_a_file_replaced_after_the_look_is_not_what_was_extracted(tmp_path: Path) -> None:
    """The copy holds the bytes that were hashed, whatever happens to the original."""
    made = bundle(tmp_path)
    extract_bundle(made, tmp_path / "copy")
    made.write_bytes(b"replaced")
    for name, (_, data) in FILES.items():
        assert (tmp_path / "copy" / name).read_bytes() == data
    whole(tmp_path / "copy")


@pytest.mark.parametrize("name", ["b.tar", "b"])
def test_what_is_extracted_is_the_bundle(tmp_path: Path, name: str) -> None:
    """From an archive and from a folder: the same files, plain, and writable by their owner."""
    made = bundle(tmp_path, name)
    extract_bundle(made, tmp_path / "copy", whole(made).digest)
    assert whole(tmp_path / "copy").digest == whole(made).digest
    for path in (tmp_path / "copy").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def test_nothing_is_extracted_over_something(tmp_path: Path) -> None:
    """The place must be new, an empty folder and a dangling link included."""
    made = bundle(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for place in ("there", "link"):
        with pytest.raises(ConfigError, match="something already"):
            extract_bundle(made, tmp_path / place)


def test_a_listed_file_reached_under_another_name_stays_out(tmp_path: Path) -> None:
    """A whole copy under a link at the top is what the user named, and is looked at."""
    made = bundle(tmp_path, "b")
    (tmp_path / "link").symlink_to(made)
    whole(tmp_path / "link")


def test_a_folder_that_changes_kind_is_found(tmp_path: Path) -> None:
    """A file where a folder belongs."""
    made = bundle(tmp_path, "b")
    shutil.rmtree(made / "models")
    (made / "models").write_bytes(b"")
    text = found(made)
    assert "models: is not listed" in text
    assert "models/reader.onnx: is missing" in text


def test_the_manifest_of_an_archive_is_bounded_and_first(tmp_path: Path) -> None:
    """Without it nothing can be held to anything."""
    made = bundle(tmp_path)
    rewritten(made, lambda items: [items[1], items[0], *items[2:]])
    assert "does not come first" in found(made)


def test_long_names_survive(tmp_path: Path) -> None:
    """Names beyond what a plain header holds stand in a record of their own."""
    name = "/".join(["ordner-ä" * 10] * 3) + "/model.bin"
    files = {**FILES, name: ("weights", b"w")}
    made = packed(deployment(tmp_path / "root", files), tmp_path / "b.tar", files=files)
    whole(made)
    with tarfile.open(fileobj=io.BytesIO(made.read_bytes())) as opened:
        assert name in opened.getnames()
    assert sha256_bytes(made.read_bytes()) == sha256_bytes(
        packed(tmp_path / "root", tmp_path / "again.tar", files=files).read_bytes()
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(data=st.data())
@ANY_SIZE
def test_a_manifest_with_any_value_in_any_place_is_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever stands there, nobody crashes on it, and the old card does not belong to it."""
    made = bundle(tmp_path_factory.mktemp("values"), "b")
    value = json.loads((made / "bundle.json").read_text(encoding="utf-8"))
    holder: Any = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    new = data.draw(JSON | JSON.map(json.dumps))
    assume(new != holder[key])
    holder[key] = new
    (made / "bundle.json").write_bytes(canonical_bytes(value))
    found(made)


@pytest.mark.parametrize("policy", ["[]", "7", "{", '{"contract":7}', '{"outputs":[1]}', "null"])
def test_a_policy_that_is_none_is_refused_in_words(tmp_path: Path, policy: str) -> None:
    """The card is made of it, so it is read."""
    made = bundle(tmp_path, "b")
    value = json.loads((made / "bundle.json").read_text(encoding="utf-8"))
    value["policy"] = policy
    (made / "bundle.json").write_bytes(canonical_bytes(value))
    assert "policy or provenance" in found(made)


@pytest.mark.parametrize("size", [0, 2**33 - 1, 2**33, MAX_FILE_BYTES])
@pytest.mark.parametrize("name", ["a", "é", "a" * 250 + "/" + "b" * 250])
def test_headers_of_any_size_and_name_are_read_as_written(
    tmp_path: Path, name: str, size: int
) -> None:
    """Beyond 8 GiB and 100 bytes too."""
    (tmp_path / "h").write_bytes(header(name, size))
    with (tmp_path / "h").open("rb", buffering=0) as stream:
        member = read_member(stream)
    assert member == Member(name=name, size_bytes=size, kind="", canonical=True)
