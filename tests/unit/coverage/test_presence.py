"""What a listing says of a signature; it is the runtime's own word and no more."""

from dataclasses import replace

import pytest

from ci_parity.coverage.presence import presence_of, versions_of
from ci_parity.records.coverage import Kernel, Listing, Port, Presence, Signature

CPU, GPU = "CPUExecutionProvider", "CUDAExecutionProvider"
FLOAT, HALF, LONG = ("tensor(float)",), ("tensor(float16)",), ("tensor(int64)",)


def kernel(
    op_type: str, first: int, last: int | None, *inputs: tuple[str, ...], provider: str = CPU,
    domain: str = "",
) -> Kernel:  # fmt: skip
    """Return a kernel that gives what its first input is."""
    return Kernel(
        domain=domain, op_type=op_type, first=first, last=last, provider=provider, inputs=inputs,
        outputs=inputs[:1],
    )  # fmt: skip


def asked(op_type: str, version: int, *dtypes: str, domain: str = "") -> Signature:
    """Return a signature with tensors of these types, that gives what the first is."""
    ports = tuple(Port(kind="tensor", dtype=dtype, shape=("n",)) for dtype in dtypes)
    return Signature(
        domain=domain, op_type=op_type, since_version=version, attributes=(), defaults=(),
        inputs=ports, outputs=ports[:1],
    )  # fmt: skip


LISTING = Listing(
    kernels=(
        kernel("Reshape", 5, 12, FLOAT, LONG),
        kernel("Reshape", 13, 13, FLOAT, LONG),
        kernel("Reshape", 14, None, (*FLOAT, *HALF), LONG),
        kernel("Concat", 13, None, FLOAT),
        kernel("Conv", 11, None, FLOAT, FLOAT),
        kernel("Conv", 11, None, HALF, HALF, provider=GPU),
        kernel("FusedGemm", 1, None, FLOAT, FLOAT, domain="com.microsoft"),
        *(kernel(op, 13, None, FLOAT) for op in ("Softplus", "Tanh", "Mul")),
    ),
    built_in=("Constant",),
    functions=True,
    casts=(("float16", "float32"),),
)


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (asked("Reshape", 5, "float32", "int64"), "a kernel of versions 5 to 12"),
        (asked("Reshape", 11, "float32", "int64"), "a kernel of versions 5 to 12"),
        (asked("Reshape", 13, "float32", "int64"), "a kernel of version 13"),
        (asked("Reshape", 14, "float16", "int64"), "a kernel since version 14"),
        (asked("Reshape", 14, "float32", "int64", domain="ai.onnx"), "a kernel since version 14"),
        (asked("Concat", 13, "float32", "float32", "float32"), "a kernel since version 13"),
        (asked("FusedGemm", 1, "float32", "float32", domain="com.microsoft"),
         "a kernel since version 1"),
        (asked("Conv", 11, "float16", "float16"),
         "no kernel for float16: one for float32, with casts around it"),
        (asked("Mish", 18, "float32"),
         "no kernel: expanded to the operators that ONNX defines it by"),
        (asked("Constant", 13), "the runtime resolves it as it loads the graph"),
        # A type that the model does not tell is not held against the kernel.
        (asked("Reshape", 14, "", "int64"), "a kernel since version 14"),
    ],
)  # fmt: skip
def test_what_is_listed(signature: Signature, words: str) -> None:
    """A kernel, a cast, a body of other operators, or nothing to run."""
    found = presence_of(signature, LISTING, CPU)
    assert (found.presence, found.words) == (Presence.PRESENT, words)


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (asked("Reshape", 19, "float32", "int64"),
         "no kernel of version 19, the newest is since version 14"),
        (asked("Reshape", 14, "string", "int64"), "no kernel of Reshape for these types"),
        (asked("Reshape", 14, "float32", "float32"), "no kernel of Reshape for these types"),
        (asked("Conv", 11, "bfloat16", "bfloat16"), "no kernel of Conv for these types"),
        (asked("Gelu", 1, "float32", domain="com.microsoft"), "no kernel of Gelu"),
        (asked("FusedGemm", 1, "float32", "float32"), "no kernel of FusedGemm"),
        (asked("ImageDecoder", 20, "uint8"), "no kernel of ImageDecoder"),
    ],
)  # fmt: skip
def test_what_is_not_listed(signature: Signature, words: str) -> None:
    """An open end serves its own version alone; domains and types are kept apart."""
    found = presence_of(signature, LISTING, CPU)
    assert (found.presence, found.words) == (Presence.ABSENT, words)


def test_a_body_that_needs_what_is_missing_is_not_there() -> None:
    """Mish without Tanh cannot be expanded; nor does a runtime that expands nothing have it."""
    fewer = replace(LISTING, kernels=tuple(k for k in LISTING.kernels if k.op_type != "Tanh"))
    plain = replace(LISTING, functions=False)
    for listing in (fewer, plain):
        assert presence_of(asked("Mish", 18, "float32"), listing, CPU).presence is Presence.ABSENT


def test_another_provider_has_kernels_of_its_own() -> None:
    """What the CPU would run instead is not there; casts are the CPU's alone."""
    found = presence_of(asked("Conv", 11, "float16", "float16"), LISTING, GPU)
    assert found.words == "a kernel since version 11"
    lacking = presence_of(asked("Concat", 13, "float32"), LISTING, GPU)
    assert lacking.presence is Presence.ABSENT
    assert lacking.words == f"no kernel on {GPU}, one on {CPU}"
    floats = presence_of(asked("Conv", 11, "float32", "float32"), LISTING, GPU)
    assert floats.presence is Presence.ABSENT


def test_a_provider_without_kernels_says_nothing() -> None:
    """It takes whole parts of a graph."""
    found = presence_of(asked("Conv", 11, "float32", "float32"), LISTING, "QNNExecutionProvider")
    assert found.presence is Presence.UNKNOWN
    assert "takes whole parts of a graph" in found.words


def test_what_could_not_be_asked_is_unknown() -> None:
    """With the reason."""
    found = presence_of(asked("Conv", 11, "float32"), Listing(why_not="it died"), CPU)
    assert (found.presence, found.words) == (Presence.UNKNOWN, "it died")


@pytest.mark.parametrize(
    ("kind", "types", "present"),
    [
        ("sequence", ("seq(tensor(float))",), True),
        ("sequence", FLOAT, False),
        ("optional", ("optional(tensor(float))",), True),
        ("optional", ("optional(seq(tensor(float)))",), True),
        ("map", ("map(int64,tensor(float))",), True),
        ("absent", LONG, True),
    ],
)
def test_kinds_are_kept_apart(kind: str, types: tuple[str, ...], present: bool) -> None:
    """As far as a type says them."""
    listing = Listing(kernels=(kernel("Identity", 25, None, types),))
    port = Port(kind=kind, dtype="float32", shape=("n",))
    signature = replace(asked("Identity", 25), inputs=(port,))
    found = presence_of(signature, listing, CPU).presence
    assert found is (Presence.PRESENT if present else Presence.ABSENT)


def test_the_versions_of_kernels_are_those_of_the_provider() -> None:
    """An open end is the version alone."""
    reshape = asked("Reshape", 14, "float32", "int64")
    assert versions_of(reshape, LISTING, CPU) == ((5, 12), (13, 13), (14, 14))
    assert versions_of(reshape, LISTING, GPU) == ()
