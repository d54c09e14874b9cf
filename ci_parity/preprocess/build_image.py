"""The `image` of a pipeline's file to its records, and what its steps mean one after another."""

from collections.abc import Mapping
from typing import Any

from ci_parity.preprocess.model import (
    Crop,
    Decode,
    ImagePipeline,
    ImageStep,
    Normalise,
    Pad,
    Resize,
    Scale,
    Size,
)
from ci_parity.preprocess.problems import Problems

CHANNELS = {"RGB": 3, "BGR": 3, "grey": 1}
SAMPLED = ("nearest", "bilinear", "bicubic")
_ONE_SIDE = ("shortest", "longest", "height", "width")


def image(raw: Mapping[str, Any], problems: Problems) -> ImagePipeline:
    """Build the pipeline of a picture from a value that has its defaults set."""
    decode = raw["decode"]
    channels = CHANNELS[decode["channels"]]
    background = decode.get("background")
    steps = []
    on_pixels = True
    for index, item in enumerate(raw["steps"]):
        ((name, step),) = item.items()
        place = f"$.image.steps[{index}].{name}"
        if name == "resize" and not on_pixels:
            problems.add(place, "stands after scale or normalise; resize works on 8-bit pixels")
        on_pixels = on_pixels and name not in ("scale", "normalise")
        steps.append(_step(name, step, channels, place, problems))
    return ImagePipeline(
        input=raw["input"],
        decode=Decode(
            channels=decode["channels"], exif=decode["exif"],
            background=(background[0], background[1], background[2]) if background else None,
        ),
        steps=tuple(steps), layout=raw["layout"], batch=raw["batch"], dtype=raw["dtype"],
    )  # fmt: skip


def _step(
    name: str, raw: Mapping[str, Any], channels: int, place: str, problems: Problems
) -> ImageStep:
    match name:
        case "resize":
            return _resize(raw, place, problems)
        case "crop":
            size = _size(raw["size"])
            return Crop(size=size, rounding=raw["rounding"], fill=float(raw["fill"]))
        case "pad":
            if ("size" in raw) == ("multiple" in raw):
                problems.add(place, "give 'size' or 'multiple'")
            return Pad(
                size=_size(raw["size"]) if "size" in raw else None,
                multiple=raw.get("multiple"), side=raw["side"],
                fill=_values(raw["fill"], channels, f"{place}.fill", problems),
            )  # fmt: skip
        case "scale":
            divided = "divide" in raw
            return Scale(
                factor=float(raw["divide"] if divided else raw["multiply"]), divided=divided
            )
        case _:
            std = _values(raw["std"], channels, f"{place}.std", problems)
            if not all(std):
                problems.add(f"{place}.std", "0 divides nothing")
            mean = _values(raw["mean"], channels, f"{place}.mean", problems)
            return Normalise(mean=mean, std=std)


def _resize(raw: Mapping[str, Any], place: str, problems: Problems) -> Resize:
    if not raw["antialias"] and raw["filter"] not in SAMPLED:
        problems.add(place, f"{raw['filter']} is always antialiased")
    if raw["policy"] in _ONE_SIDE and isinstance(raw["size"], list):
        problems.add(f"{place}.size", f"{raw['policy']} takes one number")
    return Resize(
        policy=raw["policy"], size=_size(raw["size"]), when=raw["when"], filter=raw["filter"],
        antialias=raw["antialias"], rounding=raw["rounding"], multiple=raw["multiple"],
        multiple_rounding=raw["multiple_rounding"], max_side=raw.get("max_side"),
    )  # fmt: skip


def _size(value: Any) -> Size:  # noqa: ANN401 - a number or two of them
    return (value[0], value[1]) if isinstance(value, list) else (value, value)


def _values(
    value: Any,  # noqa: ANN401 - a number or some of them
    channels: int,
    place: str,
    problems: Problems,
) -> tuple[float, ...]:
    found = tuple(float(item) for item in value) if isinstance(value, list) else (float(value),)
    if len(found) not in (1, channels):
        problems.add(place, f"{len(found)} values for {channels} channels")
    return found
