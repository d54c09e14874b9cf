"""The rules of docs/runner-protocol.md that a program can be held against, each with its remedy.

Every right answer is exact: no model here rounds. Speed is measured nowhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.records.observation import RunStatus
from ci_parity.run.conformance import models
from ci_parity.run.conformance.bench import Bench, FailedError, UnsupportedError
from ci_parity.run.conformance.expected import array, expect, floats
from ci_parity.run.conformance.listed import lists_kernels
from ci_parity.run.execute import PROTOCOL
from ci_parity.run.placement import VERB, placement_in
from ci_parity.run.protocol import WorkerError

if TYPE_CHECKING:
    from ci_parity.records.values import Value

_VERBS = ("hello", "load", "run", "close")
_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: what is checked, how, and what a runner should do that breaks it.

    `required` says that no runner may leave it out.
    """

    name: str
    check: Callable[[Bench], None]
    remedy: str
    required: bool = True


def _greets(bench: Bench) -> None:
    said = bench.ask("hello")
    if type(said.get("protocol")) is not int or said["protocol"] != PROTOCOL:
        raise FailedError(f"protocol is {said.get('protocol')!r}, not {PROTOCOL}")
    for key in ("runtime", "version"):
        if not isinstance(said.get(key), str) or not said[key]:
            raise FailedError(f"{key} is {said.get(key)!r}, no text")
    for key in ("providers", "verbs"):
        texts = said.get(key)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise FailedError(f"{key} is {texts!r}, no list of texts")
    missing = [verb for verb in _VERBS if verb not in said["verbs"]]
    if missing:
        raise FailedError(f"verbs lacks {', '.join(missing)}")


def _refuses_before_load(bench: Bench) -> None:
    bench.refused("a case before any model", "run", **bench.case({}))


def _refuses_unknown_verbs(bench: Bench) -> None:
    bench.refused("the verb 'dance'", "dance")
    bench.ask("hello")


def _refuses_missing_models(bench: Bench) -> None:
    path = bench.models / "absent.onnx"
    broken = bench.file("broken.onnx", b"no model")
    for what, model in (("a model that is not there", path), ("a file that is no model", broken)):
        bench.refused(
            what, "load", model=str(model), provider=bench.provider, provider_options={},
            session_options={},
        )  # fmt: skip
    bench.load(models.add())


def _refuses_unknown_options(bench: Bench) -> None:
    bench.refused(
        "the session option 'atoll'", "load",
        model=str(bench.file("options.onnx", models.add().SerializeToString())),
        provider=bench.provider, provider_options={}, session_options={"atoll": 1},
    )  # fmt: skip


def _refuses_unknown_providers(bench: Bench) -> None:
    path = bench.file("provider.onnx", models.add().SerializeToString())
    asked = "NoSuchExecutionProvider"
    try:
        said = bench.ask(
            "load", model=str(path), provider=asked, provider_options={}, session_options={}
        )
    except WorkerError as error:
        if error.status is RunStatus.ERROR:
            return
        raise
    if asked in said.get("providers", ()):
        raise FailedError(f"it says that it runs on {asked}, which does not exist")


def _says_where_it_runs(bench: Bench) -> None:
    used = bench.load(models.add()).get("providers")
    if not isinstance(used, list) or bench.provider not in used:
        raise FailedError(f"asked for {bench.provider}, it says it runs on {used!r}")


def _adds(bench: Bench) -> None:
    bench.load(models.add())
    expect(bench.run({"a": floats(2, 3), "b": floats(2, 3)}), {"sum": 2 * floats(2, 3)})


def _multiplies(bench: Bench) -> None:
    bench.load(models.matmul())
    y = array([[10, 13], [28, 40]], "float32")
    expect(bench.run({"x": floats(2, 3)}), {"y": y})


def _orders_outputs(bench: Bench) -> None:
    bench.load(models.split())
    x = floats(2, 4)
    expect(bench.run({"x": x}), {"right": x[:, 2:], "left": x[:, :2]})


def _takes_any_batch(bench: Bench) -> None:
    bench.load(models.add())
    for batch in (1, 4, 2):
        x = floats(batch, 3)
        expect(bench.run({"a": x, "b": x}), {"sum": 2 * x})


def _takes_empty_batches(bench: Bench) -> None:
    bench.load(models.add())
    x = floats(0, 3)
    expect(bench.run({"a": x, "b": x}), {"sum": x})


def _takes_scalars(bench: Bench) -> None:
    bench.load(models.identity("float32", ()))
    expect(bench.run({"x": array(1.5, "float32")}), {"y": array(1.5, "float32")})


