"""Lines of a log whose chain is whole and whose texts are not ours."""

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.condensed import condense
from ci_parity.records.release import LogLine
from ci_parity.stages.recorded import refuse_unreadable
from tests.unit.release.samples import digest, entry, identity

LINE = LogLine(seq=7, sha256=digest("line"), entry=entry())


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"policy": "", "optimization": digest("recipe")},
        {"optimization": '{"recipe":"x","requires":"tools.lock"}', "converter": '{"a":"b"}'},
        {"host": condense('{"a":"b"}')},
    ],
)
def test_what_a_run_records_is_taken(texts: dict[str, str]) -> None:
    """Digests, facts, condensed facts, and nothing."""
    refuse_unreadable(LINE, identity(**texts))


@pytest.mark.parametrize("text", ["x", "1", "[]", '{"a":1,"a":2}', '{"a":', "null"])
@pytest.mark.parametrize("name", ["options", "policy", "converter", "components", "host"])
def test_a_text_that_is_no_mapping_is_refused(name: str, text: str) -> None:
    """With line and part."""
    with pytest.raises(EvidenceError) as caught:
        refuse_unreadable(LINE, identity(**{name: text}))
    assert caught.value.where == f"release log record 7, cpu int8: {name}"


@pytest.mark.parametrize(
    "texts",
    [
        {"options": ""},
        {"options": "{}"},
        {"options": '{"provider":{},"session":[]}'},
        {"converter": '{"a":1}'},
        {"optimization": '{"recipe":null}'},
        {"optimization": "{"},
    ],
)
def test_facts_of_another_form_are_refused(texts: dict[str, str]) -> None:
    """Options have two parts, facts are words."""
    with pytest.raises(EvidenceError):
        refuse_unreadable(LINE, identity(**texts))
