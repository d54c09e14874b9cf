"""Random programs of branches, loops and scans within one another compute the same when flat."""

import random
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

from tests.unit.localise.flatten.models import (
    BOOL,
    INT64,
    flattened,
    graph,
    model,
    node,
    numbers,
    port,
    tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE = [2, 3]
WEIGHTS = [
    tensor("half", 0.5), tensor("zero", 0.0), tensor("limit", 1.5),
    *(tensor(f"n{n}", n, np.int64) for n in range(4)), tensor("first", [0], np.int64),
]  # fmt: skip


class Program:
    """One graph being written: every float tensor has the shape `SHAPE`.

    Names tell the depth, so that graphs beside each other use the same ones and none is hidden.
    """

    def __init__(self, chance: random.Random, depth: int, seen: list[str]) -> None:
        self.chance, self.depth, self.seen = chance, depth, list(seen)
        self.nodes: list[onnx.NodeProto] = []
        self.steps: list[Callable[[], None]] = [self.plain]
        if depth < 3:
            self.steps += [self.branch, self.loop, self.scan]

    def name(self, kind: str = "t") -> str:
        """Return a name that is new here."""
        return f"{kind}{self.depth}_{len(self.nodes)}"

    def any(self) -> str:
        """Return a tensor that can be read here, mostly a late one."""
        return self.chance.choice([*self.seen, *self.seen[-3:]])

    def add(self, op: str, inputs: str, kind: str = "", **attributes: object) -> str:
        """Write a node and return its output; one without a kind is a tensor for later."""
        made = self.name(kind or "t")
        self.nodes.append(node(op, inputs, made, **attributes))
        if not kind:
            self.seen.append(made)
        return made

    def plain(self) -> None:
        """Write an operator that keeps numbers small."""
        op = self.chance.choice(["Tanh", "Neg", "Sin", "Add", "Sub", "Mul"])
        both = f"{self.any()} {self.any()}" if op in {"Add", "Sub", "Mul"} else self.any()
        self.add(op, both)

    def condition(self) -> str:
        """Write a truth value that depends on the numbers."""
        total = self.add("ReduceSum", self.any(), "r", keepdims=0)
        return self.add("Less", f"{total} {self.chance.choice(['zero', 'limit'])}", "b")

    def body(self, reads: list[str]) -> "Program":
        """Return the program of a graph inside this one."""
        inner = Program(self.chance, self.depth + 1, [*self.seen, *reads])
        inner.write(self.chance.randint(1, 4))
        return inner

    def branch(self) -> None:
        """Write an If of one or two outputs."""
        condition, count = self.condition(), self.chance.randint(1, 2)
        sides = [self.body([]) for _ in range(2)]
        graphs = [graph(side.nodes, [], [p(side.result()) for _ in range(count)]) for side in sides]
        made = [self.name(kind) for kind in "tu"[:count]]
        outputs = " ".join(made)
        then, other = graphs
        self.nodes.append(node("If", condition, outputs, then_branch=then, else_branch=other))
        self.seen += made

    def loop(self) -> None:
        """Write a Loop that carries two tensors and stacks one, and may end early."""
        turn, going, carried = (f"{kind}{self.depth}_{len(self.nodes)}" for kind in ("i", "c", "s"))
        inner = self.body([carried, f"{carried}b"])
        more = (
            inner.condition() if self.chance.random() < 0.5 else inner.add("Identity", going, "b")
        )
        outputs = [port(more, BOOL, []), *(p(inner.result()) for _ in range(3))]
        inputs = [port(turn, INT64, []), port(going, BOOL, []), p(carried), p(f"{carried}b")]
        start = self.condition() if self.chance.random() < 0.3 else "_"
        made = [self.name(kind) for kind in "tu"]
        pile = self.name("pile")
        count = f"n{self.chance.randint(0, 3)}"
        self.nodes.append(
            node("Loop", f"{count} {start} {self.any()} {self.any()}", " ".join([*made, pile]),
                 body=graph(inner.nodes, inputs, outputs))
        )  # fmt: skip
        self.seen += made
        self.add("ReduceSum", f"{pile} first", keepdims=0)

    def scan(self) -> None:
        """Write a Scan along the rows, in either direction."""
        carried, row = (f"{kind}{self.depth}_{len(self.nodes)}" for kind in ("s", "e"))
        inner = self.body([carried])
        wide = inner.add("Add", f"{row} {inner.result()}")
        slim = inner.add("Sin", row, "v")
        ways = [self.chance.randint(0, 1) for _ in range(2)]
        made = [self.name(kind) for kind in "tu"]
        self.nodes.append(
            node("Scan", f"{self.any()} {self.any()}", " ".join(made), num_scan_inputs=1,
                 scan_input_directions=ways[:1], scan_output_directions=ways[1:],
                 body=graph(inner.nodes, [p(carried), port(row, shape=[3])],
                            [p(wide), port(slim, shape=[3])]))
        )  # fmt: skip
        self.seen += made

    def write(self, count: int) -> None:
        """Write steps; the last makes sure that there is something to return."""
        for _ in range(count):
            self.chance.choice(self.steps)()
        self.plain()

    def result(self) -> str:
        """Write a new tensor to be returned."""
        return self.add("Mul", f"{self.any()} half")


def p(name: str) -> onnx.ValueInfoProto:
    """Return the declaration of a float tensor."""
    made: onnx.ValueInfoProto = port(name, shape=SHAPE)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_a_random_program_computes_the_same_when_flat(seed: int) -> None:
    """On onnxruntime, bit for bit, and nothing is left."""
    program = Program(random.Random(seed), 0, ["x"])  # noqa: S311
    program.write(4)
    outputs = [p(program.result()) for _ in range(2)]
    made = model(program.nodes, [p("x")], outputs, WEIGHTS)
    onnx.checker.check_model(made)
    flat = flattened(made, {"x": numbers(*SHAPE, seed=seed)})
    assert flat.left == {}
