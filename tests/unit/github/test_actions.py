import re
from pathlib import Path

import pytest

from ci_parity.base.errors import CiParityError, ConfigError, PublishError
from ci_parity.github.actions import (
    SUMMARY_LIMIT_BYTES,
    ActionInputs,
    RecordMode,
    annotation,
    group,
    neutralise,
    read_inputs,
    stop_commands,
    write_outputs,
    write_summary,
)

OLD_STYLE = re.compile(r"##\[\w+.*\]")


def runner_reads(path: Path) -> dict[str, str]:
    """Read an output file line by line, as the runner does (FileCommandManager.cs)."""
    outputs: dict[str, str] = {}
    lines = iter(path.read_bytes().decode("utf-8").split("\n"))
    for line in lines:
        if not line:
            continue
        name, _, delimiter = line.partition("<<")
        assert delimiter, f"not a heredoc: {line!r}"
        value = []
        for inner in lines:
            if inner == delimiter:
                break
            value.append(inner)
        else:
            raise AssertionError(f"{name} does not end")
        outputs[name] = "\n".join(value)
    return outputs


def runner_sees_command(text: str) -> bool:
    """Whether the runner would take a line of `text` for a command (ActionCommand.cs)."""
    lines = re.split(r"\r\n|[\n\r]", text)
    return any(line.lstrip().startswith("::") or OLD_STYLE.search(line) for line in lines)


# Outputs


def test_outputs_come_back_as_they_were(tmp_path: Path) -> None:
    """Several lines, equals signs, heredocs and nothing at all survive the file."""
    outputs = {"outcome": "fail", "text": "a\nb=c\nd<<EOF\n", "empty": "", "cr": "x\r\ny"}
    write_outputs(tmp_path / "out", outputs)
    write_outputs(tmp_path / "out", {"more": "ü"})
    assert runner_reads(tmp_path / "out") == {**outputs, "more": "ü"}


def test_value_cannot_set_another_output(tmp_path: Path) -> None:
    """A value that guesses at the form of the file ends as a value."""
    path = tmp_path / "out"
    write_outputs(path, {"text": "x"})
    first = path.read_text(encoding="utf-8").splitlines()[0].partition("<<")[2]
    attack = f"x\n{first}\noutcome<<E\npass\nE\nci_parity_\noutcome=pass"
    write_outputs(path, {"text": attack})
    assert runner_reads(path) == {"text": attack}


def test_unfinished_line_is_not_continued(tmp_path: Path) -> None:
    """What another program left without a newline does not swallow our first output."""
    path = tmp_path / "out"
    path.write_text("a<<E\nb\nE", encoding="utf-8")
    write_outputs(path, {"outcome": "pass"})
    assert runner_reads(path) == {"a": "b", "outcome": "pass"}


@pytest.mark.parametrize("name", ["", "a b", "a<<b", "a\nb", "a=b"])
def test_name_of_an_output_is_ours_to_get_right(tmp_path: Path, name: str) -> None:
    """A name that would break the file is a bug of ours, not a value to escape."""
    with pytest.raises(CiParityError):
        write_outputs(tmp_path / "out", {name: "x"})


def test_unwritable_file_is_a_publishing_error(tmp_path: Path) -> None:
    """A file that is not mounted is named, with the way to mount it."""
    with pytest.raises(PublishError) as caught:
        write_outputs(tmp_path / "gone" / "out", {"a": "b"})
    assert "mount" in caught.value.remedy
    (tmp_path / "file").touch()
    with pytest.raises(PublishError):
        write_summary(tmp_path / "file" / "below", ["text"])


# Summary


def test_fullest_summary_that_fits_is_written(tmp_path: Path) -> None:
    """Bytes count, not characters."""
    path = tmp_path / "summary"
    assert write_summary(path, ["é" * 600_000, "middle", "short"])
    assert path.read_text(encoding="utf-8") == "middle\n"


def test_summary_counts_what_is_there_already(tmp_path: Path) -> None:
    """The runner drops the whole summary above its limit, so earlier text takes its share."""
    path = tmp_path / "summary"
    path.write_bytes(b"x" * (SUMMARY_LIMIT_BYTES - 10))
    assert write_summary(path, ["twelve bytes", "short"])
    assert path.read_bytes().endswith(b"x\nshort\n")
    assert path.stat().st_size <= SUMMARY_LIMIT_BYTES < 1024 * 1024


