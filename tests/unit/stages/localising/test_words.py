from dataclasses import replace
from typing import Any

import pytest

from ci_parity.records.divergence import Conclusion, Divergence, NodeName
from ci_parity.stages.localising.words import sentence


def found(conclusion: Conclusion, *names: str, **parts: Any) -> Divergence:
    """Return a divergence over nodes of these names."""
    nodes = tuple(NodeName(name=name, op_type="Conv", outputs=(f"{name}_0",)) for name in names)
    sample = Divergence(
        target="cpu", variant="", boundary="", case="typical", sentence="", conclusion=conclusion,
        nodes=nodes,
    )  # fmt: skip
    return replace(sample, **parts)


SENTENCES = {
    Conclusion.HERE: (
        "Conv 'a', Conv 'b' go wrong (given the baseline's own tensors; nothing before does)"
    ),
    Conclusion.FUSED: (
        "Conv 'a', Conv 'b' go wrong only as they are optimized together (observed one by one they "
        "agree)"
    ),
    Conclusion.AMPLIFIED: (
        "no single node goes wrong: small differences grow over Conv 'a', Conv 'b' (each of them "
        "alone stays within the limit)"
    ),
    Conclusion.BRACKET: (
        "the fault is among Conv 'a', Conv 'b' (the search could not narrow it further)"
    ),
    Conclusion.NOT_REPRODUCIBLE: (
        "not reproducible: run again on this case, the candidate's outputs agree with the "
        "baseline's"
    ),
}


@pytest.mark.parametrize("conclusion", SENTENCES)
def test_every_conclusion_has_its_sentence(conclusion: Conclusion) -> None:
    """Which nodes, and how that is known."""
    assert sentence(found(conclusion, "a", "b")) == SENTENCES[conclusion]


def test_what_is_known_beside_the_nodes_is_said() -> None:
    """The optimizations, the effect, and whether there is more."""
    text = sentence(found(Conclusion.HERE, "a", optimizers=("X", "Y"), used=3.14159, further=True))
    assert text.startswith("Conv 'a' goes wrong (")
    assert text.endswith(
        "; it does not happen without X and Y; these nodes alone use 3.14 times what the outputs "
        "are allowed; more is wrong behind them"
    )
    assert "with graph optimizations off" in sentence(found(Conclusion.HERE, "a", optimizers=()))
    assert "inf" not in sentence(found(Conclusion.HERE, "a", used=float("inf")))


def test_of_many_nodes_the_first_and_the_last_are_named() -> None:
    """The others are counted."""
    text = sentence(found(Conclusion.BRACKET, *"abcdefg"))
    assert "among Conv 'a', Conv 'b', Conv 'c', … 3 more …, Conv 'g' (" in text
    assert "… " not in sentence(found(Conclusion.BRACKET, *"abcd"))


def test_a_node_is_called_what_its_model_calls_it() -> None:
    """Where it has no name, what it makes."""
    inner = NodeName(name="main_3/clip", op_type="Clip", origin="If/clip")
    assert sentence(found(Conclusion.HERE, nodes=(inner,))).startswith("Clip 'If/clip' goes")
    nameless = NodeName(name="", op_type="Clip", outputs=("y",))
    assert sentence(found(Conclusion.HERE, nodes=(nameless,))).startswith("Clip 'y' goes")


def test_long_names_leave_room_for_the_sentence() -> None:
    """Their ends tell them apart."""
    text = sentence(found(Conclusion.HERE, *(f"{'scope/' * 2000}conv{at}" for at in range(9))))
    assert len(text) < 600
    assert "conv0' " not in text.partition("…")[0]
    assert "conv0'" in text
    assert "conv8'" in text