def _passes(dtype: str, *values: object) -> Callable[[Bench], None]:
    """Return the check that values of an element type go through unchanged."""

    def check(bench: Bench) -> None:
        bench.load(models.identity(dtype))
        x = array(values, dtype)
        expect(bench.run({"x": x}), {"y": x})

    return check


def _gives_sequences(bench: Bench) -> None:
    bench.load(models.pieces())
    expect(bench.run({"x": floats(2)}), {"y": [floats(2)[:1], floats(2)[1:]]})


def _takes_optionals(bench: Bench) -> None:
    bench.load(models.presence())
    for value in (None, floats(2)):
        expect(bench.run({"x": value}), {"y": array(value is not None, "bool")})


def _refuses_wrong_inputs(bench: Bench) -> None:
    bench.load(models.add())
    good: dict[str, Value] = {"a": floats(2, 3), "b": floats(2, 3)}
    wrong: dict[str, Mapping[str, Value]] = {
        "a case without the input 'b'": {"a": good["a"]},
        "an input that the model lacks": good | {"c": good["a"]},
        "int64 where the model has float32": good | {"a": array([[1, 2, 3]] * 2, "int64")},
        "a matrix of other columns": good | {"a": floats(2, 4)},
    }
    for what, values in wrong.items():
        bench.refused(what, "run", **bench.case(values))
        expect(bench.run(good), {"sum": 2 * floats(2, 3)})


def _refuses_missing_files(bench: Bench) -> None:
    bench.load(models.add())
    request = bench.case({"a": floats(1, 3), "b": floats(1, 3)})
    lost = sorted(bench.inputs.glob(f"{request['stem']}_i0*"))[0]
    lost.unlink()
    del bench.written[lost]
    bench.refused("an input file that is not there", "run", **request)


def _keeps_cases_apart(bench: Bench) -> None:
    bench.load(models.add())
    answers = [
        bench.ask("run", **bench.case({"a": x, "b": x}))["outputs"]
        for x in (floats(2, 3), floats(1, 3))
    ]
    for answer, x in zip(answers, (floats(2, 3), floats(1, 3)), strict=True):
        expect(bench.read(answer), {"sum": 2 * x})


def _repeats(bench: Bench) -> None:
    bench.load(models.matmul())
    answer = bench.ask("run", **bench.case({"x": floats(2, 3)}, repeat=3))
    if answer.get("repeats") != []:
        raise FailedError(f"repeats is {answer.get('repeats')!r} though no run differed")
    expect(bench.read(answer.get("outputs")), {"y": array([[10, 13], [28, 40]], "float32")})


def _times(bench: Bench) -> None:
    if "time" not in bench.ask("hello").get("verbs", ()):
        raise UnsupportedError("it does not list the verb")
    bench.load(models.add())
    request = bench.case({"a": floats(1, 3), "b": floats(1, 3)}, min_ms=1, iterations=5)
    samples = bench.ask("time", **request).get("samples_ns")
    whole = isinstance(samples, list) and all(type(s) is int and s > 0 for s in samples)
    if not isinstance(samples, list) or not whole or len(samples) < 5:
        raise FailedError(f"samples_ns is {str(samples)[:80]}, not 5 or more durations")


def _places(bench: Bench) -> None:
    if VERB not in bench.ask("hello").get("verbs", ()):
        raise UnsupportedError("it does not list the verb")
    case = bench.case({"a": floats(1, 3), "b": floats(1, 3)})
    answer = bench.ask(VERB, **bench.loading(models.add()), **case)
    try:
        count = placement_in(answer).count
    except EvidenceError as error:
        raise FailedError(f"unreadable placement: {error.what}") from error
    if count < 1:
        raise FailedError("a model of one node has no node")


def _stays_in_its_folder(bench: Bench) -> None:
    bench.check_untouched()
    if not any(bench.exchange.iterdir()):
        raise FailedError("it has written no output at all")
    strange = sorted(p.name for p in bench.exchange.iterdir() if not _is_output(p.name))
    if strange:
        raise FailedError(f"{', '.join(strange[:3])} is not named after the stem of a request")


def _is_output(name: str) -> bool:
    return name.startswith("c") and name[1:2].isdigit()


def _closes(bench: Bench) -> None:
    bench.ask("close")
    try:
        bench.worker.request("hello", timeout_s=_END_S)
    except WorkerError as error:
        if error.status is RunStatus.CRASH and "exited with status 0" in error.message:
            return
        raise FailedError(f"after close: {error.message}") from error
    raise FailedError("it answers after close")


def _type(dtype: str, *values: object) -> Rule:
    return Rule(
        name=f"{dtype} goes through unchanged",
        check=_passes(dtype, *values),
        remedy="write the elements as docs/runner-protocol.md has them, or answer with an error",
        required=False,
    )


