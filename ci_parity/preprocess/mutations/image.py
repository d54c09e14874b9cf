"""What goes wrong between a picture's file and its tensor."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ci_parity.base.words import numbers
from ci_parity.preprocess.build_image import SAMPLED
from ci_parity.preprocess.model import (
    Crop,
    ImagePipeline,
    ImageStep,
    Normalise,
    Pad,
    Resize,
    Scale,
)
from ci_parity.preprocess.mutations.mutation import Mutation, ending

FILTERS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
_ROUNDINGS = ("floor", "nearest", "ceil")
_FILLS = (0.0, 0.5, 1.0, 114.0, 127.0, 128.0, 255.0)
_FACTORS = (255.0, 256.0, 127.5, 128.0)
_STATISTICS = {
    "ImageNet's": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CLIP's": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "0.5": ((0.5,), (0.5,)),
    "127.5": ((127.5,), (127.5,)),
}


def mutations(pipeline: ImagePipeline) -> Iterator[Mutation]:
    """Yield every single change of a picture's pipeline that is tried."""
    yield from _decoding(pipeline)
    for index, step in enumerate(pipeline.steps):
        for name, words, changed in _of_step(step):
            key = f"image.steps[{index}].{type(step).__name__.lower()}{name}"
            yield _with(pipeline, key, words, _replaced(pipeline.steps, index, changed))
    yield from _orders(pipeline)
    yield from _shapes(pipeline)
    yield from _arithmetic(pipeline)
    other = "NHWC" if pipeline.layout == "NCHW" else "NCHW"
    yield Mutation(
        key="image.layout", words=f"layout {other} instead of {pipeline.layout}",
        kind=replace(pipeline, layout=other),
    )  # fmt: skip
    yield from ending("image", pipeline)


def _decoding(pipeline: ImagePipeline) -> Iterator[Mutation]:
    decode = pipeline.decode
    for channels in ("RGB", "BGR", "grey"):
        if channels == decode.channels or ("grey" in (channels, decode.channels)
                                           and not _any_channels(pipeline)):  # fmt: skip
            continue
        words = f"{channels} instead of {decode.channels}"
        changed = replace(pipeline, decode=replace(decode, channels=channels))
        yield Mutation(key="image.decode.channels", words=words, kind=changed)
        if not _any_channels(pipeline):
            turned = tuple(map(_reversed, pipeline.steps))
            words = f"{words}, with mean, std and padding in that order too"
            yield _with(changed, "image.decode.channels+statistics", words, turned)
    words = "EXIF orientation ignored" if decode.exif else "the EXIF orientation applied"
    yield Mutation(
        key="image.decode.exif", words=words,
        kind=replace(pipeline, decode=replace(decode, exif=not decode.exif)),
    )  # fmt: skip
    grounds = {"transparency dropped": None, "white under transparent parts": (255, 255, 255),
               "black under transparent parts": (0, 0, 0)}  # fmt: skip
    for words, ground in grounds.items():
        yield Mutation(
            key="image.decode.background", words=words,
            kind=replace(pipeline, decode=replace(decode, background=ground)),
        )  # fmt: skip


def _of_step(step: ImageStep) -> Iterator[tuple[str, str, tuple[ImageStep, ...]]]:
    """Yield key, words and what takes the place of one step."""
    match step:
        case Resize():
            yield from _resizes(step)
        case Crop():
            other = "nearest" if step.rounding == "floor" else "floor"
            words = f"the middle of the crop rounded {other} instead of {step.rounding}"
            yield ".rounding", words, (replace(step, rounding=other),)
            yield "", "no crop", ()
        case Pad():
            for side in ("end", "start", "both"):
                words = f"padding at {side} instead of {step.side}"
                yield ".side", words, (replace(step, side=side),)
            for fill in _FILLS:
                words = f"padding of value {fill:g} instead of {numbers(step.fill)}"
                yield ".fill", words, (replace(step, fill=(fill,)),)
            yield "", "no padding", ()
        case Scale():
            verb = "divided" if step.divided else "multiplied"
            yield "", f"values not {verb} by {step.factor:g}", ()
            for factor in _FACTORS if step.divided else ():
                words = f"values divided by {factor:g} instead of {step.factor:g}"
                yield ".divide", words, (replace(step, factor=factor),)
        case Normalise():
            yield from _normalises(step)


