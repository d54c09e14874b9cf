"""Pins as flat facts, and back: `pin torch` is `2.8.0 files=3:9c1f… direct`.

Between the pins of a file and a record that a release log can hold. The list of a pin's hashes is
kept as one digest, its line not at all: a line that moves is no change. Facts may come from a log
that another version wrote; what cannot be read back is skipped.
"""

import re
from collections import Counter

from ci_parity.base.pins import Pin, PinSet
from ci_parity.base.pins.change import role
from ci_parity.records.facts import Facts

_KEY = re.compile(r"pin (?P<name>\S+)(?: \[(?P<marker>.*)\])?(?: #\d+)?", re.DOTALL)
_VERSION = re.compile(r"[A-Za-z0-9][\w.!+-]*")
_ROLES = {"direct": True, "transitive": False}


def facts_of_pins(pins: PinSet) -> dict[str, str]:
    """Return the facts of a file's pins and settings, by name."""
    facts: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for pin in sorted(pins.pins, key=lambda pin: (pin.name, pin.marker, pin.wanted)):
        marker = f" [{pin.marker}]" if pin.marker else ""
        key = f"pin {_escaped(pin.name)}{marker}"
        numbers[key] += 1
        facts[key if numbers[key] == 1 else f"{key} #{numbers[key]}"] = _value(pin)
    for setting in pins.settings:
        option, _, value = setting.partition(" ")
        known = facts.get(f"setting {option}")
        facts[f"setting {option}"] = ", ".join(filter(None, (known, value or "set")))
    return facts


def pins_of_facts(facts: Facts, name: str) -> PinSet:
    """Return the pins that facts tell of; every pin stands in the file called `name`."""
    pins = (_pin(key, value, name) for key, value in facts.items() if key.startswith("pin "))
    settings = (
        f"{key.removeprefix('setting ')} {value}"
        for key, value in facts.items()
        if key.startswith("setting ")
    )
    return PinSet(
        name=name, format="facts", pins=tuple(pin for pin in pins if pin), settings=tuple(settings)
    )


def _value(pin: Pin) -> str:
    words = [_escaped(pin.wanted)]
    if pin.extras:
        words.append(f"extras={','.join(pin.extras)}")
    if pin.hashes:
        words.append(f"files={_escaped(pin.files)}")
    if role(pin):
        words.append(role(pin))
    if pin.source:
        words.append(f"from={_escaped(pin.source)}")
    return " ".join(words)


def _pin(key: str, value: str, file: str) -> Pin | None:
    found = _KEY.fullmatch(key)
    words = value.split(" ")
    if not found or not words[0]:
        return None
    wanted = _unescaped(words[0])
    exact = _VERSION.fullmatch(wanted) is not None
    told = dict(word.partition("=")[::2] for word in words[1:])
    files = _unescaped(told.get("files", ""))
    return Pin(
        name=_unescaped(found["name"]), marker=found["marker"] or "",
        version=wanted if exact else "",
        specifier=f"=={wanted}" if exact else wanted.removeprefix("*"),
        extras=tuple(filter(None, told.get("extras", "").split(","))),
        hashes=(files,) if files else (), source=_unescaped(told.get("from", "")),
        direct=next((truth for word, truth in _ROLES.items() if word in told), None),
        constraint="constraint" in told, where=file,
    )  # fmt: skip


def _escaped(text: str) -> str:
    return re.sub(r"[%\s]", lambda found: f"%{ord(found[0]):02X};", text)


def _unescaped(text: str) -> str:
    def original(found: re.Match[str]) -> str:
        char = chr(int(found[1], 16))
        return char if char == "%" or char.isspace() else found[0]

    return re.sub(r"%([0-9A-F]{2,4});", original, text)