def test_summary_without_room_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full summary is not spoilt by ours; the verdict does not depend on it."""
    path = tmp_path / "summary"
    path.write_bytes(b"x" * SUMMARY_LIMIT_BYTES)
    assert not write_summary(path, ["text", "t"])
    assert path.stat().st_size == SUMMARY_LIMIT_BYTES
    assert "no room" in caplog.text


# Annotations


def test_annotation_escapes_message_and_properties() -> None:
    """Neither a line break nor a separator of the command survives unescaped."""
    line = annotation("error", "50%\r\n::set-output::x", title="a:b,c%\n::x", file="d,e", line=3)
    assert line == (
        "::error title=a%3Ab%2Cc%25%0A%3A%3Ax,file=d%2Ce,line=3::50%25%0D%0A::set-output::x"
    )


# The log


@pytest.mark.parametrize(
    "text",
    [
        "::set-env name=A::b",
        "fine\n::add-path::/evil",
        "fine\r::add-path::/evil",
        "fine\r\n \t\u2003::error::x",
        "\u2028::error::x",
        "a ##[add-path]/evil",
        "###[error]x",
        ":::error::x",
        "\n\n\n  ::stop-commands::x",
    ],
)
def test_untrusted_text_starts_no_command(text: str) -> None:
    """Neither the runner's form of a command nor its predecessor's survives."""
    assert runner_sees_command(text) or "\u2028" in text
    safe = neutralise(text)
    assert not runner_sees_command(safe)
    assert not re.search(r"(?m)^\s*::", safe)
    assert safe.replace("\u200b", "") == text


@pytest.mark.parametrize("text", ["", "std::vector<int>", "a: b :: c", "# [x]", "## heading"])
def test_harmless_text_is_unchanged(text: str) -> None:
    """Colons and hashes within a line are nobody's command."""
    assert neutralise(text) == text


def test_neutralising_takes_linear_time() -> None:
    """Megabytes of blanks and line breaks are no way to hold up a job."""
    text = "\n" * 300_000 + " " * 300_000 + "\n " * 100_000
    assert neutralise(text) == text


def test_group_holds_untrusted_text() -> None:
    """A folded block ends where we end it."""
    text = group("worker\n::error::x", "bye\n::endgroup::\n::error::x")
    lines = text.split("\n")
    assert lines[0] == "::group::worker%0A::error::x"
    assert lines[-1] == "::endgroup::"
    assert not runner_sees_command("\n".join(lines[1:-1]))


def test_stopped_commands_resume_with_the_same_word() -> None:
    """The word that ends the silence is random unless one is given."""
    assert stop_commands("abc") == ("::stop-commands::abc", "::abc::")
    assert stop_commands() != stop_commands()
    stop, resume = stop_commands()
    assert stop.removeprefix("::stop-commands::") == resume.strip(":")


# Inputs


def test_empty_inputs_are_the_defaults() -> None:
    """An input left out, or set to nothing by an expression, takes its default."""
    environ = {f"INPUT_{name.upper()}": "" for name in ActionInputs.__slots__}
    assert read_inputs(environ) == read_inputs({}) == ActionInputs()


def test_inputs_are_read_by_their_names() -> None:
    """Every input of the action arrives."""
    inputs = read_inputs({
        "INPUT_CONFIG": " models/ci-parity.yml ",
        "INPUT_GITHUB_TOKEN": "secret-token",
        "INPUT_RECORD": "always",
        "INPUT_COMMENT": "False",
        "INPUT_FORCE": "true",
        "INPUT_REPORT_DIR": "out",
        "INPUT_WORKING_DIRECTORY": "models",
        "INPUT_LOG": "branch:log",
    })  # fmt: skip
    assert inputs == ActionInputs(
        config="models/ci-parity.yml",
        github_token="secret-token",
        record=RecordMode.ALWAYS,
        comment=False,
        force=True,
        report_dir="out",
        working_directory="models",
        log="branch:log",
    )
    assert "secret" not in repr(inputs)


@pytest.mark.parametrize(
    ("name", "value"), [("comment", "yes"), ("force", "1"), ("force", "tRue"), ("record", "Auto")]
)
def test_unknown_word_is_refused(name: str, value: str) -> None:
    """A word that is not quite true is not guessed at; the input and its words are named."""
    with pytest.raises(ConfigError) as caught:
        read_inputs({f"INPUT_{name.upper()}": value})
    assert caught.value.where == f"input {name}"
    assert value in caught.value.what
