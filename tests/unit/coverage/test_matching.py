"""When a test is evidence for what a model asks, and in which words it is not."""

from dataclasses import replace
from typing import Any

import pytest

from ci_parity.coverage.matching import covers, difference, nearest
from ci_parity.records.coverage import Port, Signature

FLOAT = Port(kind="tensor", dtype="float32", shape=("n", "n"))
POOL = Signature(
    domain="", op_type="MaxPool", since_version=12, attributes=(("kernel_shape", "[3,3]"),),
    defaults=("pads", "strides"), inputs=(FLOAT,), outputs=(FLOAT,),
    constants=((1, '[0,"n"]'),),
)  # fmt: skip


def _port(**changed: Any) -> Signature:
    return replace(POOL, inputs=(replace(FLOAT, **changed),))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (replace(POOL, op_type="LpPool"), "tested MaxPool, asked LpPool"),
        (replace(POOL, since_version=8), "tested version 12, asked 8"),
        (replace(POOL, attributes=(("kernel_shape", "[7,7]"),)),
         "tested with kernel_shape [3,3], asked [7,7]"),
        (replace(POOL, attributes=()), "tested with kernel_shape [3,3], asked its default"),
        (replace(POOL, attributes=(*POOL.attributes, ("pads", "[1,1]"))),
         "tested with pads left to its default, asked [1,1]"),
        (replace(POOL, inputs=(FLOAT, FLOAT)), "tested with 1 inputs, asked 2"),
        (_port(dtype="float16"), "input 0: tested float32, asked float16"),
        (_port(dtype=""), "input 0: the model does not tell its element type"),
        (_port(shape=("n",)), "input 0: tested [n,n], asked [n]"),
        (_port(shape=("n", "1")), "input 0: tested [n,n], asked [n,1]"),
        (_port(shape=("?",)), "input 0: its rank is not known without a run"),
        (_port(dynamic=True), "input 0: tested with fixed sizes, asked with open sizes"),
        (_port(kind="sequence"), "input 0: tested tensor, asked sequence"),
        (replace(POOL, constants=((1, "[1]"),)),
         'input 1: tested with [0,"n"] fixed, asked [1] fixed'),
        (replace(POOL, constants=((1, '{"fed":[0,"n"]}'),)),
         'input 1: tested with [0,"n"] fixed, asked [0, "n"] fed at run time'),
        (replace(POOL, subgraph="ab"), "tested another subgraph"),
    ],
)  # fmt: skip
def test_what_is_unlike_is_said(asked: Signature, words: str) -> None:
    """Each part of a signature counts, in both directions."""
    assert difference(POOL, asked) == words
    assert not covers(POOL, asked)
    assert covers(POOL, POOL)


def test_a_kernel_that_serves_both_versions_makes_them_one() -> None:
    """The runtime's registry may say that one kernel runs versions 8 to 12."""
    asked = replace(POOL, since_version=8)
    assert covers(POOL, asked, kernels=[(1, 7), (8, 12)])
    assert not covers(POOL, asked, kernels=[(1, 8), (9, 12)])


@pytest.mark.parametrize(
    ("tested", "asked", "alike"),
    [
        (("n", "n"), ("1", "n", "n"), True),
        (("n", "n"), (), False),
        (("n", "n"), ("0", "n"), False),
        (("0",), ("n", "0"), True),
    ],
)
def test_elementwise_operators_do_not_mind_the_arrangement(
    tested: tuple[str, ...], asked: tuple[str, ...], alike: bool
) -> None:
    """Only scalars and empty tensors are paths of their own."""
    left, right = (
        replace(
            POOL, op_type="Relu", attributes=(), constants=(),
            inputs=(replace(FLOAT, shape=shape),), outputs=(replace(FLOAT, shape=shape),),
        )
        for shape in (tested, asked)
    )  # fmt: skip
    assert covers(left, right) is alike


def test_the_nearest_test_is_named_with_all_its_differences() -> None:
    """The fewest differences win; without a test of the operator, that is said."""
    asked = replace(POOL, attributes=(("kernel_shape", "[7,7]"),))
    far = replace(asked, since_version=1, attributes=())
    found = nearest(asked, [("far", far), ("near", POOL)])
    assert found == "nearest is near: tested with kernel_shape [3,3], asked [7,7]"
    assert nearest(asked, []) == "no test of MaxPool"
