"""The converter axis: what made the model, as flat facts that a log line can hold, and compared.

Before the change set. Three things are known without running anything: what the model says of
itself, what the converter's requirements pin, and the scripts its command runs with all they import
from the repository. A fact that is missing was not known; nothing is guessed.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.pins import PinSet, read_pins
from ci_parity.detect.converter_words import explain_model, explain_pins, explain_scripts
from ci_parity.detect.pin_facts import facts_of_pins, pins_of_facts
from ci_parity.detect.scripts import Script, find_scripts
from ci_parity.records.facts import ABSENT, Facts, fact


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOrigin:
    """What a model says of how it was made.

    Attributes:
        producer_name: as the exporter wrote it, empty for none.
        producer_version: likewise.
        ir_version: 0 for unknown.
        opsets: version by domain; the default domain is empty or `ai.onnx`.
        metadata: digest of the metadata properties, empty without any.
        function_domains: the domains of the model's own functions.
    """

    producer_name: str = ""
    producer_version: str = ""
    ir_version: int = 0
    opsets: Mapping[str, int] = field(default_factory=dict)
    metadata: str = ""
    function_domains: Sequence[str] = ()


def converter_facts(
    *, origin: ModelOrigin | None, requires: Path | None, command: Sequence[str], root: Path
) -> dict[str, str]:
    """Return the facts of a converter, in the order a reader wants them.

    Args:
        origin: what the model says; None where it was not read.
        requires: the file of the converter's requirements, None where the config names none.
        command: the arguments of the converter's command, empty where the config names none.
        root: the repository; a relative `requires` and the command start there.

    Raises:
        EvidenceError: the requirements or a script cannot be read or leave the repository.
    """
    facts = dict(_model_facts(origin)) if origin else {}
    if command:
        facts["command"] = shlex.join(command)
    if requires is not None:
        pins = read_pins(requires, root)
        facts |= {"requires": pins.name, **facts_of_pins(pins)}
    scripts = find_scripts(command, root) if command else ()
    return facts | {f"script {script.path}": _script_fact(script) for script in scripts}


def explain_converter(before: Facts, after: Facts) -> tuple[str, ...]:
    """Return a sentence for each respect in which two converters differ, none for equal ones.

    What somebody asked for comes before what it pulled in, and pins before scripts.
    """
    if before == after:
        return ()
    both = "requires" in before and "requires" in after
    pins_equal = both and _pin_facts(before) == _pin_facts(after)
    sentences = [
        *explain_model(before, after),
        *(explain_pins(_pins(before), _pins(after)) if both else ()),
        *explain_scripts(before, after, pins_equal=pins_equal),
    ]
    return tuple(sentences) or ("the converter is recorded in another form, with equal content",)


def _model_facts(origin: ModelOrigin) -> Iterator[tuple[str, str]]:
    producer = f"{origin.producer_name} {origin.producer_version}".strip()
    if producer:
        yield "producer", fact(producer)
    if origin.ir_version:
        yield "ir version", str(origin.ir_version)
    for domain, version in sorted(origin.opsets.items()):
        yield f"opset {fact(domain or 'ai.onnx')}", str(version)
    domains = ", ".join(sorted(set(origin.function_domains) - {""}))
    if domains:
        yield "function domains", fact(domains)
    if origin.metadata:
        yield "metadata", origin.metadata


def _script_fact(script: Script) -> str:
    if not script.digest:
        return ABSENT
    words = [script.digest]
    if script.code:
        words.append(f"code={script.code[:32]}")
    return " ".join([*words, "unparsed"] if script.problem else words)


def _pins(facts: Facts) -> PinSet:
    return pins_of_facts(facts, facts.get("requires", ""))


def _pin_facts(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if key.startswith("pin ")}
