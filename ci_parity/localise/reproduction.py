"""A reproduction: a folder with which a runtime's maintainer sees the fault on their own machine.

    model.onnx                   and candidate.onnx where the candidate runs another model
    model.weights                weights too large for the model's file, if there are any
    test_data_set_0/             inputs and the baseline's outputs, laid out as ONNX backend tests
    test_data_set_candidate/     the same inputs, the candidate's outputs
    inputs.npz …                 the same for NumPy alone, with baseline.npz and candidate.npz
    repro.json                   both systems, what they brought, digests
    README.md                    what differs, the commands, what they print
    reproduce.py …               the script, with results.py and runtimes.py beside it

File names are ours. What comes from a model or a message is data in `repro.json`, and made harmless
in `README.md`; the script holds none of it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity import __version__
from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.digest import sha256_file
from ci_parity.config.runtimes import CPU_PROVIDER, family_of
from ci_parity.localise.handout import results
from ci_parity.localise.readme import readme
from ci_parity.localise.reproduction_files import write_archive, write_case, write_model
from ci_parity.localise.specimen import Specimen
from ci_parity.records.divergence import NodeName
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import Values

if TYPE_CHECKING:
    from onnx import ModelProto

_SCRIPTS = ("reproduce.py", "results.py", "runtimes.py")
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What one side ran on.

    `runtime` is a pinned requirement such as `onnxruntime==1.26.0`, or a command as
    `config.runtimes` writes it; `version` is what the runtime says of itself. `python` and `numpy`
    are versions, empty where they are not known. It ran `repeat` times.
    """

    runtime: str
    version: str = ""
    provider: str = CPU_PROVIDER
    provider_options: Mapping[str, str] = field(default_factory=dict)
    session_options: Mapping[str, Json] = field(default_factory=dict)
    python: str = ""
    numpy: str = ""
    repeat: int = 1

    @property
    def family(self) -> str:
        """The runtime that the script has to start; empty where it cannot."""
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            family = family_of(Requirement(self.runtime).name)
        except InvalidRequirement:
            return ""
        return family.name if family else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What one side made of the specimen: outputs by name, or how it failed and its last words."""

    status: RunStatus = RunStatus.OK
    message: str = ""
    outputs: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """What is to be said of a specimen.

    `sentence` is the conclusion of the search, `figures` are further facts and their names, `nodes`
    those at fault. `model`, `model_digest` and `case` say what it was cut out of. `host` are facts
    of the machine and their names. A run may take `limit_s` seconds.
    """

    title: str
    sentence: str
    baseline: System
    candidate: System
    figures: tuple[tuple[str, str], ...] = ()
    nodes: tuple[NodeName, ...] = ()
    model: str = ""
    model_digest: str = ""
    case: str = ""
    host: tuple[tuple[str, str], ...] = ()
    limit_s: int = 300


def write_reproduction(
    specimen: Specimen,
    baseline: Observed,
    candidate: Observed,
    about: Reproduction,
    folder: Path,
) -> Path:
    """Write a reproduction into a folder that does not exist yet, and return it.

    Args:
        specimen: what both sides ran.
        baseline: what the baseline made of it.
        candidate: what the candidate made of it.
        about: what to say of it.
        folder: where it goes.

    Raises:
        EvidenceError: ONNX or JSON has no form for something in it, or external data cannot be
            read or leaves its folder.
        FileExistsError: the folder exists.
    """
    folder.mkdir(parents=True)
    models = {"baseline": specimen.baseline, "candidate": specimen.candidate}
    files = {"baseline": "model.onnx", "candidate": "candidate.onnx"}
    if specimen.one_model:
        files["candidate"] = files["baseline"]
    for file, model in {files[side]: models[side] for side in models}.items():
        write_model(model, folder / file, specimen.weights)
    write_case(specimen.baseline, specimen.inputs, baseline.outputs, folder / "test_data_set_0")
    other = folder / "test_data_set_candidate"
    write_case(specimen.candidate, specimen.inputs, candidate.outputs, other)
    inputs = write_archive(specimen.inputs, folder / "inputs.npz")
    observed = {"baseline": baseline, "candidate": candidate}
    systems = {"baseline": about.baseline, "candidate": about.candidate}
    sides: dict[str, Json] = {
        side: _system(systems[side])
        | _ports(model, specimen.inputs)
        | {"model": files[side], "result": _result(observed[side], folder / f"{side}.npz")}
        for side, model in models.items()
    }
    for script in _SCRIPTS:
        shutil.copyfile(Path(results.__file__).with_name(script), folder / script)
    data = {**_said(about), "sides": sides, "inputs": inputs, "files": _digests(folder)}
    (folder / "repro.json").write_bytes(canonical_bytes(data) + b"\n")
    text = readme(specimen, baseline, candidate, about)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return folder


def _said(about: Reproduction) -> dict[str, Json]:
    """Return what is told of the fault; the script reads none of it but the time limit."""
    return {
        "format": _FORMAT,
        "written_by": f"ci-parity {__version__}",
        "title": about.title,
        "sentence": about.sentence,
        "figures": [list(figure) for figure in about.figures],
        "nodes": [{**asdict(node), "outputs": list(node.outputs)} for node in about.nodes],
        "origin": {"model": about.model, "sha256": about.model_digest, "case": about.case},
        "host": [list(fact) for fact in about.host],
        "limit_s": about.limit_s,
    }


def _system(system: System) -> dict[str, Json]:
    return {
        "family": system.family,
        "runtime": system.runtime,
        "version": system.version,
        "provider": system.provider,
        "provider_options": dict(system.provider_options),
        "session_options": dict(system.session_options),
        "python": system.python,
        "numpy": system.numpy,
        "repeat": system.repeat,
    }


def _ports(model: "ModelProto", inputs: Values) -> dict[str, Json]:
    """Return the names of a model's inputs that are given, and of its outputs."""
    given = [port.name for port in model.graph.input if port.name in inputs]
    return {"inputs": given, "outputs": [port.name for port in model.graph.output]}


def _result(observed: Observed, archive: Path) -> dict[str, Json]:
    return {
        "status": observed.status.value,
        "message": observed.message,
        "values": write_archive(observed.outputs, archive),
    }


def _digests(folder: Path) -> dict[str, Json]:
    """Return the SHA-256 of what the script reads, by name."""
    kinds = {".onnx", ".npz", ".weights"}
    files = sorted(path for path in folder.iterdir() if path.suffix in kinds)
    return {path.name: sha256_file(path) for path in files}
