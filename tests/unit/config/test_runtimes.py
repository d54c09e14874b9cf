from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.load import build, target
from ci_parity.config.runtimes import (
    FAMILIES,
    ImageRuntime,
    command_of,
    family_of,
    image_of,
    is_installed,
    runtime_text,
    with_image,
)

WORDS = ("./runner", "--größe", 'a "b"', "\\", "$(HOME)", " ")


def refusal(**value: Any) -> ConfigError:
    """Return the error of a target that is wrong."""
    with pytest.raises(ConfigError) as caught:
        target("cpu", value)
    return caught.value


def test_a_command_is_one_text_everywhere() -> None:
    """Whatever its words hold; the text leads back to the words."""
    built = target("cpu", {"runtime": {"command": list(WORDS)}})
    assert built.runtime == runtime_text({"command": list(WORDS)})
    assert command_of(built.runtime) == WORDS
    assert target("cpu", {"runtime": built.runtime}).runtime == built.runtime


def test_a_command_has_one_spelling() -> None:
    """Spaces in the JSON text make no other runtime."""
    assert target("cpu", {"runtime": 'command: [ "a", "b" ]'}).runtime == 'command:["a","b"]'


def test_a_requirement_may_ask_for_a_python() -> None:
    """As a mapping it is the same text as with its marker; without a Python it is the pin alone."""
    asked = {"requirement": "onnxruntime==1.20.1", "python": "3.12"}
    text = 'onnxruntime==1.20.1; python_version == "3.12"'
    assert target("cpu", {"runtime": asked}).runtime == text
    assert target("cpu", {"runtime": text}).runtime == text
    plain = {"requirement": "onnxruntime==1.20.1"}
    assert target("cpu", {"runtime": plain}).runtime == "onnxruntime==1.20.1"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"requirement": "onnxruntime==1.20.1", "python": 3.12}, "3.12 is not of type 'string'"),
        ({"requirement": "onnxruntime==1.20.1", "python": "3"}, "'3' does not match"),
        ({"requirement": "onnxruntime==1.20.1", "python": "2.7"}, "'2.7' does not match"),
        ({"requirement": "current", "python": "3.12"}, "'current' does not match"),
        ({"requirement": "onnxruntime==1; x", "python": "3.12"}, "does not match"),
        ({"requirement": "onnxruntime==1.20.1", "pyhton": "3.12"}, "did you mean 'python'?"),
    ],
)
def test_a_python_that_is_none_is_refused(value: object, said: str) -> None:
    """A number would lose the nought of 3.10; more than a pin is no requirement here."""
    assert said in refusal(runtime=value).what


def test_a_requirement_is_no_command() -> None:
    """Nor is the onnxruntime at hand."""
    assert command_of("onnxruntime==1.32.0") is None
    assert command_of(target("cpu", {}).runtime) is None


@pytest.mark.parametrize(
    "text",
    ["command:", "command:runner", 'command:"runner"', "command:{}", "command:[]", "command:[1]",
     'command:[""]', 'command:["a\\u0000"]', 'command:["a\\u202eb"]', 'command:["a\\nb"]'],
)  # fmt: skip
def test_a_broken_command_is_refused(text: str) -> None:
    """No words, no list, no text, or characters that no one sees."""
    assert refusal(runtime=text)


def test_a_command_has_no_other_keys() -> None:
    """A misspelt key must not be passed over."""
    assert "shell" in refusal(runtime={"command": ["a"], "shell": True}).what


DIGEST = f"sha256:{'0123456789abcdef' * 4}"
PINNED = f"registry.example:5000/team/ort-gpu@{DIGEST}"


@pytest.mark.parametrize(
    ("given", "text", "image"),
    [
        ({"image": PINNED}, f"image:{PINNED}", ImageRuntime(image=PINNED)),
        ({"image": DIGEST}, f"image:{DIGEST}", ImageRuntime(image=DIGEST)),
        ({"image": "ort:1.32"}, "image:ort:1.32", ImageRuntime(image="ort:1.32")),
        ({"memory_gib": 4, "gpus": "all", "image": PINNED},
         f'image:{{"gpus":"all","image":"{PINNED}","memory_gib":4}}',
         ImageRuntime(image=PINNED, gpus=("all",), memory_gib=4)),
        ({"image": "x", "gpus": ["0", "GPU-1a"], "command": ["/runner", "-v"]},
         'image:{"command":["/runner","-v"],"gpus":["0","GPU-1a"],"image":"x"}',
         ImageRuntime(image="x", gpus=("0", "GPU-1a"), command=("/runner", "-v"))),
    ],
)  # fmt: skip
def test_an_image_is_one_text_everywhere(
    given: dict[str, Any], text: str, image: ImageRuntime
) -> None:
    """The text leads back to the image, and is itself a runtime."""
    built = target("gpu", {"runtime": given})
    assert built.runtime == text
    assert image_of(text) == image
    assert target("gpu", {"runtime": text}) == built
    assert image_of(with_image(text, DIGEST)) == replace(image, image=DIGEST)


def test_the_digest_of_an_image_is_what_pins_it() -> None:
    """A tag does not."""
    assert [ImageRuntime(image=name).digest for name in (PINNED, DIGEST, "ort:1.32")] == [
        DIGEST, DIGEST, "",
    ]  # fmt: skip


