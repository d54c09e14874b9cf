"""Files that Hugging Face libraries save, as a pipeline's value; what would be a guess is refused.

`preprocessor_config.json` of the image processors that resize, crop, rescale and normalise (their
`preprocess` in transformers/models/*/image_processing_*.py), `tokenizer_config.json` beside its
tokenizer.json, and a tokenizer.json alone. A key that is unknown, code of the model's own, or a
value that only the library's source could tell ends in a refusal that says what to write instead.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.preprocess.places import MAX_NAMED_BYTES, read_regular

Value = Mapping[str, Any]

_REMEDY = "write the pipeline out in preprocess.yml; docs/preprocess.md shows how"
_EXACT = ("ViT", "DeiT", "Siglip")
_SHORTEST = ("CLIP", "Bit", "MobileNetV1", "MobileNetV2")
_SUFFIXES = ("ImageProcessorFast", "ImageProcessor", "FeatureExtractor")
# The numbers of PIL.Image.Resampling.
_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
_IMAGE_KEYS = {
    "image_processor_type", "feature_extractor_type", "processor_class", "do_convert_rgb",
    "_valid_processor_keys", "do_resize", "size", "resample", "do_center_crop", "crop_size",
    "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std", "data_format",
    "default_to_square",
}  # fmt: skip
# What describes tokens is in tokenizer.json too, which is what is read.
_TEXT_KEYS = {
    "tokenizer_class", "model_max_length", "model_input_names", "padding_side", "truncation_side",
    "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "bos_token",
    "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
    "clean_up_tokenization_spaces", "name_or_path", "special_tokens_map_file", "tokenizer_file",
    "chat_template", "do_lower_case", "strip_accents", "tokenize_chinese_chars", "never_split",
    "do_basic_tokenize", "use_fast", "errors", "backend", "is_local", "split_special_tokens",
}  # fmt: skip
_TEXT_FALSE = {"add_bos_token", "add_eos_token", "add_prefix_space", "split_special_tokens",
               "legacy"}  # fmt: skip
_FIELDS = ("input_ids", "token_type_ids", "attention_mask")
_BERT = {
    "do_lower_case": "lowercase", "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}  # fmt: skip


def image_value(path: Path) -> Value:
    """Return what a preprocessor_config.json says; the input is called pixel_values.

    Raises:
        ConfigError: it cannot be read, or not without guessing.
    """
    config = _object(path)
    where = path.name
    named = config.get("image_processor_type", config.get("feature_extractor_type"))
    family = _family(str(named), where)
    _refuse_unknown(config, _IMAGE_KEYS, set(), where)
    if config.get("data_format", "channels_first") != "channels_first":
        raise _refused(f"data_format {config['data_format']!r}", where)
    steps: list[Value] = []
    if _flag(config, "do_resize", where):
        steps.append({"resize": _resize(config, family, where)})
    if family in (*_SHORTEST, "DeiT") and _flag(config, "do_center_crop", where):
        steps.append({"crop": {"size": _square(config.get("crop_size"), "crop_size", where)}})
    elif config.get("do_center_crop"):
        raise _refused(f"do_center_crop of a {named}, which does not crop", where)
    # All of these processors rescale unless they are told not to.
    if config.get("do_rescale", True):
        steps.append({"scale": _rescale(config.get("rescale_factor", 1 / 255), where)})
    if _flag(config, "do_normalize", where):
        mean, std = (_numbers(config, key, where) for key in ("image_mean", "image_std"))
        steps.append({"normalise": {"mean": mean, "std": std}})
    return {"version": 1, "image": {"input": "pixel_values", "steps": steps}}


def tokenizer_value(path: Path) -> Value:
    """Return a pipeline of a tokenizer.json alone, used as the tokenizers library uses it."""
    return {"version": 1, "text": {"tokenizer": path.name}}


def tokenizer_config_value(path: Path) -> Value:
    """Return what a tokenizer_config.json says, used as transformers does: not padded, not cut.

    Raises:
        ConfigError: it cannot be read, or not without guessing.
    """
    config, where = _object(path), path.name
    _refuse_unknown(config, _TEXT_KEYS, _TEXT_FALSE, where)
    names = config.get("model_input_names")
    if not isinstance(names, list) or not names:
        raise _refused("no model_input_names, and which there are is up to the tokenizer's class",
                       where)  # fmt: skip
    if unknown := [str(name) for name in names if name not in _FIELDS]:
        raise _refused(f"model input {unknown[0]!r}", where)
    _check_normalizer(config, _object(path.with_name("tokenizer.json")), where)
    return {
        "version": 1,
        "text": {
            "tokenizer": "tokenizer.json",
            "truncation": "none",
            "padding": "none",
            "outputs": {name: name for name in names},
        },
    }


READERS: Mapping[str, Callable[[Path], Value]] = {
    "preprocessor_config.json": image_value,
    "tokenizer.json": tokenizer_value,
    "tokenizer_config.json": tokenizer_config_value,
}


def _object(path: Path) -> Mapping[str, Any]:
    try:
        found = parse_strict(read_regular(path, MAX_NAMED_BYTES), where=path.name)
    except EvidenceError as error:
        raise ConfigError(error.what, where=error.where, remedy="save the file anew") from error
    if not isinstance(found, dict):
        raise ConfigError("not a JSON object", where=path.name, remedy="save the file anew")
    return found


def _family(named: str, where: str) -> str:
    for suffix in _SUFFIXES:
        family = named.removesuffix(suffix)
        if family != named and family in (*_EXACT, *_SHORTEST):
            return family
    known = ", ".join(f"{name}ImageProcessor" for name in (*_EXACT, *_SHORTEST))
    raise _refused(f"the processor {named!r}; known are {known}", where)


def _refuse_unknown(
    config: Mapping[str, Any], known: set[str], only_false: set[str], where: str
) -> None:
    for key, value in config.items():
        if value is None or (key in only_false and value is False):
            continue
        if key in only_false:
            raise _refused(f"{key} {value!r} changes the tokenizer when it is loaded", where)
        if key not in known:
            raise _refused(f"the key {key!r}", where)


def _flag(config: Mapping[str, Any], key: str, where: str) -> bool:
    if not isinstance(config.get(key), bool):
        raise _refused(f"no {key}: what is not said is up to the library's version", where)
    return bool(config[key])


def _resize(config: Mapping[str, Any], family: str, where: str) -> Value:
    number = config.get("resample")
    if type(number) is not int or not 0 <= number < len(_FILTERS):
        raise _refused(f"resample {number!r}", where)
    size = config.get("size")
    if family in _SHORTEST and (type(size) is int or _has(size, "shortest_edge")):
        short = size["shortest_edge"] if isinstance(size, dict) else size
        return {"policy": "shortest", "size": short, "filter": _FILTERS[number]}
    return {"size": _square(size, "size", where), "filter": _FILTERS[number]}


def _square(size: object, key: str, where: str) -> list[int]:
    """Return [height, width] of one number or of a mapping with exactly these two."""
    if type(size) is int:
        return [size, size]
    if isinstance(size, dict) and _has(size, "height", "width"):
        return [size["height"], size["width"]]
    raise _refused(f"{key} {size!r}", where)


def _has(size: object, *keys: str) -> bool:
    return isinstance(size, dict) and {k for k, v in size.items() if v is not None} == set(keys)


def _rescale(factor: object, where: str) -> Value:
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        raise _refused(f"rescale_factor {factor!r}", where)
    # The library multiplies in float64 and rounds; dividing in float32 gives the same for a byte.
    return {"divide": 255} if factor == 1 / 255 else {"multiply": factor}


def _numbers(config: Mapping[str, Any], key: str, where: str) -> Sequence[float]:
    found = config.get(key)
    listed: list[Any] = found if isinstance(found, list) else [found]
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in listed):
        raise _refused(f"{key} {found!r}", where)
    return listed


def _check_normalizer(config: Mapping[str, Any], tokenizer: Mapping[str, Any], where: str) -> None:
    """Refuse settings that the library would put in place of tokenizer.json's when it loads it."""
    own = tokenizer.get("normalizer")
    bert = own if isinstance(own, dict) and own.get("type") == "BertNormalizer" else {}
    for key, inner in _BERT.items():
        wanted = config.get(key)
        if wanted is not None and wanted != bert.get(inner):
            raise _refused(f"{key} {wanted!r}, where tokenizer.json has {bert.get(inner)!r}", where)


def _refused(what: str, where: str) -> ConfigError:
    return ConfigError(f"cannot be read without guessing: {what}", where=where, remedy=_REMEDY)
