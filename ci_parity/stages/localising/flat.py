"""A model prepared and made flat for one case: what it decides is asked of the system itself."""

from collections.abc import Sequence
from pathlib import Path

from ci_parity.localise import flatten
from ci_parity.localise.flatten import Flattened
from ci_parity.localise.prepare import finish, prepare
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import ValueRecord, read_value
from ci_parity.run.bench import Bench

_ROUNDS = 32


def flat_model(model: Path, home: Path, bench: Bench, case: Sequence[ValueRecord]) -> Flattened:
    """Return a model without functions and control flow, as far as the case tells.

    Args:
        model: the original.
        home: a new folder for the prepared model and its weights.
        bench: a system that can run it; the case's files lie in its folder.
        case: the inputs.

    Raises:
        CiParityError: the model cannot be prepared.
    """
    flat, known = prepare(model, home), home / "probe.onnx"
    first = flat
    for _ in range(_ROUNDS):
        asked = flatten.questions(flat)
        if not asked:
            break
        known.write_bytes(flatten.probe(flat).SerializeToString())
        outputs = [port.name for port in flat.model.graph.output]
        names = [*outputs, *(question.output for question in asked)]
        # Both sides are asked at the same time, and write into one folder.
        run = bench.run(known, case, names, f"{home.name}_probe")
        known.unlink()
        if run.status is not RunStatus.OK:
            break
        records = {record.name: record for record in run.outputs}
        answers = {}
        for question in asked:
            value = read_value(records[question.output], bench.folder)
            if value is not None and not isinstance(value, list | dict):
                answers[question.output] = value
        flat = flatten.answered(flat, answers)
    return flat if flat is first else finish(flat, home)