def _resizes(step: Resize) -> Iterator[tuple[str, str, tuple[ImageStep, ...]]]:
    for name in FILTERS:
        if step.antialias or name in SAMPLED:
            words = f"{name} instead of {step.filter} resampling"
            yield ".filter", words, (replace(step, filter=name),)
    if step.filter in SAMPLED:
        words = "resampling without antialias" if step.antialias else "resampling with antialias"
        yield ".antialias", words, (replace(step, antialias=not step.antialias),)
    for policy in ("exact", "shortest", "longest", "fit", "height", "width"):
        one = policy in ("shortest", "longest", "height", "width")
        if not one or step.size[0] == step.size[1]:
            words = f"resize policy {policy} instead of {step.policy}"
            yield ".policy", words, (replace(step, policy=policy),)
    if step.size[0] != step.size[1]:
        swapped = replace(step, size=(step.size[1], step.size[0]))
        yield ".size", "height and width exchanged in the resize", (swapped,)
    for rounding in _ROUNDINGS:
        words = f"the side that follows rounded {rounding} instead of {step.rounding}"
        yield ".rounding", words, (replace(step, rounding=rounding),)
        words = f"multiples rounded {rounding} instead of {step.multiple_rounding}"
        if step.multiple > 1:
            yield ".multiple_rounding", words, (replace(step, multiple_rounding=rounding),)
    yield ".multiple", "sides that are no multiples", (replace(step, multiple=1),)
    yield ".max_side", "the side that follows unbounded", (replace(step, max_side=None),)
    yield ".when", "every picture resized", (replace(step, when="always"),)
    yield "", "no resize", ()


def _normalises(step: Normalise) -> Iterator[tuple[str, str, tuple[ImageStep, ...]]]:
    mean, std = step.mean, step.std
    yield "", "no mean subtracted and no division by std", ()
    yield ".mean", "no mean subtracted", (replace(step, mean=(0.0,)),)
    yield ".std", "no division by std", (replace(step, std=(1.0,)),)
    if all(mean):
        yield "", "mean and std exchanged", (replace(step, mean=std, std=mean),)
    backwards = mean[::-1], std[::-1]
    yield ".mean", "mean in the reverse channel order", (replace(step, mean=backwards[0]),)
    yield ".std", "std in the reverse channel order", (replace(step, std=backwards[1]),)
    both = replace(step, mean=backwards[0], std=backwards[1])
    yield "", "mean and std in the reverse channel order", (both,)
    channels = max(len(mean), len(std))
    for name, (other, spread) in _STATISTICS.items():
        if len(other) in (1, channels):
            changed = Normalise(mean=other, std=spread)
            yield (
                "",
                f"{name} mean and std instead of {numbers(mean)} and {numbers(std)}",
                (changed,),
            )


def _orders(pipeline: ImagePipeline) -> Iterator[Mutation]:
    """Exchange two neighbouring steps where their order matters."""
    steps = pipeline.steps
    for index in range(len(steps) - 1):
        one, two = steps[index : index + 2]
        if not _may_precede(two, one):
            continue
        names = [type(step).__name__.lower() for step in (two, one)]
        yield _with(
            pipeline, f"image.steps[{index}]", f"{names[0]} before {names[1]}",
            (*steps[:index], two, one, *steps[index + 2 :]),
        )  # fmt: skip
    for index, step in enumerate(steps):
        if not isinstance(step, Pad):
            continue
        rest = (*steps[:index], *steps[index + 1 :])
        first = next((i for i, s in enumerate(rest) if isinstance(s, Scale | Normalise)), len(rest))
        if first < index:
            yield _with(pipeline, f"image.steps[{index}].pad", "padding before scale and normalise",
                        (*rest[:first], step, *rest[first:]))  # fmt: skip
        yield _with(
            pipeline, f"image.steps[{index}].pad", "padding after everything else", (*rest, step)
        )


