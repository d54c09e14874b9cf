"""A value that is valid under the schema, defaults set, to the records of a pipeline.

What one key means together with another is checked here, all problems at once; no file is opened.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ci_parity.base.errors import ConfigError
from ci_parity.preprocess.build_image import image
from ci_parity.preprocess.model import (
    AudioPipeline,
    BytesPipeline,
    Column,
    Constant,
    EntryPipeline,
    Kind,
    Padding,
    Pipeline,
    TabularInput,
    TabularPipeline,
    TextPipeline,
    Truncation,
    Window,
)
from ci_parity.preprocess.problems import Problems

MAX_CONSTANT = 2**24


def build(value: Mapping[str, Any], *, path: Path) -> Pipeline:
    """Build the pipeline that a complete value describes.

    Raises:
        ConfigError: with every combination of keys that has no meaning.
    """
    problems = Problems(path.name)
    named = [name for name in _BUILDERS if name in value]
    if len(named) != 1:
        given = " and ".join(named) if named else "none of them"
        raise ConfigError(
            f"a pipeline is exactly one of {', '.join(_BUILDERS)}; this file has {given}",
            where=path.name,
            remedy="inputs that need nothing of the raw file are 'constants'",
        )
    kind = _BUILDERS[named[0]](value[named[0]], problems)
    pipeline = Pipeline(
        root=path.parent,
        origin=path.name,
        kind=kind,
        constants=tuple(_constant(name, raw, problems) for name, raw in value["constants"].items()),
    )
    twice = set(input_names(kind)) & {constant.name for constant in pipeline.constants}
    for name in sorted(twice):
        problems.add(f"$.constants.{name}", "the pipeline already makes this input")
    problems.end()
    return pipeline


def input_names(kind: Kind) -> tuple[str, ...]:
    """Return the inputs that a raw file feeds; an entry's are known when it has run."""
    match kind:
        case TextPipeline():
            return tuple(name for name, _ in kind.outputs)
        case TabularPipeline():
            return tuple(item.name for item in kind.inputs)
        case EntryPipeline():
            return ()
        case _:
            return (kind.input,)


def _text(raw: Mapping[str, Any], problems: Problems) -> TextPipeline:
    if raw["prompt"].count("{text}") != 1:
        problems.add("$.text.prompt", "{text} stands in a template once")
    truncation, padding = raw["truncation"], raw["padding"]
    if isinstance(padding, dict) and ("length" in padding) == ("multiple" in padding):
        problems.add("$.text.padding", "give 'length' or 'multiple'")
    return TextPipeline(
        tokenizer=raw["tokenizer"], normalise=tuple(raw["normalise"]), prompt=raw["prompt"],
        special_tokens=raw["special_tokens"],
        truncation=Truncation(**truncation) if isinstance(truncation, dict) else truncation,
        padding=_padding(padding) if isinstance(padding, dict) else padding,
        outputs=tuple(raw["outputs"].items()), batch=raw["batch"], dtype=raw["dtype"],
    )  # fmt: skip


def _padding(raw: Mapping[str, Any]) -> Padding:
    return Padding(
        length=raw.get("length"), multiple=raw.get("multiple"), side=raw["side"],
        id=raw.get("id"), token=raw.get("token"),
    )  # fmt: skip


def _bytes(raw: Mapping[str, Any], problems: Problems) -> BytesPipeline:
    if not raw["beginning"] + raw["middle"] + raw["end"]:
        problems.add("$.bytes", "beginning, middle and end are all 0: no byte is taken")
    if raw["dtype"] == "uint8" and not 0 <= raw["padding"] <= 255:
        problems.add("$.bytes.padding", f"{raw['padding']} does not fit into uint8")
    return BytesPipeline(**raw)


