"""A diagnosis names what reproduces the stored tensor, all of it, and nothing else.

Whether a change reproduces a tensor is asked here with NumPy alone, on arrays that the changed
pipeline makes.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import CiParityError, ConfigError
from ci_parity.preprocess.diagnose import diagnose, diagnose_rebuilt
from ci_parity.preprocess.execute import apply
from ci_parity.preprocess.load import load_pipeline
from ci_parity.preprocess.model import Pipeline
from ci_parity.preprocess.mutations.listing import mutations
from ci_parity.preprocess.mutations.mutation import Mutation
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.preprocess import Diagnosis, Match
from tests.support.raw_inputs import (
    encoded,
    picture,
    pixels,
    sound,
    wave,
    write_pipeline,
    write_tokenizer,
)

IMAGENET = "{normalise: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}"
Made = list[tuple[Mutation, Mapping[str, np.ndarray] | None]]
PIPELINES = {
    "classifier": "image: {input: x, steps: [{resize: {policy: shortest, size: 14}},"
    f" {{crop: {{size: 12}}}}, {{scale: {{divide: 255}}}}, {IMAGENET}]}}",
    "letterbox": "image: {input: x, decode: {channels: BGR}, steps: [{resize: {policy: fit,"
    " size: 16, rounding: nearest, filter: bicubic}}, {pad: {size: 16, side: both, fill: 114}},"
    " {scale: {divide: 255}}]}",
    "reader": "image: {input: x, decode: {channels: BGR}, steps: [{resize: {policy: height,"
    " size: 10, rounding: ceil, max_side: 30, antialias: false}}, {scale: {divide: 255}},"
    " {normalise: {mean: 0.5, std: 0.5}}, {pad: {size: [10, 30]}}]}",
    "quantised": "image: {input: x, steps: [{resize: {size: [9, 13], filter: lanczos}}],"
    " layout: NHWC, dtype: uint8}",
    "text": "text: {normalise: [NFC], prompt: 'same {text}.', padding: {length: 24, id: 0},"
    " truncation: {length: 20}}",
    "two masks": "text: {padding: {length: 40, side: left, id: 0}, truncation: none, dtype: int32,"
    " outputs: {ids: input_ids, mask: attention_mask, types: token_type_ids}}",
    "bytes": "bytes: {input: x, beginning: 24, end: 16, block: 64}",
    "voice": "audio: {input: x, rate: 16000, window: {length: 256, offset: 64}}",
    "frames": "audio: {input: x, channels: left, window: {length: 200, hop: 100}, batch: false}",
    "table": "tabular: {columns: {a: {}, b: {missing: -1}, c: {type: category, categories: [z, x,"
    " y], unknown: 3}}, inputs: {x: {columns: [b, a, c]}}}",
}
RAW = {
    "text": "Ünïted ﬁgures: the models mean the same".encode(),
    "two masks": "  The model é means e\u0301  ".encode(),
    "bytes": b"  #!/bin/sh\necho parity \n" * 9 + b"  \n",
    "voice": sound(wave(500)),
    "frames": sound(wave(450)),
    "table": b"a,b,c\n1,2,x\n4,,z\n-3,0.5,q\n2,7,y\n",
}


def pipeline_of(name: str, folder: Path) -> Pipeline:
    """Write one of the pipelines and its tokenizer, and read it."""
    write_tokenizer(folder, padding=True)
    return write_pipeline(folder, PIPELINES[name])


def raw_of(name: str) -> bytes:
    """Return the raw input of a pipeline; a lossless picture where nothing else is said."""
    return RAW.get(name) or picture(21, 34, seed=3)


def rebuilt(pipeline: Pipeline, mutation: Mutation, raw: bytes) -> Mapping[str, np.ndarray] | None:
    """Return what a changed pipeline makes, None where the raw input does not allow it."""
    try:
        return apply(replace(pipeline, kind=mutation.kind), raw)
    except (CiParityError, ValueError):
        return None


def all_made(pipeline: Pipeline, raw: bytes) -> Made:
    """Return every change with what it makes."""
    return [(m, rebuilt(pipeline, m, raw)) for m in mutations(pipeline.kind)]


def alike(one: Mapping[str, np.ndarray] | None, other: Mapping[str, np.ndarray]) -> bool:
    """Say whether two sets of tensors are the same to the bit."""
    return one is not None and all(
        one[name].dtype == other[name].dtype
        and np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in other
    )


def check(
    pipeline: Pipeline, raw: bytes, stored: Mapping[str, np.ndarray], made: Made | None = None
) -> Diagnosis:
    """Diagnose, and hold the causes against every change tried by hand."""
    made = all_made(pipeline, raw) if made is None else made
    found = diagnose(pipeline, raw, stored, seconds=600)
    if alike(apply(pipeline, raw), stored):
        assert (found.match, found.causes) == (Match.EQUAL, ())
        return found
    assert found.match in (Match.DIFFERENT, Match.WITHIN)
    assert found.untried == 0
    right = {(m.key, m.words) for m, tensors in made if alike(tensors, stored)}
    if found.match is Match.WITHIN and not found.tried:
        # Rounding is no mistake, even where a change that moves no more than it gives the same.
        assert found.causes == ()
        for name, made_here in apply(pipeline, raw).items():
            limit = 0.01 * max(1.0, float(np.abs(made_here).max()))
            assert np.allclose(stored[name], made_here, rtol=0, atol=limit)
    elif right:
        assert {(cause.key, cause.words) for cause in found.causes} == right
        assert all(cause.exact and cause.max_abs == 0 for cause in found.causes)
        assert all(cause.words in found.words for cause in found.causes)
    else:
        assert not any(cause.exact for cause in found.causes)
    return found


@pytest.mark.parametrize("name", PIPELINES)
def test_every_change_is_named_and_no_other(name: str, tmp_path: Path) -> None:
    """Each in turn makes the stored tensor; whatever gives the same is named with it."""
    pipeline, raw = pipeline_of(name, tmp_path), raw_of(name)
    named = 0
    made = all_made(pipeline, raw)
    for mutation, stored in made:
        if stored is not None:
            found = check(pipeline, raw, stored, made)
            keys = {(cause.key, cause.words) for cause in found.causes}
            assert found.match is Match.EQUAL or (mutation.key, mutation.words) in keys
            named += found.match is not Match.EQUAL
    assert named >= 8


STEPS = st.tuples(
    st.sampled_from([
        "", "{resize: {size: [9, 12]}}", "{resize: {policy: shortest, size: 11, filter: bicubic}}",
        "{resize: {policy: fit, size: [12, 20], antialias: false}}",
        "{resize: {policy: longest, size: 16, multiple: 4, filter: hamming}}",
    ]),
    st.sampled_from(["", "{crop: {size: 8}}", "{pad: {size: [20, 24], side: both, fill: 7}}",
                     "{pad: {multiple: 8}}"]),
    st.sampled_from(["", "{scale: {divide: 255}}", "{scale: {multiply: 0.0078125}}"]),
    st.sampled_from(["", IMAGENET, "{normalise: {mean: 0.5, std: [0.5, 0.4, 0.5]}}",
                     "{normalise: {mean: 127, std: 128}}"]),
)  # fmt: skip
FORMS = st.tuples(
    st.sampled_from(["RGB", "BGR"]), st.booleans(), st.sampled_from(["NCHW", "NHWC"]),
    st.booleans(), st.sampled_from(["float32", "float16", "float64", "int8"]),
)  # fmt: skip


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, form=FORMS, seed=st.integers(0, 20), chosen=st.integers(0, 10_000),
       second=st.none() | st.integers(0, 10_000), turned=st.sampled_from([1, 6]))  # fmt: skip
def test_random_picture_pipelines(
    tmp_path: Path, *, steps: tuple[str, ...], form: tuple[object, ...], seed: int, chosen: int,
    second: int | None, turned: int,
) -> None:  # fmt: skip
    """One change, or two at once: nothing is named that does not reproduce the tensor."""
    channels, exif, layout, batch, dtype = form
    text = (
        f"image: {{input: x, steps: [{', '.join(filter(None, steps))}], layout: {layout},"
        f" batch: {str(batch).lower()}, dtype: {dtype},"
        f" decode: {{channels: {channels}, exif: {str(exif).lower()}}}}}"
    )
    pipeline = write_pipeline(tmp_path, text)
    raw = encoded(pixels(13 + seed % 5, 21, seed), orientation=turned)
    listed = mutations(pipeline.kind)
    kind = listed[chosen % len(listed)].kind
    if second is not None:
        again = mutations(kind)
        kind = again[second % len(again)].kind
    try:
        stored = apply(replace(pipeline, kind=kind), raw)
    except (CiParityError, ValueError):
        return
    check(pipeline, raw, stored)


def test_what_nothing_explains_has_no_cause(tmp_path: Path) -> None:
    """Noise of the right form: where and how far it differs is said instead."""
    pipeline, raw = pipeline_of("classifier", tmp_path), picture(21, 34)
    stored = np.random.default_rng(0).normal(size=(1, 3, 12, 12)).astype(np.float32)
    found = diagnose(pipeline, raw, {"x": stored})
    assert (found.match, found.causes) == (Match.DIFFERENT, ())
    assert found.tried > 40
    (item,) = found.inputs
    assert item.differing == stored.size
    apart = np.abs(apply(pipeline, raw)["x"].astype(np.float64) - stored)
    assert item.max_abs == apart.max()
    assert apart[item.worst] == apart.max()
    assert f"none of {found.tried} single changes reproduces it" in found.words


@pytest.mark.parametrize(
    ("form", "levels", "share", "match"),
    [
        ("JPEG", 1, 0.2, Match.WITHIN),
        ("JPEG", 2, 0.2, Match.DIFFERENT),
        ("JPEG", 1, 1.0, Match.DIFFERENT),
        ("PNG", 1, 0.2, Match.DIFFERENT),
        ("PNG", 0, 0.2, Match.EQUAL),
    ],
)
def test_another_decoder_may_differ_by_a_level_here_and_there(
    tmp_path: Path, form: str, levels: int, share: float, match: Match
) -> None:
    """Not by two, not everywhere, and not where decoding is exact."""
    pipeline = write_pipeline(tmp_path, "image: {input: x, steps: [{scale: {divide: 255}}]}")
    raw = encoded(np.clip(pixels(24, 24), 10, 240), form)
    made = apply(pipeline, raw)["x"]
    generator = np.random.default_rng(1)
    noise = generator.choice([-levels, levels], made.shape) * (generator.random(made.shape) < share)
    stored = made + (noise / 255).astype(np.float32)
    found = diagnose(pipeline, raw, {"x": stored})
    assert found.match is match
    assert found.causes == ()


def test_a_shift_of_half_a_level_is_no_decoders(tmp_path: Path) -> None:
    """A mean of 127.5 for 128 stays far within a level, and is everywhere."""
    text = "image: {input: x, steps: [{resize: {size: 9}}, {normalise: {mean: 128, std: 128}}]}"
    pipeline, raw = write_pipeline(tmp_path, text), picture(20, 20, form="JPEG")
    stored = {"x": apply(pipeline, raw)["x"] + np.float32(0.5 / 128)}
    assert diagnose(pipeline, raw, stored).match is Match.DIFFERENT


@pytest.mark.parametrize("order", ["divided last", "float64"])
def test_another_order_of_arithmetic_is_rounding(tmp_path: Path, order: str) -> None:
    """X / (255 std) - mean / std, or the whole in float64, is the same pipeline."""
    pipeline = write_pipeline(
        tmp_path, f"image: {{input: x, steps: [{{scale: {{divide: 255}}}}, {IMAGENET}]}}"
    )
    raw = picture(24, 24)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    array = apply(write_pipeline(tmp_path, "image: {input: x, layout: NHWC}"), raw)["x"]
    if order == "float64":
        made = (array.astype(np.float64) / 255 - mean) / std
    else:
        made = array * np.float32(1 / (255 * std)) - np.float32(mean / std)
    stored = made.astype(np.float32).transpose(0, 3, 1, 2)
    found = diagnose(pipeline, raw, {"x": stored})
    assert found.match is Match.WITHIN
    assert "rounding" in found.words


def test_a_cause_is_found_through_another_decoder(tmp_path: Path) -> None:
    """Swapped channels of a picture whose levels are off by one here and there."""
    pipeline = write_pipeline(tmp_path, "image: {input: x, steps: [{scale: {divide: 255}}]}")
    raw = encoded(np.clip(pixels(24, 24), 10, 240), "JPEG")
    made = apply(pipeline, raw)["x"][:, ::-1]
    noise = (np.random.default_rng(1).random(made.shape) < 0.1) / 255
    found = diagnose(pipeline, raw, {"x": (made + noise).astype(np.float32)})
    assert [cause.words for cause in found.causes] == ["BGR instead of RGB"]
    assert not found.causes[0].exact
    assert found.words.startswith("the stored tensor is what BGR instead of RGB gives, to within")


def test_inputs_that_only_one_side_has_are_differences(tmp_path: Path) -> None:
    """A stored input that the pipeline does not make, and one that is not stored."""
    pipeline = write_pipeline(tmp_path, "bytes: {input: x, beginning: 4, end: 0}")
    made = apply(pipeline, b"parity")["x"]
    found = diagnose(pipeline, b"parity", {"x": made, "state": np.zeros(3)})
    assert found.match is Match.DIFFERENT
    assert {item.name: item.match for item in found.inputs} == {
        "x": Match.EQUAL, "state": Match.EXTRA,
    }  # fmt: skip
    assert found.causes == ()
    assert "the pipeline does not make it" in found.words
    none = diagnose(pipeline, b"parity", {})
    assert [item.match for item in none.inputs] == [Match.MISSING]


def test_no_time_is_said(tmp_path: Path) -> None:
    """No cause found is then not the same as no such cause."""
    pipeline = pipeline_of("bytes", tmp_path)
    stored = {"x": apply(pipeline, RAW["bytes"])["x"] + 1}
    found = diagnose(pipeline, RAW["bytes"], stored, seconds=-1)
    assert (found.tried, found.causes) == (0, ())
    assert found.untried == len(mutations(pipeline.kind))
    assert f"{found.untried} changes were not tried" in found.words


def test_what_a_function_rebuilt_is_compared_alone(tmp_path: Path) -> None:
    """The pipeline itself is refused; its answer is compared without a search."""
    (tmp_path / "p.py").write_text("")
    pipeline = write_pipeline(tmp_path, "entry: {call: 'p.py:f'}")
    with pytest.raises(ConfigError):
        diagnose(pipeline, b"x", {})
    one = {"x": np.array([1, 2], np.float32)}
    assert diagnose_rebuilt(one, {"x": np.array([1, 2], np.float32)}).match is Match.EQUAL
    assert diagnose_rebuilt(one, {"x": np.array([1, 3], np.float32)}).match is Match.DIFFERENT
    assert diagnose_rebuilt(one, {"x": np.array([1, 2], np.float64)}).match is Match.DIFFERENT
    assert diagnose_rebuilt({}, {}).match is Match.DIFFERENT


@pytest.mark.parametrize(
    ("one", "other", "match"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], Match.EQUAL),
        ([np.nan, 1.0], [0.0, 1.0], Match.DIFFERENT),
        ([np.inf, 1.0], [np.inf, 1.0], Match.EQUAL),
        ([np.inf, 1.0], [-np.inf, 1.0], Match.DIFFERENT),
        ([np.inf, 1.0], [1.0, 1.0], Match.DIFFERENT),
    ],
)
def test_values_that_are_no_numbers(one: list[float], other: list[float], match: Match) -> None:
    """NaN stands for NaN alone, an infinity for itself."""
    found = diagnose_rebuilt({"x": np.array(one, np.float32)}, {"x": np.array(other, np.float32)})
    assert found.match is match


def test_texts_and_great_integers_are_compared_exactly() -> None:
    """Neighbours beyond 2^53 are different; so are two spellings."""
    great = {"x": np.array([2**53, 2**53 + 1])}
    assert diagnose_rebuilt(great, {"x": np.array([2**53, 2**53])}).match is Match.DIFFERENT
    text = {"x": np.array([["a"], ["b"]], object)}
    assert diagnose_rebuilt(text, {"x": np.array([["a"], ["b"]])}).match is Match.EQUAL
    assert diagnose_rebuilt(text, {"x": np.array([["a"], ["c"]], object)}).match is Match.DIFFERENT


def test_a_diagnosis_is_plain_json(tmp_path: Path) -> None:
    """It travels between machines as a record does."""
    pipeline = pipeline_of("bytes", tmp_path)
    found = diagnose(pipeline, RAW["bytes"], {"x": np.zeros((1, 40), np.int32)})
    assert from_json(Diagnosis, to_json(found), where="diagnosis") == found


def test_the_same_question_has_the_same_answer(tmp_path: Path) -> None:
    """Twice, from the file on."""
    pipeline = pipeline_of("classifier", tmp_path)
    raw, stored = picture(21, 34), {"x": np.zeros((1, 3, 12, 12), np.float32)}
    again = load_pipeline(tmp_path / "preprocess.yml")
    assert diagnose(pipeline, raw, stored) == diagnose(again, raw, stored)