def _may_precede(step: ImageStep, other: ImageStep) -> bool:
    return not (isinstance(other, Resize) and isinstance(step, Scale | Normalise))


def _shapes(pipeline: ImagePipeline) -> Iterator[Mutation]:
    """Stretch instead of cropping or letterboxing, and the other way round."""
    steps = pipeline.steps
    for index, step in enumerate(steps):
        if not isinstance(step, Resize):
            continue
        rest = steps[index + 1 :]
        for other, follower in enumerate(rest):
            size = follower.size if isinstance(follower, Crop | Pad) else None
            if size is None:
                continue
            kept = (*rest[:other], *rest[other + 1 :])
            stretched = replace(step, policy="exact", size=size, max_side=None)
            named = "cropped" if isinstance(follower, Crop) else "padded"
            yield _with(pipeline, f"image.steps[{index}].resize", f"stretched instead of {named}",
                        (*steps[:index], stretched, *kept))  # fmt: skip
            if isinstance(follower, Crop) and size[0] == size[1] and step.size != size:
                tight = replace(step, size=size)
                words = f"resized to the crop's own {size[0]} instead of {step.size[0]}"
                yield _with(pipeline, f"image.steps[{index}].resize.size", words,
                            (*steps[:index], tight, *rest))  # fmt: skip
        if step.policy == "exact":
            fit = replace(step, policy="fit", rounding="nearest")
            for side in ("both", "end"):
                for fill in (0.0, 114.0):
                    pad = Pad(size=step.size, multiple=None, side=side, fill=(fill,))
                    words = f"a letterbox (padding at {side}, value {fill:g}) instead of stretching"
                    yield _with(pipeline, f"image.steps[{index}].resize", words,
                                (*steps[:index], fit, pad, *rest))  # fmt: skip


def _arithmetic(pipeline: ImagePipeline) -> Iterator[Mutation]:
    """Add the scale or the statistics that the pipeline does not have."""
    steps = pipeline.steps
    if not any(isinstance(step, Scale) for step in steps):
        place = next((i for i, s in enumerate(steps) if isinstance(s, Normalise)), len(steps))
        scaled = (*steps[:place], Scale(factor=255.0, divided=True), *steps[place:])
        yield _with(pipeline, "image.scale", "values divided by 255", scaled)
    if not any(isinstance(step, Normalise) for step in steps):
        for name, (mean, std) in _STATISTICS.items():
            if len(mean) == 1 or pipeline.decode.channels != "grey":
                added = (*steps, Normalise(mean=mean, std=std))
                yield _with(pipeline, "image.normalise", f"{name} mean and std applied", added)


def _any_channels(pipeline: ImagePipeline) -> bool:
    """Say whether no step has one number for each channel."""
    return all(len(values) == 1 for step in pipeline.steps for values in _per_channel(step))


def _per_channel(step: ImageStep) -> Sequence[tuple[float, ...]]:
    match step:
        case Normalise():
            return step.mean, step.std
        case Pad():
            return (step.fill,)
        case _:
            return ()


def _reversed(step: ImageStep) -> ImageStep:
    match step:
        case Normalise():
            return Normalise(mean=step.mean[::-1], std=step.std[::-1])
        case Pad():
            return replace(step, fill=step.fill[::-1])
        case _:
            return step


def _replaced(
    steps: tuple[ImageStep, ...], index: int, changed: tuple[ImageStep, ...]
) -> tuple[ImageStep, ...]:
    return (*steps[:index], *changed, *steps[index + 1 :])


def _with(pipeline: ImagePipeline, key: str, words: str, steps: tuple[ImageStep, ...]) -> Mutation:
    return Mutation(key=key, words=words, kind=replace(pipeline, steps=steps))
