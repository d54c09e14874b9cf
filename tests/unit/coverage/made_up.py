"""Node tests that exist as records alone."""

from pathlib import Path

from ci_parity.records.coverage import NodeCase, Signature


def case_of(name: str, *signatures: Signature) -> NodeCase:
    """Return a node test of some signatures; there are no files behind it."""
    return NodeCase(
        id=name, folder=Path("none"), model=Path("none/model.onnx"), model_sha256="00" * 32,
        digest="11" * 32, inputs=(), outputs=(), rtol=1e-3, atol=1e-7, oracle="by hand",
        signatures=signatures,
    )  # fmt: skip
