"""When a node test is evidence for a signature that a model asks for.

A test of signature T is evidence for an asked signature A where all of this holds:

1. domain and operator are the same, and the since-version; or one kernel of the runtime, as its
   registry says, serves both versions.
2. the same attributes are set to the same values, and the same ones are left to their defaults. A
   default that is spelled out is not one that is relied on: each is a path of its own.
3. the same inputs and outputs are present; each has the same kind and element type.
4. each has the same rank, and the sizes are the same in words: `0`, `1`, `n`. A size of 1 is not
   evidence for larger ones, nor they for it, as broadcasting and copying have paths of their own.
   What generalises is `n`: one larger size stands for all others.
5. what the model leaves open is open in the test too: runtimes that plan ahead plan otherwise. The
   test of an open size is no evidence for a fixed one either.
6. the inputs that steer the operator are told alike, and are fixed, or fed, in both.
7. subgraphs compute the same.

Operators that treat each element alone (`operators.ELEMENTWISE`) do not depend on how elements are
arranged: for them 4 and 5 shrink to whether a tensor is a scalar, is empty, or is neither.

What is unknown of the asked signature is never covered, because no test can be shown to be alike.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from ci_parity.coverage.operators import ELEMENTWISE
from ci_parity.coverage.signatures import UNKNOWN_RANK
from ci_parity.records.coverage import Port, Signature

Kernels = Sequence[tuple[int, int]]
"""The first and last version of an operator that each kernel of a runtime serves."""


def covers(tested: Signature, asked: Signature, kernels: Kernels = ()) -> bool:
    """Whether a test of `tested` is evidence for `asked`."""
    return next(differences(tested, asked, kernels), None) is None


def difference(tested: Signature, asked: Signature, kernels: Kernels = ()) -> str:
    """Return the first thing in which a test is unlike what is asked; empty where it covers it."""
    return next(differences(tested, asked, kernels), "")


def nearest(
    asked: Signature, tested: Iterable[tuple[str, Signature]], kernels: Kernels = ()
) -> str:
    """Return the test that comes nearest, and all in which it differs.

    Args:
        asked: a signature that no test covers.
        tested: tests by id, with their signatures.
        kernels: of the operator.
    """
    best: tuple[int, str, list[str]] | None = None
    for name, signature in tested:
        if (signature.domain, signature.op_type) != (asked.domain, asked.op_type):
            continue
        found = list(differences(signature, asked, kernels))
        if best is None or (len(found), name) < best[:2]:
            best = (len(found), name, found)
    if best is None:
        return f"no test of {asked.op_type}"
    return f"nearest is {best[1]}: {'; '.join(best[2])}"


def differences(tested: Signature, asked: Signature, kernels: Kernels = ()) -> Iterator[str]:
    """Yield in words everything in which a test is unlike what is asked, the gravest first."""
    if (tested.domain, tested.op_type) != (asked.domain, asked.op_type):
        yield f"tested {_full_name(tested)}, asked {_full_name(asked)}"
        return
    if not _same_version(tested.since_version, asked.since_version, kernels):
        yield f"tested version {tested.since_version}, asked {asked.since_version}"
    yield from _attribute_differences(tested, asked)
    for side in ("input", "output"):
        left, right = getattr(tested, f"{side}s"), getattr(asked, f"{side}s")
        yield from _port_differences(left, right, side, asked)
    yield from _constant_differences(tested, asked)
    if tested.subgraph != asked.subgraph:
        yield "tested another subgraph"


def _full_name(signature: Signature) -> str:
    return f"{signature.domain}.{signature.op_type}".lstrip(".")


def _same_version(tested: int, asked: int, kernels: Kernels) -> bool:
    if tested == asked:
        return True
    return any(first <= min(tested, asked) and max(tested, asked) <= last
               for first, last in kernels)  # fmt: skip


def _attribute_differences(tested: Signature, asked: Signature) -> Iterator[str]:
    left, right = dict(tested.attributes), dict(asked.attributes)
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            before = f"{name} {left[name]}" if name in left else f"{name} left to its default"
            after = f"{right[name]}" if name in right else "its default"
            yield f"tested with {before}, asked {after}"


def _port_differences(
    tested: Sequence[Port], asked: Sequence[Port], side: str, signature: Signature
) -> Iterator[str]:
    if len(tested) != len(asked):
        yield f"tested with {len(tested)} {side}s, asked {len(asked)}"
    free = signature.domain == "" and signature.op_type in ELEMENTWISE
    for at, (left, right) in enumerate(zip(tested, asked, strict=False)):
        words = _port_difference(left, right, free=free)
        if words:
            yield f"{side} {at}: {words}"


def _port_difference(tested: Port, asked: Port, *, free: bool) -> str:
    if tested.kind != asked.kind:
        return f"tested {tested.kind}, asked {asked.kind}"
    if asked.kind == "absent":
        return ""
    if not asked.dtype:
        return "the model does not tell its element type"
    if tested.dtype != asked.dtype:
        return f"tested {tested.dtype}, asked {asked.dtype}"
    if asked.shape == UNKNOWN_RANK:
        return "its rank is not known without a run"
    if free:
        left, right = _arrangement(tested), _arrangement(asked)
        return "" if left == right else f"tested {left}, asked {right}"
    if tested.shape != asked.shape:
        return f"tested {_shape(tested)}, asked {_shape(asked)}"
    if tested.dynamic != asked.dynamic:
        words = ("fixed sizes", "open sizes")
        return f"tested with {words[tested.dynamic]}, asked with {words[asked.dynamic]}"
    return ""


def _arrangement(port: Port) -> str:
    if port.shape == UNKNOWN_RANK:
        return "an unknown rank"
    if not port.shape:
        return "a scalar"
    return "an empty tensor" if "0" in port.shape else "a tensor"


def _shape(port: Port) -> str:
    return f"[{','.join(port.shape)}]" if port.shape else "a scalar"


def _constant_differences(tested: Signature, asked: Signature) -> Iterator[str]:
    left, right = dict(tested.constants), dict(asked.constants)
    for at in sorted(left.keys() | right.keys()):
        if left.get(at) != right.get(at):
            before, after = _constant(left.get(at)), _constant(right.get(at))
            yield f"input {at}: tested with {before}, asked {after}"


def _constant(text: str | None) -> str:
    if text is None:
        return "a value that is not known"
    value = json.loads(text)
    if isinstance(value, dict) and "fed" in value:
        return f"{json.dumps(value['fed'])} fed at run time"
    return f"{text} fixed"
