"""A change of pipeline is said in sentences that name the step, the setting and both values."""

import pytest

from ci_parity.detect.preprocess_words import explain_preprocess

FACTS = {
    "image.decode.channels": "RGB", "image.steps.0.resize.filter": "bilinear",
    "image.steps.1.normalise.mean.0": "0.485", "image.layout": "NCHW",
}  # fmt: skip
DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image.decode.channels": "BGR"}, "decode channels: RGB became BGR"),
        (
            {"image.steps.0.resize.filter": "bicubic"},
            "resize filter (step 1): bilinear became bicubic",
        ),
        (
            {"image.steps.1.normalise.mean.0": "0.5"},
            "normalise mean 0 (step 2): 0.485 became 0.5",
        ),
        ({"image.layout": "NHWC"}, "layout: NCHW became NHWC"),
        ({"image.dtype": "float16"}, "dtype came, it is float16"),
        ({"file.tokenizer.json": DIGEST}, "file tokenizer.json came, it is 0123456789ab"),
    ],
)
def test_one_difference_is_one_sentence(changes: dict[str, str], said: str) -> None:
    """What was what, and became what."""
    assert explain_preprocess(FACTS, FACTS | changes) == (said,)


def test_what_is_gone_says_what_it_was() -> None:
    """A key that the new pipeline lacks."""
    after = {key: value for key, value in FACTS.items() if key != "image.layout"}
    assert explain_preprocess(FACTS, after) == ("layout is gone, it was NCHW",)


def test_files_come_last_and_by_their_bytes() -> None:
    """Digests are shortened; nobody reads sixty-four digits."""
    before = {"file.tokenizer.json": DIGEST, "text.prompt": "{text}"}
    after = {"file.tokenizer.json": DIGEST[::-1], "text.prompt": "query: {text}"}
    assert explain_preprocess(before, after) == (
        "prompt: {text} became query: {text}",
        "file tokenizer.json has other bytes: 0123456789ab became fedcba987654",
    )


def test_a_pipeline_that_comes_or_goes_is_one_sentence() -> None:
    """Not one for each of its parts."""
    assert explain_preprocess({}, FACTS) == ("inputs are made by a declared pipeline now",)
    assert explain_preprocess(FACTS, {}) == ("no pipeline is declared any more",)


def test_another_kind_is_cut() -> None:
    """A reader sees some differences and how many more there are."""
    other = {f"text.part{number}": "x" for number in range(20)}
    said = explain_preprocess(FACTS, other)
    assert len(said) == 13
    assert said[-1] == "and 12 more differences"
