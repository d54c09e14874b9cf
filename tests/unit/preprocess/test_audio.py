"""Sound: decoding, mixing, resampling and windows against NumPy by hand."""

from pathlib import Path

import numpy as np
import pytest
import soxr

from ci_parity.base.errors import EvidenceError
from ci_parity.preprocess.audio import windowed
from ci_parity.preprocess.execute import apply
from ci_parity.preprocess.model import Window
from tests.support.raw_inputs import sound, wave, write_pipeline


def rebuilt(folder: Path, raw: bytes, words: str = "") -> np.ndarray:
    """Return the tensor of a sound."""
    pipeline = write_pipeline(folder, f"audio: {{input: x, {words}}}")
    return np.asarray(apply(pipeline, raw)["x"])


def stored(samples: np.ndarray) -> np.ndarray:
    """Return 16-bit samples in [-1, 1]."""
    return np.asarray(samples / 32768, np.float32)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("channels: mean", lambda a: a.mean(axis=1)[None]),
        ("channels: left", lambda a: a[:, 0][None]),
        ("channels: right", lambda a: a[:, 1][None]),
        ("channels: keep", lambda a: a.T[None]),
        ("channels: left, batch: false", lambda a: a[:, 0]),
        ("channels: left, scale: 2", lambda a: a[:, 0][None] * 2),
        ("channels: left, scale: 32768, dtype: int16", lambda a: np.rint(a[:, 0][None] * 32768)),
    ],
)
def test_channels_and_form(tmp_path: Path, words: str, expected: object) -> None:
    """Lossless sound gives its samples back, in [-1, 1] times the scale."""
    assert callable(expected)
    np.testing.assert_array_equal(rebuilt(tmp_path, sound(), words), expected(stored(wave())))


@pytest.mark.parametrize("form", ["WAV", "FLAC", "AIFF", "AU"])
def test_every_lossless_form_holds_the_same(tmp_path: Path, form: str) -> None:
    """The container does not matter."""
    made = rebuilt(tmp_path, sound(form=form))
    np.testing.assert_array_equal(made, rebuilt(tmp_path, sound()))


@pytest.mark.parametrize("quality", ["VHQ", "HQ", "MQ", "LQ", "QQ"])
def test_resampling_is_soxrs_after_mixing(tmp_path: Path, quality: str) -> None:
    """Channels are mixed first, at the file's own rate."""
    mixed = rebuilt(tmp_path, sound())[0]
    made = rebuilt(tmp_path, sound(), f"rate: 16000, quality: {quality}")[0]
    np.testing.assert_array_equal(made, soxr.resample(mixed, 8000, 16000, quality=quality))


def test_a_tone_stays_a_tone_when_it_is_resampled(tmp_path: Path) -> None:
    """440 Hz at 8 kHz is 440 Hz at 16 kHz: by the formula, away from the ends."""
    time_s = np.arange(8000) / 8000
    raw = sound(0.5 * np.sin(2 * np.pi * 440 * time_s), 8000, subtype="FLOAT")
    made = rebuilt(tmp_path, raw, "rate: 16000")[0]
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(len(made)) / 16000)
    assert np.abs(made - expected)[500:-500].max() < 1e-4


def test_the_files_own_rate_needs_no_resampling(tmp_path: Path) -> None:
    """The samples stay as they are."""
    np.testing.assert_array_equal(
        rebuilt(tmp_path, sound(), "rate: 8000"), rebuilt(tmp_path, sound())
    )


def window(**fields: object) -> Window:
    """Return a window of three samples with some fields changed."""
    values: dict[str, object] = {
        "length": 3, "offset": 0, "hop": None, "side": "end", "value": 0.0, "partial": "pad",
    }  # fmt: skip
    return Window(**(values | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [0, 1, 2]),
        ({"offset": 3}, [3, 4, 0]),
        ({"offset": 3, "side": "start", "value": 9}, [9, 3, 4]),
        ({"offset": 4, "side": "both"}, [0, 4, 0]),
        ({"hop": 2}, [[0, 1, 2], [2, 3, 4]]),
        ({"hop": 3}, [[0, 1, 2], [3, 4, 0]]),
        ({"hop": 3, "partial": "drop"}, [[0, 1, 2]]),
        ({"hop": 1, "offset": 1}, [[1, 2, 3], [2, 3, 4]]),
    ],
)
def test_windows(fields: dict[str, object], expected: object) -> None:
    """Worked out by hand on the samples 0 to 4."""
    made = windowed(np.arange(5, dtype=np.float32), window(**fields))
    np.testing.assert_array_equal(made, np.array(expected, np.float32))


def test_no_full_window_is_refused() -> None:
    """Dropping the only one would leave nothing."""
    with pytest.raises(EvidenceError, match="shorter than one window"):
        windowed(np.zeros(2, np.float32), window(hop=1, partial="drop"))


def test_there_is_no_right_channel_in_mono(tmp_path: Path) -> None:
    """It is not taken from the left one."""
    with pytest.raises(EvidenceError, match="no right one"):
        rebuilt(tmp_path, sound(wave(channels=1)), "channels: right")


@pytest.mark.parametrize("cut", [60, 200, 4000])
@pytest.mark.parametrize("form", ["WAV", "FLAC"])
def test_a_cut_file_is_refused(tmp_path: Path, form: str, cut: int) -> None:
    """Libsndfile would take what is there."""
    with pytest.raises(EvidenceError, match="sound"):
        rebuilt(tmp_path, sound(form=form)[:cut])


@pytest.mark.parametrize("raw", [b"", b"RIFF", b"\x89PNG\r\n\x1a\n", b"\x80\x04K\x01.", bytes(99)])
def test_what_is_no_sound_is_refused(tmp_path: Path, raw: bytes) -> None:
    """By its content, not its name."""
    with pytest.raises(EvidenceError, match="cannot be decoded"):
        rebuilt(tmp_path, raw)


def test_a_header_that_promises_more_is_refused(tmp_path: Path) -> None:
    """Nothing is allocated for what the header says."""
    raw = bytearray(sound())
    raw[4:8] = b"\xf0\xff\xff\x7f"
    with pytest.raises(EvidenceError, match="its header says 2147483640"):
        rebuilt(tmp_path, bytes(raw))


def test_resampling_to_too_many_samples_is_refused(tmp_path: Path) -> None:
    """A short file at one sample a second would become hours."""
    raw = sound(wave(frames=300_000, channels=1), rate=1)
    with pytest.raises(EvidenceError, match="too long"):
        rebuilt(tmp_path, raw, "rate: 16000")
