"""Names for signatures, as short as tells them apart: `Reshape allowzero=1`, `Cast float16`.

An attribute that is set to something else than its default is always named, for it is what a
listing of operators does not show. Else only what differs between the signatures of one operator
is. Texts of a model are in a name as they are: whoever shows it has to escape it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.onnx_model import element_name
from ci_parity.records.coverage import Port, Signature

_STANDARD = ("", "ai.onnx")
_LONGEST_VALUE = 24
_MOST_UNUSUAL = 3
# Attributes whose number is an element type: of Cast, of EyeLike and the random generators, and of
# those that compute or give back in a type of their own.
_TYPES = ("to", "dtype", "output_datatype", "output_dtype", "stash_type")


def operator_of(signature: Signature) -> str:
    """Return an operator's name, with its domain where that is not ONNX's own."""
    if signature.domain in _STANDARD:
        return signature.op_type
    return f"{signature.domain}.{signature.op_type}"


def names_of(signatures: Iterable[Signature]) -> dict[Signature, str]:
    """Return a name for each signature; no two are equal."""
    groups: dict[str, list[Signature]] = {}
    for signature in dict.fromkeys(signatures):
        groups.setdefault(operator_of(signature), []).append(signature)
    found: dict[Signature, str] = {}
    for operator, group in groups.items():
        found.update(_names(operator, group))
    return found


def _names(operator: str, group: Sequence[Signature]) -> dict[Signature, str]:
    facets = [_facets(signature) for signature in group]
    unusual = [_unusual(signature) for signature in group]
    chosen: list[str] = []
    for key in dict.fromkeys(key for facet in facets for key in facet):
        if _apart(facets, unusual, [*chosen, key]) > _apart(facets, unusual, chosen):
            chosen.append(key)
    names: dict[Signature, str] = {}
    taken: dict[str, int] = {}
    for signature, facet, kept in zip(group, facets, unusual, strict=True):
        parts = {key: facet[key] for key in (*kept, *chosen) if facet.get(key)}
        name = " ".join([operator, *parts.values()])
        taken[name] = taken.get(name, 0) + 1
        names[signature] = name if taken[name] == 1 else f"{name} #{taken[name]}"
    return names


def _apart(
    facets: Sequence[Mapping[str, str]], kept: Sequence[Sequence[str]], chosen: Sequence[str]
) -> int:
    """Return how many signatures a choice of facets tells apart."""
    return len({
        tuple((key, facet.get(key)) for key in dict.fromkeys((*own, *chosen)))
        for facet, own in zip(facets, kept, strict=True)
    })  # fmt: skip


def _facets(signature: Signature) -> dict[str, str]:
    """Return what can tell a signature from others, what says most first."""
    found = {f"@{name}": f"{name}={_value(name, value)}" for name, value in signature.attributes}
    for at, value in signature.constants:
        found[f"#{at}"] = f"input{at}={_short(value)}"
    found["inputs"] = f"{len(signature.inputs)} inputs"
    ports = [(f"in{at}", port) for at, port in enumerate(signature.inputs)]
    ports += [(f"out{at}", port) for at, port in enumerate(signature.outputs)]
    for told in (_type, _shape, _sizes):
        for place, port in ports:
            label = "" if place == "in0" else f"{place}:"
            found[f"{place} {told.__name__}"] = f"{label}{told(port)}"
    found["version"] = f"version {signature.since_version}"
    found["defaults"] = f"defaults {','.join(signature.defaults)}" if signature.defaults else ""
    found["inside"] = f"graph {signature.subgraph[:8]}" if signature.subgraph else ""
    return found


def _type(port: Port) -> str:
    if port.kind == "absent":
        return "absent"
    return port.dtype if port.kind == "tensor" else f"{port.kind} {port.dtype}".strip()


def _shape(port: Port) -> str:
    return f"[{','.join(port.shape)}]"


def _sizes(port: Port) -> str:
    return "dynamic" if port.dynamic else "static"


def _unusual(signature: Signature) -> tuple[str, ...]:
    """Return the keys of attributes that are set to something else than their default."""
    defaults = _defaults(signature)
    return tuple(
        f"@{name}"
        for name, value in signature.attributes
        if name in defaults and defaults[name] != value
    )[:_MOST_UNUSUAL]


def _defaults(signature: Signature) -> dict[str, str]:
    """Return the defaults that ONNX's schema gives, as canonical JSON."""
    import onnx

    domain = "" if signature.domain in _STANDARD else signature.domain
    try:
        schema = onnx.defs.get_schema(signature.op_type, signature.since_version, domain)
    except onnx.defs.SchemaError:
        return {}
    found = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            value = onnx.helper.get_attribute_value(attribute.default_value)
            value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if isinstance(value, str | int | float):
                found[name] = canonical_bytes(value).decode()
    return found


def _value(name: str, value: str) -> str:
    """Return an attribute's value as it is read; an element type by its name."""
    if name in _TYPES and value.isdigit():
        return element_name(int(value)) or value
    return _short(value)


def _short(value: str) -> str:
    """Return canonical JSON as it is read: a text without its quotes, a long list cut."""
    try:
        plain = json.loads(value)
    except ValueError:
        plain = value
    if isinstance(plain, dict) and {"dtype", "shape", "sha256"} <= plain.keys():
        sizes = ",".join(map(str, plain["shape"]))
        return f"{plain['dtype']}[{sizes}]#{str(plain['sha256'])[:6]}"
    text = plain if isinstance(plain, str) else value
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