RULES = (
    Rule(
        name="hello says who answers",
        check=_greets,
        remedy="answer protocol 1, runtime, version, providers and verbs",
    ),
    Rule(
        name="a case before any model is an error",
        check=_refuses_before_load,
        remedy='answer {"ok": false, "error": …} and wait for the next request',
    ),
    Rule(
        name="an unknown verb is an error",
        check=_refuses_unknown_verbs,
        remedy='answer {"ok": false, "error": …} and wait for the next request',
    ),
    Rule(
        name="a missing or broken model is an error",
        check=_refuses_missing_models,
        remedy="catch what loading raises, answer with it and wait for the next request",
    ),
    Rule(
        name="load says where the model runs",
        check=_says_where_it_runs,
        remedy="answer `providers` with what was asked for if it really is in use",
    ),
    Rule(
        name="an unknown provider is not in use",
        check=_refuses_unknown_providers,
        remedy="answer an error, or `providers` without the one that is not there",
    ),
    Rule(
        name="an unknown session option is an error",
        check=_refuses_unknown_options,
        remedy="refuse options that have no effect: a target would be judged as if they had",
    ),
    Rule(name="Add, exactly", check=_adds, remedy="compare the file of the output with its record"),
    Rule(
        name="MatMul, exactly",
        check=_multiplies,
        remedy="compare the file of the output with its record; elements are in C order",
    ),
    Rule(
        name="outputs are in the model's order, under its names",
        check=_orders_outputs,
        remedy="take the names from `output_names` of the load request where the runtime has none",
    ),
    Rule(
        name="a model takes batches of any size",
        check=_takes_any_batch,
        remedy="take the shapes from each request, not from the model or the first case",
    ),
    Rule(
        name="an empty batch goes through",
        check=_takes_empty_batches,
        remedy="an empty tensor is an empty file; answer with an error if the runtime has none",
        required=False,
    ),
    Rule(
        name="a scalar stays a scalar",
        check=_takes_scalars,
        remedy="its shape is [], not [1]; answer with an error if the runtime has none",
        required=False,
    ),
    _type("bool", True, False),
    _type("int8", -128, 127),
    _type("int16", -32768, 32767),
    _type("int32", -(2**31), 2**31 - 1),
    _type("int64", -(2**31), 2**31 - 1),
    _type("uint8", 0, 255),
    _type("uint16", 0, 65535),
    _type("uint32", 0, 2**31 - 1),
    _type("uint64", 0, 2**31 - 1),
    _type("float16", -1.5, 65504.0),
    _type("float32", -1.5, 2.0**-126),
    _type("float64", -1.5, 2.0**-126),
    _type("bfloat16", -1.5, 2.0**-126),
    _type("string", "", "größe", 'two\n"lines"'),
    Rule(
        name="a sequence comes out",
        check=_gives_sequences,
        remedy="answer kind `sequence` with its items, or an error",
        required=False,
    ),
    Rule(
        name="an optional goes in, empty or not",
        check=_takes_optionals,
        remedy="kind `absent` is an empty optional; answer with an error if the runtime has none",
        required=False,
    ),
    Rule(
        name="inputs that do not fit are errors, and the next case runs",
        check=_refuses_wrong_inputs,
        remedy="check names, element types and shapes: a runtime that casts, or keeps the input of "
        "the case before, hides a fixture that is wrong",
    ),
    Rule(
        name="a missing input file is an error",
        check=_refuses_missing_files,
        remedy="catch it, answer with an error and wait for the next request",
    ),
    Rule(
        name="cases have files of their own",
        check=_keeps_cases_apart,
        remedy="name every output file after the `stem` of its request",
    ),
    Rule(
        name="repeat reports only runs that differ",
        check=_repeats,
        remedy="compare each further run with the first, bit by bit, and answer those that differ",
    ),
    Rule(
        name="time answers durations in nanoseconds",
        check=_times,
        remedy="answer at least `iterations` whole numbers, each the nanoseconds of one run",
        required=False,
    ),
    Rule(
        name="placement counts nodes by provider and operator",
        check=_places,
        remedy="answer `method`, `operators` and `memcpy`; leave the verb out if nothing is known",
        required=False,
    ),
    Rule(
        name="kernels are listed by operator, version and type",
        check=lists_kernels,
        remedy="answer `kernels` as docs/runner-protocol.md has them, or leave the verb out",
        required=False,
    ),
    Rule(
        name="files are written only where it was told",
        check=_stays_in_its_folder,
        remedy="write into `folder` alone, names beginning with `stem`; change no input or model",
    ),
    Rule(
        name="close ends the program",
        check=_closes,
        remedy="answer, then exit with status 0",
    ),
)
