"""What goes wrong between a sound's file and its samples."""

from collections.abc import Iterator
from dataclasses import replace

from ci_parity.preprocess.model import AudioPipeline, Window
from ci_parity.preprocess.mutations.mutation import Mutation, ending

_RATES = (8000, 16000, 22050, 24000, 44100, 48000)
_SCALES = (1.0, 127.0, 128.0, 32767.0, 32768.0)


def mutations(pipeline: AudioPipeline) -> Iterator[Mutation]:
    """Yield every single change of a sound's pipeline that is tried."""
    for channels in ("mean", "left", "right", "keep"):
        words = f"{channels} instead of {pipeline.channels} of the channels"
        yield _changed(pipeline, "channels", words, channels=channels)
    yield _changed(pipeline, "rate", "the sound not resampled", rate=None)
    for rate in _RATES:
        named = "the file's own" if pipeline.rate is None else str(pipeline.rate)
        words = f"{rate} samples a second instead of {named}"
        yield _changed(pipeline, "rate", words, rate=rate)
    for quality in ("VHQ", "HQ", "MQ", "LQ", "QQ"):
        words = f"resample quality {quality} instead of {pipeline.quality}"
        yield _changed(pipeline, "quality", words, quality=quality)
    if pipeline.window is not None:
        yield from _windows(pipeline, pipeline.window)
    for scale in _SCALES:
        words = f"samples times {scale:g} instead of {pipeline.scale:g}"
        yield _changed(pipeline, "scale", words, scale=scale)
    yield from ending("audio", pipeline)


def _windows(pipeline: AudioPipeline, window: Window) -> Iterator[Mutation]:
    near = [0, window.offset + 1, window.offset - 1]
    steps = [window.length, window.length // 2, *([window.hop] if window.hop else [])]
    near += [window.offset + sign * step for step in steps for sign in (1, -1)]
    for offset in near:
        if offset >= 0:
            words = f"windows from sample {offset} on instead of {window.offset}"
            yield _changed(pipeline, "window.offset", words, window=replace(window, offset=offset))
    for side in ("end", "start", "both"):
        words = f"a short window padded at {side} instead of {window.side}"
        yield _changed(pipeline, "window.side", words, window=replace(window, side=side))
    for value in (0.0, -1.0, 1.0):
        words = f"padding of value {value:g} instead of {window.value:g}"
        yield _changed(pipeline, "window.value", words, window=replace(window, value=value))
    if window.hop is not None:
        for hop in (window.length, window.length // 2, window.length // 4):
            if hop:
                words = f"a window every {hop} samples instead of {window.hop}"
                yield _changed(pipeline, "window.hop", words, window=replace(window, hop=hop))
        partial = "drop" if window.partial == "pad" else "pad"
        words = f"a last partial window: {partial} instead of {window.partial}"
        yield _changed(pipeline, "window.partial", words, window=replace(window, partial=partial))
    if window.hop is None or pipeline.batch is False:
        yield _changed(pipeline, "window", "all samples, no window", window=None)


def _changed(pipeline: AudioPipeline, key: str, words: str, **fields: object) -> Mutation:
    kind = replace(pipeline, **fields)  # type: ignore[arg-type]
    return Mutation(key=f"audio.{key}", words=words, kind=kind)
