"""The runtimes there are: what a target's `runtime:` may say, and which options each one takes.

A runtime is one text everywhere: `current`, a pinned requirement, `command:` and a JSON array of
words, or `image:` and the name of an image or a JSON object. A Python that a requirement asks for
is its marker (PEP 508). This module writes and reads that text; it finds, installs and starts
nothing.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_parity.base.canonical import canonical_bytes, parse_strict
from ci_parity.base.errors import ConfigError, EvidenceError

if TYPE_CHECKING:
    from ci_parity.config.systems import Target

CURRENT = "current"
CPU_PROVIDER = "CPUExecutionProvider"
_COMMAND = "command:"
_IMAGE = "image:"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PYTHON = re.compile(r"python_version\s*==\s*['\"](3\.\d{1,2})['\"]")
_SPELLINGS = {
    "command": """command:["PROGRAM", "ARGUMENT"]""",
    "image": """image:NAME@sha256:DIGEST or image:{"image": "NAME@sha256:DIGEST", "gpus": "all"}""",
}
_DIGEST = re.compile(r"(?:^|(?<=@))sha256:[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Runtimes that one worker drives.

    `distributions` are the packages by name: a list, since whoever owns a name that merely begins
    like one of these must not get their code run. `oldest` is the first version that the worker can
    drive, empty where it is not known. `session_options` are those it takes, None for all of the
    schema's; `provider_options` says whether it takes any.
    """

    name: str
    distributions: tuple[str, ...]
    oldest: str = ""
    session_options: frozenset[str] | None = frozenset()
    provider_options: bool = False


ONNXRUNTIME = Family(
    name="onnxruntime",
    distributions=(
        "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-webgpu",
        "onnxruntime-directml", "onnxruntime-qnn", "onnxruntime-rocm", "onnxruntime-migraphx",
        "onnxruntime-training",
    ),
    session_options=None,
    provider_options=True,
)  # fmt: skip
FAMILIES = (
    ONNXRUNTIME,
    Family(
        name="openvino",
        distributions=("openvino",),
        oldest="2023.1.0",
        session_options=frozenset({"intra_op_num_threads"}),
        provider_options=True,
    ),
    Family(
        name="tract",
        distributions=("tract",),
        # Before it, the package reads every output as float32.
        oldest="0.23.0",
        session_options=frozenset({"intra_op_num_threads"}),
    ),
    # The reference evaluator of 1.13 does not know optionals.
    Family(name="onnx", distributions=("onnx",), oldest="1.14.0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRuntime:
    """A container image as a runtime.

    `image` is a name with a digest, a name with a tag, or the `sha256:` ID of an image. `gpus` is
    `("all",)` or numbers and UUIDs, `command` empty for our own worker, `memory_gib` None for what
    the machine has.
    """

    image: str
    gpus: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    memory_gib: float | None = None

    @property
    def digest(self) -> str:
        """The `sha256:` digest or ID that pins the image, empty where a tag names it."""
        found = _DIGEST.search(self.image)
        return found[0] if found else ""


def family_of(distribution: str) -> Family | None:
    """Return the runtimes a package belongs to, None for a package that is no runtime."""
    return next((family for family in FAMILIES if distribution in family.distributions), None)


def runtime_text(value: str | Mapping[str, Any]) -> str:
    """Return the one spelling of a `runtime:` that is valid under the schema."""
    if isinstance(value, str):
        return value
    if "requirement" in value:
        return with_python(value["requirement"], value.get("python", ""))
    if "image" not in value:
        return _COMMAND + canonical_bytes(value["command"]).decode()
    return _IMAGE + (value["image"] if len(value) == 1 else canonical_bytes(dict(value)).decode())


def with_python(requirement: str, python: str) -> str:
    """Return a requirement that asks for a Python such as `3.12`, or for none in particular."""
    return f'{requirement}; python_version == "{python}"' if python else requirement


def python_of(runtime: str) -> str:
    """Return the Python that a requirement's marker asks for; empty where it is any other."""
    found = _PYTHON.fullmatch(runtime.partition(";")[2].strip())
    return found[1] if found else ""


def spelled_out(value: object) -> object:
    """Return a runtime's text as the config would spell it; anything else as it is.

    Raises:
        ConfigError: the text begins like a command or an image and is none.
    """
    if not isinstance(value, str) or not value.startswith((_COMMAND, _IMAGE)):
        return value
    kind, _, text = value.partition(":")
    if kind == "image" and not text.startswith("{"):
        return {"image": text}
    try:
        parsed = parse_strict(text, where="runtime")
    except EvidenceError as error:
        raise ConfigError(
            f"runtime {value!r} is no {kind}: {error.what}", remedy=f"write {_SPELLINGS[kind]}"
        ) from error
    return parsed if kind == "image" else {"command": parsed}


def command_of(runtime: str) -> tuple[str, ...] | None:
    """Return the words of a runtime that is a command, None for any other."""
    if not runtime.startswith(_COMMAND):
        return None
    return tuple(json.loads(runtime.removeprefix(_COMMAND)))


def image_of(runtime: str) -> ImageRuntime | None:
    """Return the image of a runtime that is one, None for any other."""
    if not runtime.startswith(_IMAGE):
        return None
    value: Any = spelled_out(runtime)
    gpus = value.get("gpus", ())
    return ImageRuntime(
        image=value["image"],
        gpus=(gpus,) if isinstance(gpus, str) else tuple(gpus),
        command=tuple(value.get("command", ())),
        memory_gib=value.get("memory_gib"),
    )


def with_image(runtime: str, image: str) -> str:
    """Return the text of a runtime that is an image, with another name for the image."""
    value: Any = spelled_out(runtime)
    return runtime_text({**value, "image": image})


def is_installed(runtime: str) -> bool:
    """Whether we install what a runtime needs: it is no command and no image."""
    return not runtime.startswith((_COMMAND, _IMAGE))


def check_options(target: "Target") -> None:
    """Refuse options that the target's runtime would have to ignore.

    Raises:
        ConfigError: naming the options, and those that the runtime takes.
    """
    if "custom_ops" in target.session_options and not is_installed(target.runtime):
        raise ConfigError(
            "libraries of custom operators are loaded by a package of onnxruntime alone",
            where=f"$.targets.{target.name}.session_options.custom_ops",
            remedy="let the command or the image load them: its own bytes are known by a digest",
        )
    found = _NAME.match(target.runtime)
    family = family_of(found[0]) if found else None
    if family is None:
        return
    taken = family.session_options
    unknown = [] if taken is None else [n for n in target.session_options if n not in taken]
    if unknown or (target.provider_options and not family.provider_options):
        kind, names = (
            ("session", unknown) if unknown else ("provider", list(target.provider_options))
        )
        known = sorted(taken or ()) if unknown else []
        raise ConfigError(
            f"{family.name} has no {kind} option {', '.join(map(repr, names))}",
            where=f"$.targets.{target.name}.{kind}_options",
            remedy=f"it takes {', '.join(known)}" if known else f"it takes no {kind} options",
        )
