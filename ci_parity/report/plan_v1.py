"""A plan as JSON under schemas/plan-v1.json, out and in; `include` is GitHub's matrix."""

from collections.abc import Mapping

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.identity import BaselineSource, ChangeSet
from ci_parity.records.plan import Leg, Plan
from ci_parity.report.json_v1 import PLAN, schema

_MAX_CHARS = 1 << 20
_REMEDY = "pass on the plan of this run as it is: plan: ${{ needs.plan.outputs.plan }}"


def render_plan(plan: Plan, changes: ChangeSet) -> Mapping[str, Json]:
    """Return a plan; `skipped` are pairs of the change set that have no leg."""
    ran = {(leg.target, variant) for leg in plan.legs for variant in leg.variants}
    skipped = [i for i in changes.identities if (i.target, i.variant) not in ran]
    return {
        "schema": PLAN,
        "deployment": plan.deployment,
        "commit": plan.commit,
        "run": bool(plan.legs),
        "drift": plan.drift,
        "source": to_json(plan.source),
        "include": [to_json(leg) for leg in plan.legs],
        "skipped": [{"target": i.target, "variant": i.variant} for i in skipped],
    }


def read_plan(text: str) -> Plan:
    """Read a plan that `render_plan` made.

    Raises:
        EvidenceError: it is empty, too long, or not under the schema.
    """
    if not text.strip():
        what = "there is no plan: the job that makes it did not succeed, or it was not passed on"
        raise EvidenceError(what, where="plan", remedy=_REMEDY)
    value = _object(text, "plan")
    problem = _problem(value, schema("plan-v1"))
    if problem:
        raise EvidenceError(f"not a plan: {problem}", where="plan", remedy=_REMEDY)
    legs = value["include"]
    assert isinstance(legs, list)
    names = {leg["name"] for leg in legs}
    if len(names) < len(legs) or value["run"] is not bool(legs):
        raise EvidenceError("the plan contradicts itself", where="plan", remedy=_REMEDY)
    return Plan(
        deployment=str(value["deployment"]),
        commit=str(value["commit"]),
        source=from_json(BaselineSource, value["source"], where="plan"),
        drift=bool(value["drift"]),
        legs=tuple(from_json(Leg, leg, where="plan") for leg in legs),
    )


def read_leg(text: str) -> Leg:
    """Read one leg, an item of `include`.

    Raises:
        EvidenceError: it is none.
    """
    value = _object(text, "leg")
    problem = _problem(value, schema("plan-v1")["properties"]["include"]["items"])
    if problem:
        remedy = "pass the matrix on as it is: leg: ${{ toJSON(matrix) }}"
        raise EvidenceError(f"not a leg of a plan: {problem}", where="leg", remedy=remedy)
    return from_json(Leg, value, where="leg")


def _object(text: str, where: str) -> Mapping[str, Json]:
    if len(text) > _MAX_CHARS:
        raise EvidenceError("the text is longer than 1 MiB", where=where)
    value = parse_strict(text, where=where)
    if not isinstance(value, Mapping):
        raise EvidenceError("not a JSON object", where=where)
    return value


def _problem(value: Json, under: Mapping[str, object]) -> str:
    import jsonschema

    errors = jsonschema.Draft202012Validator(under).iter_errors(value)
    return next((f"{error.json_path}: {error.message[:200]}" for error in errors), "")
