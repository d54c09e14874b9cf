"""What a runtime lists, held against a signature: is there a kernel for it, and which.

Pure, and no more than the runtime's own word: a listed operator may still be wrong. A provider that
lists no kernel at all takes whole parts of a graph, so that its listing says nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ci_parity.records.coverage import Kernel, Listed, Listing, Port, Presence, Signature

CPU = "CPUExecutionProvider"
_STANDARD = ("", "ai.onnx")
_SCHEMA_NAMES = {"float32": "float", "float64": "double"}


def presence_of(signature: Signature, listing: Listing, provider: str) -> Listed:
    """Say whether a runtime lists a kernel on a provider for a signature.

    1. A kernel of the provider that serves the version and takes the types.
    2. On the CPU, one for the type that the runtime casts to.
    3. What it resolves without a kernel, or expands to other operators.
    4. Absent, with the nearest kernel there is.
    """
    if listing.why_not:
        return Listed(presence=Presence.UNKNOWN, words=listing.why_not)
    own = [kernel for kernel in listing.kernels if kernel.provider == provider]
    if not own:
        words = f"{provider} lists no kernels: it takes whole parts of a graph"
        return Listed(presence=Presence.UNKNOWN, words=words)
    found = next(_serving(signature, own), None)
    if found is not None:
        return Listed(presence=Presence.PRESENT, words=f"a kernel {_versions(found)}")
    cast = _cast(signature, own, listing) if provider == CPU else ""
    if cast:
        return Listed(presence=Presence.PRESENT, words=cast)
    expanded = _without_kernel(signature, listing)
    if expanded:
        return Listed(presence=Presence.PRESENT, words=expanded)
    return Listed(presence=Presence.ABSENT, words=_nearest(signature, listing.kernels, provider))


def versions_of(
    signature: Signature, listing: Listing, provider: str
) -> tuple[tuple[int, int], ...]:
    """Return the versions, first and last, that each kernel of an operator serves."""
    found = {
        (kernel.first, kernel.first if kernel.last is None else kernel.last)
        for kernel in listing.kernels
        if kernel.provider == provider and _same_operator(kernel, signature)
    }
    return tuple(sorted(found))


def _serving(signature: Signature, kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    for kernel in kernels:
        if _same_operator(kernel, signature) and _serves(kernel, signature.since_version):
            ports = ((kernel.inputs, signature.inputs), (kernel.outputs, signature.outputs))
            if all(_takes(taken, given) for taken, given in ports):
                yield kernel


def _same_operator(kernel: Kernel, signature: Signature) -> bool:
    return kernel.op_type == signature.op_type and _domain(kernel) == _domain(signature)


def _domain(named: Kernel | Signature) -> str:
    return "" if named.domain in _STANDARD else named.domain


def _serves(kernel: Kernel, version: int) -> bool:
    return version == kernel.first or (
        kernel.last is not None and kernel.first < version <= kernel.last
    )


def _takes(taken: Sequence[Sequence[str]], given: Sequence[Port]) -> bool:
    return all(
        _is_one_of(port, taken[min(place, len(taken) - 1)])
        for place, port in enumerate(given)
        if taken
    )


def _is_one_of(port: Port, types: Sequence[str]) -> bool:
    """Whether a port is of one of some types, as far as it is known; no types are any."""
    if not types or port.kind == "absent" or not port.dtype:
        return True
    tensor = f"tensor({_SCHEMA_NAMES.get(port.dtype, port.dtype)})"
    match port.kind:
        case "tensor":
            return tensor in types
        case "sequence":
            return f"seq({tensor})" in types
        case "optional":
            return not {tensor, f"optional({tensor})", f"optional(seq({tensor}))"}.isdisjoint(types)
        case _:
            return True


def _cast(signature: Signature, kernels: Sequence[Kernel], listing: Listing) -> str:
    """Say which kernel computes a signature by casting; empty where none does."""
    for given, computed in listing.casts:
        ports = (*signature.inputs, *signature.outputs)
        if not any(port.dtype == given for port in ports):
            continue
        other = replace(
            signature,
            inputs=tuple(_as(port, given, computed) for port in signature.inputs),
            outputs=tuple(_as(port, given, computed) for port in signature.outputs),
        )
        if next(_serving(other, kernels), None) is not None:
            return f"no kernel for {given}: one for {computed}, with casts around it"
    return ""


def _as(port: Port, given: str, computed: str) -> Port:
    return replace(port, dtype=computed) if port.dtype == given else port


def _without_kernel(signature: Signature, listing: Listing) -> str:
    """Say how the runtime does without a kernel; empty where it cannot."""
    if _domain(signature):
        return ""
    if signature.op_type in listing.built_in:
        return "the runtime resolves it as it loads the graph"
    if not listing.functions:
        return ""
    body = _body(signature)
    if body is None:
        return ""
    known = {kernel.op_type for kernel in listing.kernels} | set(listing.built_in)
    lacking = sorted(op_type for op_type in body if op_type not in known)
    return "" if lacking else "no kernel: expanded to the operators that ONNX defines it by"


def _body(signature: Signature) -> frozenset[str] | None:
    """Return the operators of ONNX's own body of an operator; empty where types decide them."""
    import onnx

    try:
        schema = onnx.defs.get_schema(signature.op_type, signature.since_version, "")
    except onnx.defs.SchemaError:
        return None
    if getattr(schema, "has_context_dependent_function", False):
        return frozenset()
    if not getattr(schema, "has_function", False):
        return None
    return frozenset(node.op_type for node in schema.function_body.node)


def _versions(kernel: Kernel) -> str:
    if kernel.last is None:
        return f"since version {kernel.first}"
    if kernel.last == kernel.first:
        return f"of version {kernel.first}"
    return f"of versions {kernel.first} to {kernel.last}"


def _nearest(signature: Signature, kernels: Sequence[Kernel], provider: str) -> str:
    """Say what there is instead of a kernel that fits."""
    same = [kernel for kernel in kernels if _same_operator(kernel, signature)]
    own = [kernel for kernel in same if kernel.provider == provider]
    if not same:
        return f"no kernel of {signature.op_type}"
    if not own:
        return f"no kernel on {provider}, one on {same[0].provider}"
    if any(_serves(kernel, signature.since_version) for kernel in own):
        return f"no kernel of {signature.op_type} for these types"
    newest = max(own, key=lambda kernel: kernel.first)
    return f"no kernel of version {signature.since_version}, the newest is {_versions(newest)}"
