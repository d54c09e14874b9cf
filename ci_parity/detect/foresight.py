"""What a runtime bump will bring, said before anything is installed or run.

A bump looks like one number in a lock; it can move the CUDA major, the driver floor, the oldest
Python, NumPy's ABI and the opsets that load. Each move is said with its evidence; one that the
recorded host or interpreter cannot follow is blocking and has a remedy. It refuses to guess: what
is not known of a release is said to be unknown.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ci_parity.detect.releases import Release, driver_floor, newest, release
from ci_parity.records.facts import Facts, measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """One thing a bump will bring; `blocking` means that the candidate cannot run as it is.

    Ids: `runtime.cuda`, `runtime.cudnn`, `runtime.python`, `runtime.numpy`, `runtime.opset`,
    `runtime.unknown`, `host.driver`, `host.compute`, `host.python`, `model.opset`, `model.ir`.
    """

    id: str
    sentence: str
    evidence: str
    remedy: str = ""
    blocking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNeeds:
    """What a model asks of a runtime: the opset of ONNX's own domain, and its IR version."""

    opset: int
    ir_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bump:
    before: Release | None
    after: Release
    host: Facts
    python: str
    models: tuple[ModelNeeds, ...] = ()

    def pair(self, key: str) -> tuple[str, str]:
        """Return a fact before and after, empty where unknown."""
        return self.before.value(key) if self.before else "", self.after.value(key)

    def moved(self, key: str) -> bool:
        """Whether a fact is known on both sides and differs."""
        old, new = self.pair(key)
        return bool(old and new and old != new)

    def evidence(self, key: str) -> str:
        """Return where both sides of a fact are known from."""
        sources = [side.source(key) for side in (self.before, self.after) if side]
        return "; ".join(dict.fromkeys(source for source in sources if source))

    @property
    def title(self) -> str:
        """The bump in words, the package named twice only where it changes."""
        if not self.before:
            return str(self.after)
        same = self.before.package == self.after.package
        return f"{self.before} → {self.after.version if same else self.after}"

    def remedy(self, first: str) -> str:
        """Return a way out, and the way back where there is one."""
        return f"{first}, or stay at {self.before}" if self.before else first


def foresee(
    before_requirement: str, after_requirement: str, host: Facts, python: str, *,
    models: tuple[ModelNeeds, ...] = (), metadata: Facts | None = None,
) -> tuple[Foresight, ...]:  # fmt: skip
    """Return what changing one pinned runtime requirement for another will bring.

    Args:
        before_requirement: the baseline's, empty where there is none.
        after_requirement: the candidate's; one that is no pinned onnxruntime has no foresight.
        host: the recorded facts of the host the target runs on, `relevant` to its provider: without
            NVIDIA's facts no driver is held against a floor.
        python: the version of the interpreter the environment is built for.
        models: what the target's models need.
        metadata: `wheel_metadata_facts` of the candidate's wheel, where it is at hand.
    """
    after = release(after_requirement, metadata or {})
    if after is None:
        return ()
    bump = _Bump(
        before=release(before_requirement, {}), after=after, host=host, python=python, models=models
    )
    sources = (_unknown, _cuda, _driver, _compute, _python, _numpy, _opset, _models)
    # Two models with the same need are one thing to know.
    return tuple(dict.fromkeys(item for source in sources for item in source(bump)))


def _unknown(bump: _Bump) -> Iterator[Foresight]:
    if not bump.after.value("opset"):
        yield Foresight(
            id="runtime.unknown",
            sentence=f"{bump.after} is not among the releases known here (up to {newest()}); "
            "what it moves shows only when it runs",
            evidence="runtime_table.json",
        )


def _cuda(bump: _Bump) -> Iterator[Foresight]:
    for key, word in (("cuda", "CUDA"), ("cudnn", "cuDNN")):
        old, new = bump.pair(key)
        if not (old and new) or _number(old)[:1] == _number(new)[:1]:
            continue
        floors = [driver_floor(side) for side in (old, new)] if key == "cuda" else []
        known = [floor for floor in floors if floor]
        also = f" and the driver floor {known[0].value} → {known[1].value}" if known[1:] else ""
        yield Foresight(
            id=f"runtime.{key}",
            sentence=f"{bump.title} moves {word} {old} → {new}{also}",
            evidence="; ".join(dict.fromkeys((bump.evidence(key), *(f.source for f in known)))),
            remedy=bump.remedy(f"give the runner the libraries of {word} {_number(new)[0]}"),
        )