def _audio(raw: Mapping[str, Any], problems: Problems) -> AudioPipeline:
    window = raw.get("window")
    if window and "hop" in window:
        if raw["channels"] == "keep":
            problems.add("$.audio.window.hop", "several windows are of one channel; not of 'keep'")
        if raw["batch"]:
            problems.add("$.audio.batch", "windows are the batch already; say 'batch: false'")
    return AudioPipeline(
        input=raw["input"], channels=raw["channels"], rate=raw.get("rate"),
        quality=raw["quality"], window=_window(window) if window else None,
        scale=float(raw["scale"]), batch=raw["batch"], dtype=raw["dtype"],
    )  # fmt: skip


def _window(raw: Mapping[str, Any]) -> Window:
    return Window(
        length=raw["length"], offset=raw["offset"], hop=raw.get("hop"), side=raw["side"],
        value=float(raw["value"]), partial=raw["partial"],
    )  # fmt: skip


def _tabular(raw: Mapping[str, Any], problems: Problems) -> TabularPipeline:
    columns = tuple(_column(name, item, problems) for name, item in raw["columns"].items())
    types = {column.name: column.type for column in columns}
    inputs = []
    for name, item in raw["inputs"].items():
        place = f"$.tabular.inputs.{name}"
        for column in item["columns"]:
            if column not in types:
                problems.add(place, f"column {column!r} is not among the columns")
            elif (types[column] == "text") != (item["dtype"] == "string"):
                problems.add(place, f"column {column!r} is {types[column]}; not {item['dtype']}")
        inputs.append(TabularInput(name=name, columns=tuple(item["columns"]), dtype=item["dtype"]))
    return TabularPipeline(
        format=raw["format"], delimiter=raw["delimiter"], gaps=tuple(raw["gaps"]),
        columns=columns, inputs=tuple(inputs),
    )  # fmt: skip


def _column(name: str, raw: Mapping[str, Any], problems: Problems) -> Column:
    place = f"$.tabular.columns.{name}"
    category = raw["type"] == "category"
    if category != ("categories" in raw):
        problems.add(place, "a category, and nothing else, has 'categories'")
    if "unknown" in raw and not category:
        problems.add(place, "only a category can be unknown")
    missing = raw.get("missing")
    if missing is not None and raw["type"] != "text":
        if missing == "nan":
            missing = math.nan
        elif isinstance(missing, str):
            problems.add(f"{place}.missing", "a number, or nan")
    elif missing is not None and not isinstance(missing, str):
        problems.add(f"{place}.missing", "a text")
    return Column(
        name=name, type=raw["type"], categories=tuple(raw.get("categories", ())),
        first_id=raw["first_id"], missing=missing, unknown=raw.get("unknown"),
    )  # fmt: skip


def _entry(raw: Mapping[str, Any], problems: Problems) -> EntryPipeline:
    if "requires" in raw and "python" in raw:
        problems.add("$.entry", "keep 'requires', or 'python' for an interpreter that has them")
    script, _, function = raw["call"].rpartition(":")
    return EntryPipeline(
        script=script, function=function, files=tuple(raw["files"]),
        requires=raw.get("requires", ""), python=raw.get("python", ""),
    )  # fmt: skip


def _constant(name: str, raw: Mapping[str, Any], problems: Problems) -> Constant:
    given, shape = raw["value"], tuple(raw["shape"])
    values = tuple(given) if isinstance(given, list) else (given,)
    size = math.prod(shape)
    if size > MAX_CONSTANT:
        problems.add(f"$.constants.{name}.shape", f"more than {MAX_CONSTANT:,} elements")
    if isinstance(given, list) and len(values) != size:
        problems.add(f"$.constants.{name}.value", f"{len(values)} values for {size} elements")
    return Constant(name=name, dtype=raw["dtype"], shape=shape, values=values)


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any], Problems], Kind]] = {
    "image": image, "text": _text, "bytes": _bytes, "audio": _audio, "tabular": _tabular,
    "entry": _entry,
}  # fmt: skip