def test_only_packages_are_installed() -> None:
    """Programs and images are there, or are not."""
    installed = [is_installed(text) for text in ("current", "tract==0.23.9", 'command:["a"]')]
    assert [*installed, is_installed(f"image:{DIGEST}")] == [True, True, False, False]
    assert image_of("onnxruntime==1.32.0") is None


@pytest.mark.parametrize(
    "value",
    ["image:", "image: x", "image:-x", "image:x@sha256:12", f"image:x@{DIGEST} ", "image:{",
     "image:{}", 'image:{"image":1}', {"image": "x", "gpus": "some"}, {"image": "x", "gpus": []},
     {"image": "x", "gpus": ["0", "0"]}, {"image": "x", "memory_gib": 0},
     {"image": "x", "pull": True}, {"image": "x", "command": []},
     {"image": "x", "command": ["a\nb"]}, {"gpus": "all"}, {}],
)  # fmt: skip
def test_a_broken_image_is_refused(value: object) -> None:
    """A name no registry has, a digest cut short, other keys, no GPUs, no memory, no words."""
    assert refusal(runtime=value)


def test_a_misspelt_key_of_an_image_is_named_with_its_place() -> None:
    """Though a runtime has three forms."""
    assert (
        "$.runtime: unknown key 'gpu'; did you mean 'gpus'?"
        in refusal(runtime={"image": "x", "gpu": "all"}).what
    )


@pytest.mark.parametrize(
    ("runtime", "options", "said"),
    [
        ("openvino==2026.4.1", {"session_options": {"graph_optimization_level": "enable_all"}},
         "openvino has no session option 'graph_optimization_level'"),
        ("tract==0.23.9", {"session_options": {"enable_mem_pattern": False}},
         "tract has no session option 'enable_mem_pattern'"),
        ("tract==0.23.9", {"provider_options": {"x": "1"}}, "tract has no provider option 'x'"),
        ("onnx==1.23.2", {"session_options": {"intra_op_num_threads": 1}},
         "onnx has no session option 'intra_op_num_threads'"),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused(
    runtime: str, options: dict[str, Any], said: str
) -> None:
    """Before anything is installed; the place in the config is named."""
    error = refusal(runtime=runtime, **options)
    assert error.what == said
    assert error.where.startswith("$.targets.cpu.")
    assert error.remedy.startswith("it takes ")


@pytest.mark.parametrize(
    ("runtime", "options"),
    [
        ("openvino==2026.4.1", {"session_options": {"intra_op_num_threads": 1},
                                "provider_options": {"INFERENCE_PRECISION_HINT": "bf16"}}),
        ("tract==0.23.9", {"session_options": {"intra_op_num_threads": 1}}),
        ("onnxruntime-gpu==1.32.0", {"session_options": {"execution_mode": "parallel"}}),
        ("current", {"session_options": {"graph_optimization_level": "disable_all"}}),
        ('command:["onnx"]', {"session_options": {"execution_mode": "parallel"}}),
    ],
)  # fmt: skip
def test_options_with_an_effect_are_taken(runtime: str, options: dict[str, Any]) -> None:
    """Those of the runtime; a command decides for itself."""
    assert target("cpu", {"runtime": runtime, **options}).runtime == runtime


def test_a_package_belongs_to_one_family() -> None:
    """By its whole name."""
    names = [name for family in FAMILIES for name in family.distributions]
    assert len(set(names)) == len(names)
    assert family_of("onnxruntime-gpu") == family_of("onnxruntime")
    assert family_of("openvino-dev") is None


LIBRARY = {"path": "ops/libmine.so", "sha256": "0" * 64}


@pytest.mark.parametrize("runtime", ["current", "onnxruntime==1.32.0", "onnxruntime-gpu==1.27.0"])
def test_libraries_of_operators_are_options_of_onnxruntime(runtime: str) -> None:
    """By path and digest, which are part of what the system is."""
    options = {"custom_ops": [LIBRARY]}
    built = target("cpu", {"runtime": runtime, "session_options": options})
    assert built.session_options == options
    assert LIBRARY["sha256"] in built.options


@pytest.mark.parametrize(
    ("runtime", "library", "said"),
    [
        ({"command": ["./runner"]}, LIBRARY, "by a package of onnxruntime alone"),
        ({"image": f"sha256:{'0' * 64}"}, LIBRARY, "by a package of onnxruntime alone"),
        ("openvino==2026.4.1", LIBRARY, "no session option 'custom_ops'"),
        ("current", {"path": "ops/libmine.so"}, "'sha256' is a required property"),
        ("current", {**LIBRARY, "sha256": "A" * 64}, "does not match"),
        ("current", {**LIBRARY, "sha": "x"}, "unknown key 'sha'"),
        ("current", "ops/libmine.so", "not of type 'object'"),
    ],
)
def test_a_library_without_its_digest_is_refused(runtime: Any, library: Any, said: str) -> None:
    """Or on a runtime that would not load it."""
    error = refusal(runtime=runtime, session_options={"custom_ops": [library]})
    assert said in error.what


def test_a_library_outside_the_folder_is_refused(tmp_path: Path) -> None:
    """Whatever its digest."""
    outside = {"path": "../libmine.so", "sha256": "0" * 64}
    value = {
        "version": 1, "variants": {"exported": {"path": "m.onnx"}}, "fixtures": "cases",
        "targets": {"cpu": {"session_options": {"custom_ops": [outside]}}},
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        build(value, root=tmp_path, origin="test")
    assert caught.value.where == "$.targets.cpu.session_options.custom_ops[0].path"