def _driver(bump: _Bump) -> Iterator[Foresight]:
    """Hold the recorded driver against the floor of the candidate's CUDA."""
    cuda = bump.after.value("cuda")
    floor = driver_floor(cuda)
    driver = bump.host.get("nvidia.driver", "")
    if not (floor and driver):
        return
    if not measured(driver):
        if bump.moved("cuda"):
            yield Foresight(
                id="host.driver",
                sentence=f"the driver floor {floor.value} of CUDA {cuda} is unchecked: "
                f"the recorded host's NVIDIA driver is {driver}",
                evidence=floor.source,
            )
    elif _number(driver) < _number(floor.value):
        # A compatibility library in front of the driver's own speaks a newer CUDA.
        speaks = bump.host.get("nvidia.cuda_driver", "")
        compatible = measured(speaks) and _number(speaks)[:1] >= _number(cuda)[:1]
        yield Foresight(
            id="host.driver",
            sentence=f"the recorded host has NVIDIA driver {driver}, below the floor {floor.value} "
            f"of CUDA {cuda}" + (f", and a library that speaks CUDA {speaks}" * compatible),
            evidence=floor.source,
            remedy=bump.remedy(
                f"upgrade the driver to {floor.value} or newer (on a data-centre GPU the "
                f"cuda-compat package of CUDA {_number(cuda)[0]} will do)"
            ),
            blocking=not compatible,
        )


def _compute(bump: _Bump) -> Iterator[Foresight]:
    floor = bump.after.value("compute_from")
    for key, value in bump.host.items() if floor else ():
        card = key.removesuffix(".compute")
        if card == key or not measured(value) or _number(value) >= _number(floor):
            continue
        name = bump.host.get(f"{card}.name", "")
        yield Foresight(
            id="host.compute",
            sentence=f"GPU {card.rpartition('.')[2]} ({name}) has compute capability {value}; "
            f"{bump.after} has kernels from {floor} on",
            evidence=bump.after.source("compute_from"),
            remedy=bump.remedy("run the target on a newer GPU"),
            blocking=True,
        )


def _python(bump: _Bump) -> Iterator[Foresight]:
    low, high = bump.after.value("python_from"), bump.after.value("python_through")
    mine = _number(bump.python)[:2]
    below, above = (low and mine < _number(low)), (high and mine > _number(high))
    if below or above:
        bound = f"{low} or newer" if below else f"{high} or older"
        yield Foresight(
            id="host.python",
            sentence=f"{bump.after} has no wheel for Python {bump.python}; it needs {bound}",
            evidence=bump.after.source("python_from" if below else "python_through"),
            remedy=bump.remedy(f"run ci-parity on Python {bound}"),
            blocking=True,
        )
    elif bump.moved("python_from"):
        old, new = bump.pair("python_from")
        yield Foresight(
            id="runtime.python",
            sentence=f"{bump.title} moves the oldest Python {old} → {new}",
            evidence=bump.evidence("python_from"),
        )


def _numpy(bump: _Bump) -> Iterator[Foresight]:
    if bump.moved("numpy"):
        old, new = bump.pair("numpy")
        yield Foresight(
            id="runtime.numpy",
            sentence=f"{bump.title} moves NumPy's ABI {old} → {new}",
            evidence=bump.evidence("numpy"),
            remedy=f"let what shares its environment work with NumPy {new}",
        )


def _opset(bump: _Bump) -> Iterator[Foresight]:
    words = {"opset": "opset", "opset_ml": "ai.onnx.ml opset", "ir": "IR version"}
    moved = {key: bump.pair(key) for key in words if bump.moved(key)}
    lowered = [key for key, (old, new) in moved.items() if _number(new) < _number(old)]
    if moved:
        moves = ", ".join(f"{words[key]} {old} → {new}" for key, (old, new) in moved.items())
        yield Foresight(
            id="runtime.opset",
            sentence=f"{bump.title} moves the newest {moves}"
            + ("; a model above it will not load" if lowered else ""),
            evidence=bump.evidence(next(iter(moved))),
            remedy=bump.remedy("export the models for the older opset") if lowered else "",
        )
    if bump.moved("opset_from"):
        old, new = bump.pair("opset_from")
        yield Foresight(
            id="runtime.opset",
            sentence=f"{bump.title} moves the oldest supported opset {old} → {new}",
            evidence=bump.evidence("opset_from"),
            remedy=bump.remedy(f"export the models at opset {new} or newer"),
        )


def _models(bump: _Bump) -> Iterator[Foresight]:
    """Hold what the models need against what the candidate loads."""
    low, high = bump.after.value("opset_from"), bump.after.value("opset")
    newest_ir = bump.after.value("ir")
    for need in bump.models:
        if high and need.opset > int(high):
            yield Foresight(
                id="model.opset",
                sentence=f"a model of opset {need.opset} will not load: "
                f"{bump.after} goes up to {high}",
                evidence=bump.after.source("opset"),
                remedy=bump.remedy(f"export it at opset {high} or older"),
                blocking=True,
            )
        if low and need.opset < int(low):
            yield Foresight(
                id="model.opset",
                sentence=f"a model of opset {need.opset} is below {low}, the oldest supported",
                evidence=bump.after.source("opset_from"),
                remedy=f"export it at opset {low} or newer",
            )
        if newest_ir and need.ir_version > int(newest_ir):
            yield Foresight(
                id="model.ir",
                sentence=f"a model of IR version {need.ir_version} will not load: "
                f"{bump.after} goes up to {newest_ir}",
                evidence=bump.after.source("ir"),
                remedy=bump.remedy(f"save it with IR version {newest_ir} or older"),
                blocking=True,
            )


def _number(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, so that 580 and 580.65.06 compare."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
