"""What is decided next to the tensors, as frozen records: the `decisions` of a policy.

Between the validated config and `compare.decisions`. Every default comes from schema.json; what one
key means together with another is checked here, and no file is opened.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_parity.base.errors import ConfigError

Inside = Callable[[str, str], Path]
"""A path of the config and its JSON path, to an absolute path inside the deployment's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearTies:
    """What counts as a near tie, and whether a flip there fails.

    `margin` is in the output's own unit; None stands for what the output's tolerance can explain.
    """

    margin: float | None
    fail: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The `k` largest elements along `axis` must stay; with `ordered`, in their order."""

    k: int
    axis: int
    ordered: bool
    max_flips: int
    near: NearTies
    labels: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Every element must stay on its side of `at`; classes lie along `axis`."""

    at: float
    axis: int
    max_flips: int
    near: NearTies
    labels: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """KL(baseline || candidate) of each row along `axis`, in nats, may be `max_nats`."""

    max_nats: float
    axis: int
    softmax: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """The cosine of each row along `axis` with the baseline's must be `minimum`."""

    minimum: float
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where a packed output [.., n, columns] keeps what; `box` is the first of four."""

    box: int
    score: int | None
    label: int | None
    image: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections:
    """Boxes, scores and classes as a set that is matched by overlap.

    The boxes are the output the decision is named after, alone or, with `columns`, everything in
    one. `count` names the output that says how many rows are valid, `per_row` further outputs with
    one entry a row. A row below `score` is no detection; None lets every row be one.
    """

    box_format: str
    scores: str
    classes: str
    count: str
    per_row: tuple[str, ...]
    columns: Columns | None
    iou: float
    score: float | None
    max_unmatched: int
    max_score_change: float | None
    near: NearTies
    labels: Path | None

    def outputs(self, boxes: str) -> tuple[str, ...]:
        """Return the outputs that hold one entry a row, the boxes first."""
        named = (boxes, self.scores, self.classes, *self.per_row)
        return tuple(dict.fromkeys(name for name in named if name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What an output reads, and how far one row's text may be from the baseline's, in edits.

    `decode` is `ctc` (class scores along `axis`, steps along `time_axis`, `blank` left out), `ids`
    (integers along the last axis, up to `end`) or `strings`.
    """

    decode: str
    axis: int
    time_axis: int
    blank: int
    end: int | None
    alphabet: Path | None
    append_space: bool
    max_edit_distance: int
    near: NearTies


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A function of the repository that judges a case in a process of its own."""

    script: Path
    function: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything that is decided under one name, which is an output's except for a judge."""

    top_k: TopK | None = None
    threshold: Threshold | None = None
    kl: Divergence | None = None
    cosine: Cosine | None = None
    detections: Detections | None = None
    text: Text | None = None
    judge: Judge | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that what is decided here depends on, the judge's script among them."""
        named = (
            self.top_k and self.top_k.labels,
            self.threshold and self.threshold.labels,
            self.detections and self.detections.labels,
            self.text and self.text.alphabet,
            self.judge and self.judge.script,
        )
        return tuple(dict.fromkeys(path for path in named if path))


def build_decisions(
    value: Mapping[str, Mapping[str, Any]], inside: Inside
) -> Mapping[str, Decision]:
    """Build the decisions of a policy from a value that is valid and has its defaults set.

    Raises:
        ConfigError: a file leaves the deployment's folder, or keys that exclude each other.
    """
    return {
        name: Decision(
            **{
                kind: _BUILDERS[kind](raw, inside, f"$.policy.decisions.{name}.{kind}")
                for kind, raw in decided.items()
            }
        )
        for name, decided in value.items()
    }


def _top_k(raw: Mapping[str, Any], inside: Inside, place: str) -> TopK:
    return TopK(
        k=raw["k"], axis=raw["axis"], ordered=raw["order"], max_flips=raw["max_flips"],
        near=_near_ties(raw), labels=_file(raw, "labels", inside, place),
    )  # fmt: skip


def _threshold(raw: Mapping[str, Any], inside: Inside, place: str) -> Threshold:
    return Threshold(
        at=float(raw["at"]), axis=raw["axis"], max_flips=raw["max_flips"], near=_near_ties(raw),
        labels=_file(raw, "labels", inside, place),
    )  # fmt: skip


def _kl(raw: Mapping[str, Any], _: Inside, __: str) -> Divergence:
    return Divergence(max_nats=float(raw["max"]), axis=raw["axis"], softmax=raw["softmax"])


def _cosine(raw: Mapping[str, Any], _: Inside, __: str) -> Cosine:
    return Cosine(minimum=float(raw["min"]), axis=raw["axis"])


def _detections(raw: Mapping[str, Any], inside: Inside, place: str) -> Detections:
    packed = raw.get("columns")
    if packed and any(raw[key] for key in ("scores", "classes")):
        raise ConfigError(
            "'columns' says where one output keeps scores and classes; other outputs cannot too",
            where=place,
            remedy="leave out 'columns', or 'scores' and 'classes'",
        )
    scored = "score" in packed if packed else bool(raw["scores"])
    for key in ("score", "max_score_change"):
        if key in raw and not scored:
            raise ConfigError(
                f"'{key}' needs scores, and no output or column is named for them",
                where=place,
                remedy="name the output in 'scores' or the column in 'columns.score'",
            )
    columns = (
        Columns(
            box=packed["box"], score=packed.get("score"), label=packed.get("class"),
            image=packed.get("image"),
        )
        if packed
        else None
    )  # fmt: skip
    return Detections(
        box_format=raw["format"], scores=raw["scores"], classes=raw["classes"],
        count=raw["count"], per_row=tuple(raw["per_row"]), columns=columns, iou=float(raw["iou"]),
        score=_number(raw, "score"), max_unmatched=raw["max_unmatched"],
        max_score_change=_number(raw, "max_score_change"), near=_near_ties(raw),
        labels=_file(raw, "labels", inside, place),
    )  # fmt: skip


def _text(raw: Mapping[str, Any], inside: Inside, place: str) -> Text:
    if raw["decode"] == "ctc" and raw["axis"] == raw["time_axis"]:
        raise ConfigError(
            "classes and steps cannot lie along one axis",
            where=f"{place}.time_axis",
            remedy="'axis' is the axis of the classes, 'time_axis' that of the steps",
        )
    return Text(
        decode=raw["decode"], axis=raw["axis"], time_axis=raw["time_axis"], blank=raw["blank"],
        end=raw.get("end"), alphabet=_file(raw, "alphabet", inside, place),
        append_space=raw["append_space"], max_edit_distance=raw["max_edit_distance"],
        near=_near_ties(raw),
    )  # fmt: skip


def _judge(raw: Mapping[str, Any], inside: Inside, place: str) -> Judge:
    script, _, function = raw["entry"].rpartition(":")
    return Judge(
        script=inside(script, f"{place}.entry"),
        function=function,
        timeout_s=float(raw["timeout_s"]),
    )


def _near_ties(raw: Mapping[str, Any]) -> NearTies:
    return NearTies(margin=_number(raw, "near_tie"), fail=raw["near_ties"] == "fail")


def _number(raw: Mapping[str, Any], key: str) -> float | None:
    return float(raw[key]) if key in raw else None


def _file(raw: Mapping[str, Any], key: str, inside: Inside, place: str) -> Path | None:
    return inside(raw[key], f"{place}.{key}") if key in raw else None


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any], Inside, str], Any]] = {
    "top_k": _top_k, "threshold": _threshold, "kl": _kl, "cosine": _cosine,
    "detections": _detections, "text": _text, "judge": _judge,
}  # fmt: skip
