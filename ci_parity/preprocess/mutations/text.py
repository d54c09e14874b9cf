"""What goes wrong between a text and its tokens."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from ci_parity.preprocess.model import Padding, TextPipeline, Truncation
from ci_parity.preprocess.mutations.mutation import Mutation, ending

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_IDS = (0, 1, 2, 3)


def mutations(pipeline: TextPipeline) -> Iterator[Mutation]:
    """Yield every single change of a text's pipeline that is tried."""
    yield from _normalising(pipeline)
    if pipeline.prompt != "{text}":
        yield _changed(pipeline, "prompt", "the text without its template", prompt="{text}")
        bare = pipeline.prompt.strip()
        yield _changed(pipeline, "prompt", "the template without outer white space", prompt=bare)
    words = "special tokens missing" if pipeline.special_tokens else "special tokens added"
    yield _changed(pipeline, "special_tokens", words, special_tokens=not pipeline.special_tokens)
    yield from _truncations(pipeline)
    yield from _paddings(pipeline)
    yield from _outputs(pipeline)
    yield from ending("text", pipeline)


def _normalising(pipeline: TextPipeline) -> Iterator[Mutation]:
    steps = pipeline.normalise
    found = [step for step in steps if step in FORMS]
    rest = tuple(step for step in steps if step not in FORMS)
    named = found[0] if found else "no Unicode normalisation"
    for form in FORMS:
        words = f"{form} instead of {named}"
        yield _changed(pipeline, "normalise", words, normalise=(form, *rest))
    yield _changed(pipeline, "normalise", f"no Unicode normalisation instead of {named}",
                   normalise=rest)  # fmt: skip
    for name, missing, added in (
        ("lower", "capitals kept", "text in lower case"),
        ("strip", "outer white space kept", "outer white space stripped"),
    ):
        without = tuple(step for step in steps if step != name)
        has = name in steps
        yield _changed(pipeline, "normalise", missing if has else added,
                       normalise=without if has else (*steps, name))  # fmt: skip


def _truncations(pipeline: TextPipeline) -> Iterator[Mutation]:
    own = pipeline.truncation
    if isinstance(own, Truncation):
        side = _other(own.side)
        yield _changed(pipeline, "truncation.side", f"tokens dropped on the {side}",
                       truncation=replace(own, side=side))  # fmt: skip
    for name, words in (("none", "no truncation"), ("file", "the tokenizer's own truncation")):
        yield _changed(pipeline, "truncation", words, truncation=name)


def _paddings(pipeline: TextPipeline) -> Iterator[Mutation]:
    own = pipeline.padding
    if isinstance(own, Padding):
        side = _other(own.side)
        words = f"padding on the {side} instead of the {own.side}"
        yield _changed(pipeline, "padding.side", words, padding=replace(own, side=side))
        for number in _IDS:
            yield _changed(pipeline, "padding.id", f"padding of id {number}",
                           padding=replace(own, id=number))  # fmt: skip
    for name, words in (("none", "no padding"), ("file", "the tokenizer's own padding")):
        yield _changed(pipeline, "padding", words, padding=name)


def _outputs(pipeline: TextPipeline) -> Iterator[Mutation]:
    outputs = pipeline.outputs
    inverse = {"attention_mask": "padding_mask", "padding_mask": "attention_mask"}
    for index, (name, field) in enumerate(outputs):
        if field in inverse:
            turned = (*outputs[:index], (name, inverse[field]), *outputs[index + 1 :])
            yield _changed(pipeline, f"outputs.{name}", f"mask {name!r} inverted", outputs=turned)
    for (one, field), (two, other) in combinations(outputs, 2):
        swapped = {one: other, two: field}
        turned = tuple((name, swapped.get(name, old)) for name, old in outputs)
        words = f"inputs {one!r} and {two!r} exchanged"
        yield _changed(pipeline, "outputs", words, outputs=turned)


def _other(side: str) -> str:
    return "left" if side == "right" else "right"


def _changed(pipeline: TextPipeline, key: str, words: str, **fields: object) -> Mutation:
    kind = replace(pipeline, **fields)  # type: ignore[arg-type]
    return Mutation(key=f"text.{key}", words=words, kind=kind)
