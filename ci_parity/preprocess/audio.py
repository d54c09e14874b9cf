"""Encoded sound to samples: decoded by libsndfile, mixed, resampled by soxr, cut into windows.

Samples are read in pieces up to a bound, so that a header that promises more costs nothing; a file
that ends before its header says is refused.
"""

import io
import struct
from collections.abc import Iterator

from ci_parity.base.errors import EvidenceError
from ci_parity.preprocess.model import AudioPipeline, Window
from ci_parity.preprocess.steps import Array, Step, finished, library, refusing

FORMATS = ("WAV", "WAVEX", "FLAC", "OGG", "MP3", "AIFF", "AU")
MAX_SAMPLES = 100_000_000
_PIECE = 2**20
_MAX_CHANNELS = 32
_RIFF_HEADER = 8


def steps(pipeline: AudioPipeline, raw: bytes) -> Iterator[Step]:
    """Yield every step of a sound; the last one is the tensor.

    Raises:
        EvidenceError: the file is no such sound, is broken or too long, or has no right channel.
        InfrastructureError: soundfile or soxr is not installed.
    """
    work = "float64" if pipeline.dtype == "float64" else "float32"
    samples, rate, words = _decoded(raw, work)
    yield Step(name="decode", words=words, array=samples)
    samples = _mixed(samples, pipeline.channels)
    yield Step(name="channels", words=pipeline.channels, array=samples)
    if pipeline.rate is not None and pipeline.rate != rate:
        samples = _resampled(samples, rate, pipeline.rate, pipeline.quality)
        words = f"{rate} to {pipeline.rate} samples a second, soxr {pipeline.quality}"
        yield Step(name="resample", words=words, array=samples)
    if pipeline.channels == "keep":
        samples = samples.T
    if pipeline.window is not None:
        samples = windowed(samples, pipeline.window)
        yield Step(name="window", words=_window_words(pipeline.window), array=samples)
    if pipeline.scale != 1:
        samples = samples * samples.dtype.type(pipeline.scale)
        yield Step(name="scale", words=f"multiplied by {pipeline.scale:g}", array=samples)
    yield finished(pipeline.input, samples, batch=pipeline.batch, dtype=pipeline.dtype)


def _decoded(raw: bytes, dtype: str) -> tuple[Array, int, str]:
    import numpy as np

    soundfile = library("soundfile")
    _refuse_cut(raw)
    with (
        refusing("the sound cannot be decoded", soundfile.SoundFileError, RuntimeError, TypeError),
        soundfile.SoundFile(io.BytesIO(raw)) as sound,
    ):
        channels, frames = sound.channels, sound.frames
        if sound.format not in FORMATS or not 1 <= channels <= _MAX_CHANNELS:
            raise EvidenceError(
                f"{sound.format} of {channels} channels is not read",
                where="the raw input",
                remedy=f"store one of {', '.join(FORMATS)}, at most {_MAX_CHANNELS} channels",
            )
        pieces, count = [], 0
        while len(piece := sound.read(_PIECE // channels, dtype=dtype, always_2d=True)):
            pieces.append(piece)
            count += len(piece)
            if count * channels > MAX_SAMPLES:
                raise _too_long(f"more than {MAX_SAMPLES:,} samples")
        words = f"{sound.format} {sound.subtype}, {channels} channels, {sound.samplerate} Hz"
        rate = int(sound.samplerate)
    if not count or count < frames:
        raise EvidenceError(
            f"the sound ends after {count} of {frames} samples",
            where="the raw input",
            remedy="replace the raw input of this case",
        )
    return np.concatenate(pieces), rate, words


def _refuse_cut(raw: bytes) -> None:
    """Refuse a RIFF file that is shorter than its header says: libsndfile takes what is there."""
    if raw[:4] != b"RIFF" or len(raw) < _RIFF_HEADER:
        return
    (stated,) = struct.unpack("<I", raw[4:_RIFF_HEADER])
    if stated + _RIFF_HEADER > len(raw) + 1:
        raise EvidenceError(
            f"the sound has {len(raw)} bytes, its header says {stated + _RIFF_HEADER}",
            where="the raw input",
            remedy="store the whole file; a recorder that streams leaves no length behind",
        )


def _mixed(samples: Array, channels: str) -> Array:
    match channels:
        case "mean":
            mixed: Array = samples.mean(axis=1, dtype=samples.dtype)
            return mixed
        case "left":
            return samples[:, 0]
        case "right":
            if samples.shape[1] < 2:
                raise EvidenceError(
                    "the sound has one channel, hence no right one",
                    where="the raw input",
                    remedy="store a stereo file, or say 'channels: left'",
                )
            return samples[:, 1]
        case _:
            return samples


def _resampled(samples: Array, old: int, new: int, quality: str) -> Array:
    soxr = library("soxr")
    if samples.size * (new / max(old, 1)) > MAX_SAMPLES:
        raise _too_long(f"resampling from {old} to {new} Hz would make too many samples")
    with refusing("the sound cannot be resampled", RuntimeError):
        made: Array = soxr.resample(samples, old, new, quality=quality)
    return made


def windowed(samples: Array, window: Window) -> Array:
    """Return one window [.., length], or with a hop all of them, [windows, length].

    Raises:
        EvidenceError: there is no full window and partial ones are dropped, or too many.
    """
    import numpy as np

    if window.hop is None:
        return _cut(samples, window.offset, window)
    rest = samples.shape[-1] - window.offset - window.length
    drop = window.partial == "drop"
    count = 1 + (rest // window.hop if drop else -(-max(rest, 0) // window.hop))
    if count < 1 or (drop and rest < 0):
        raise EvidenceError(
            "the sound is shorter than one window",
            where="the raw input",
            remedy="store a longer one, or say 'partial: pad'",
        )
    if count * window.length > MAX_SAMPLES:
        raise _too_long(f"{count} windows of {window.length} samples")
    starts = [window.offset + index * window.hop for index in range(count)]
    return np.stack([_cut(samples, start, window) for start in starts])


def _cut(samples: Array, start: int, window: Window) -> Array:
    import numpy as np

    part = samples[..., start : start + window.length]
    missing = window.length - part.shape[-1]
    if not missing:
        return part
    before = {"end": 0, "start": missing}.get(window.side, missing // 2)
    made = np.full((*part.shape[:-1], window.length), window.value, part.dtype)
    made[..., before : before + part.shape[-1]] = part
    return made


def _window_words(window: Window) -> str:
    hop = "" if window.hop is None else f", every {window.hop}"
    return f"{window.length} samples from {window.offset} on{hop}"


def _too_long(what: str) -> EvidenceError:
    return EvidenceError(
        f"the sound is too long: {what}",
        where="the raw input",
        remedy=f"store one of at most {MAX_SAMPLES:,} samples",
    )
