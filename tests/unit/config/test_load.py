import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import ConfigError
from ci_parity.config.filling import schema
from ci_parity.config.load import build, load_deployment, policy, target
from ci_parity.config.model import (
    Contract,
    LatencyPolicy,
    MemoryPolicy,
    Release,
    SelfChecks,
    Tolerance,
)
from ci_parity.config.starter import Starter, starter_config
from ci_parity.config.systems import Optimization, Target, Variant

MINIMAL = "version: 1\nvariants: {exported: {path: m.onnx}}\nfixtures: cases\n"
FULL = """\
version: 1
deployment: ocr-reader
variants:
  exported: {path: models/rec.onnx}
  int8: {path: models/rec.int8.onnx, from: exported, optimization: quantize.yml}
targets:
  cpu:
    runtime: onnxruntime==1.32.0
    session_options:
      graph_optimization_level: disable_all
      intra_op_num_threads: 1
      config_entries: {session.set_denormal_as_zero: "1"}
    variants: [int8]
  gpu: {provider: CUDAExecutionProvider, provider_options: {device_id: "0"}}
fixtures: fixtures/ocr
policy:
  tolerance: {rtol: 1e-3, atol: 1e-5}
  outputs: {probs: {atol: 1e-4}}
  repeat: 3
  timeout_s: 12.5
  latency: {measure: false, sessions: 2, pairs: 5, max_regression: 2.5%, enforce: true}
release: {log: "branch:ci-parity-log", channel: edge-prod}
"""


def written(folder: Path, text: str) -> Path:
    """Write a config file."""
    path = folder / "ci-parity.yml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str) -> ConfigError:
    """Return the error of a config that must be refused."""
    with pytest.raises(ConfigError) as caught:
        load_deployment(written(folder, text))
    return caught.value


def with_target(words: str) -> str:
    """Return a config whose one target says this."""
    return f"{MINIMAL}targets: {{cpu: {words}}}\n"


def test_a_minimal_config_gets_every_default(tmp_path: Path) -> None:
    """Three keys make a deployment; the rest is the schema's."""
    found = load_deployment(written(tmp_path, MINIMAL))
    assert (found.name, found.root, found.origin) == ("model", tmp_path, "ci-parity.yml")
    assert found.variants == (Variant(name="exported", path=tmp_path / "m.onnx"),)
    assert found.targets == (Target(name="cpu"),)
    assert found.fixtures == tmp_path / "cases"
    latency = LatencyPolicy(
        measure=True, sessions=16, pairs=40, max_regression=0.05, margin=0.4 * 0.05,
        enforce=False, time_budget_s=240.0, cases=2, batch_sizes=(), pin=(),
    )  # fmt: skip
    memory = MemoryPolicy(max_regression=0.1, enforce=False)
    checks = SelfChecks(
        repeat=2, rows=None, order=None, padding=None, threads=None, deterministic=False
    )
    assert found.policy.tolerance == "calibrated"
    assert (found.policy.outputs, found.policy.repeat) == ({}, 1)
    assert (found.policy.timeout_s, found.policy.latency) == (300, latency)
    assert found.policy.memory == memory
    assert found.policy.self_checks == checks
    assert found.contract == Contract()
    assert found.release == Release(log="", channel="default")


def test_a_full_config_is_read_whole(tmp_path: Path) -> None:
    """Every key arrives where it belongs."""
    found = load_deployment(written(tmp_path, FULL))
    assert found.name == "ocr-reader"
    assert found.variants[1] == Variant(
        name="int8", path=tmp_path / "models/rec.int8.onnx", made_from="exported",
        optimization=Optimization(recipe=tmp_path / "quantize.yml"),
    )  # fmt: skip
    cpu, gpu = found.targets
    assert (cpu.runtime, cpu.variants) == ("onnxruntime==1.32.0", ("int8",))
    assert json.loads(cpu.options) == {
        "provider": {},
        "session": {
            "graph_optimization_level": "disable_all",
            "intra_op_num_threads": 1,
            "config_entries": {"session.set_denormal_as_zero": "1"},
        },
    }
    assert (gpu.provider, gpu.provider_options) == ("CUDAExecutionProvider", {"device_id": "0"})
    assert found.variants_on(cpu) == found.variants[1:]
    assert found.variants_on(gpu) == found.variants
    assert found.policy.explicit_tolerance("probs") == Tolerance(atol=1e-4)
    assert found.policy.explicit_tolerance("boxes") == Tolerance(rtol=1e-3, atol=1e-5)
    assert (found.policy.repeat, found.policy.timeout_s) == (3, 12.5)
    assert found.policy.latency.max_regression == 0.025
    assert found.release == Release(log="branch:ci-parity-log", channel="edge-prod")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{recipe: r.yml}", {"recipe": "r.yml"}),
        ("{requires: tools/uv.lock}", {"requires": "tools/uv.lock"}),
        ("{recipe: r.yml, requires: q.txt}", {"recipe": "r.yml", "requires": "q.txt"}),
    ],
)
def test_an_optimization_may_name_its_tools(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    """Beside a recipe or alone, each a path below the config."""
    config = MINIMAL.replace("m.onnx", f"m.onnx, optimization: {text}")
    paths = {name: tmp_path / path for name, path in expected.items()}
    (variant,) = load_deployment(written(tmp_path, config)).variants
    assert variant.optimization == Optimization(**paths)


@pytest.mark.parametrize(
    ("text", "place"),
    [("{}", "$.variants.exported.optimization: {} should be non-empty"),
     ("{tools: q.txt}", "unknown key 'tools'; known keys: recipe, requires"),
     ("{requires: ../q.txt}", "path '../q.txt' leaves the deployment's folder"),
     ("{requires: [q.txt]}", "$.variants.exported.optimization.requires"),
     ("[q.txt]", "$.variants.exported.optimization")],
)  # fmt: skip
def test_an_optimization_of_another_form_is_refused(tmp_path: Path, text: str, place: str) -> None:
    """With its place in the config."""
    config = MINIMAL.replace("m.onnx", f"m.onnx, optimization: {text}")
    assert place in refusal(tmp_path, config).what


def test_the_policy_is_identified_by_its_meaning(tmp_path: Path) -> None:
    """A default that is spelt out, and another order of keys, are no change of policy."""
    plain = load_deployment(written(tmp_path, MINIMAL)).policy_json
    spelt = f"{MINIMAL}policy: {{latency: {{pairs: 40, sessions: 16}}, repeat: 1}}\n"
    assert load_deployment(written(tmp_path, spelt)).policy_json == plain
    other = f"{MINIMAL}policy: {{repeat: 2}}\n"
    assert load_deployment(written(tmp_path, other)).policy_json != plain


def test_whole_numbers_may_be_written_as_floats(tmp_path: Path) -> None:
    """JSON Schema calls 2.0 an integer, so it is one."""
    text = f"{MINIMAL}policy: {{repeat: 2.0, latency: {{sessions: 4.0, pairs: 1e1}}}}\n"
    found = load_deployment(written(tmp_path, text)).policy
    numbers = (found.repeat, found.latency.sessions, found.latency.pairs)
    assert numbers == (2, 4, 10)
    assert {type(number) for number in numbers} == {int}


def test_every_error_is_reported_at_once(tmp_path: Path) -> None:
    """Each with its line, its JSON path and, for a misspelt key, the one that was meant."""
    error = refusal(
        tmp_path,
        "version: 2\n"
        "deploiment: x\n"
        "variants:\n"
        "  exported: {path: m.onnx, form: x}\n"
        "  'bad name': {path: n.onnx}\n"
        "targets:\n"
        "  cpu:\n"
        "    runtim: current\n"
        "    session_options:\n"
        "      intra_op_num_threads: many\n"
        "policy:\n"
        "  tolerance:\n"
        "    rtl: 1\n"
        "    atol: -1\n"
        "  outputs:\n"
        "    y: {rtol: 2}\n"
        "  latency: {max_regression: 5}\n",
    )
    lines = error.what.splitlines()
    assert lines[0] == f"{len(lines) - 1} problems in the config"
    expected = (
        (1, "$.version", "1 was expected"),
        (2, "$", "unknown key 'deploiment'; did you mean 'deployment'?"),
        (1, "$", "'fixtures' is a required property"),
        (4, "$.variants.exported", "unknown key 'form'; did you mean 'from'?"),
        (3, "$.variants", "'bad name' does not match"),
        (8, "$.targets.cpu", "unknown key 'runtim'; did you mean 'runtime'?"),
        (10, "$.targets.cpu.session_options.intra_op_num_threads", "not of type 'integer'"),
        (13, "$.policy.tolerance", "unknown key 'rtl'; did you mean 'rtol'?"),
        (14, "$.policy.tolerance.atol", "-1 is less than the minimum"),
        (16, "$.policy.outputs.y.rtol", "2 is greater than the maximum"),
        (17, "$.policy.latency.max_regression", "5 is not of type 'string'"),
    )
    assert len(lines) == len(expected) + 1
    for number, path, said in expected:
        place = f"  - ci-parity.yml:{number}: {path}: "
        assert any(line.startswith(place) and said in line for line in lines), (place, said)
    assert error.remedy


def test_an_unknown_key_without_a_likely_one_lists_what_there_is(tmp_path: Path) -> None:
    """The reader sees the choice."""
    said = refusal(tmp_path, f"{MINIMAL}release: {{zzz: 1}}\n").what
    assert "unknown key 'zzz'; known keys: log, store, channel" in said
    assert said.startswith("1 problem in")


@pytest.mark.parametrize(
    ("tolerance", "said"),
    [
        ("lader", "is not one of ['calibrated', 'ladder']"),
        ("5", "is not one of ['calibrated', 'ladder']"),
        ("{}", "non-empty"),
        ("{rtol: -1}", "less than the minimum"),
        ("{rtol: '1e-3'}", "'1e-3' is not of type 'number'"),
        ("{rtol: true}", "True is not of type 'number'"),
        ("{atol: .inf}", "inf is not a number"),
    ],
)
def test_a_wrong_tolerance_says_what_is_wrong(tmp_path: Path, tolerance: str, said: str) -> None:
    """The alternative that the value comes closest to is the one explained."""
    assert said in refusal(tmp_path, f"{MINIMAL}policy: {{tolerance: {tolerance}}}\n").what


@pytest.mark.parametrize("number", ["1e-3", "0.001", "1.0e-3", "1E-3"])
def test_scientific_numbers_are_numbers(tmp_path: Path, number: str) -> None:
    """In a tolerance above all."""
    text = f"{MINIMAL}policy: {{tolerance: {{rtol: {number}}}}}\n"
    assert load_deployment(written(tmp_path, text)).policy.tolerance == Tolerance(rtol=1e-3)


@pytest.mark.parametrize(
    "path",
    ["../m.onnx", "/m.onnx", "a/../../m.onnx", "link/m.onnx", "a/./../../m.onnx"],
)
@pytest.mark.parametrize("key", ["path", "optimization", "fixtures"])
def test_paths_stay_below_the_config(tmp_path: Path, path: str, key: str) -> None:
    """No config reads what lies beside it, by dots, from the root or through a link."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    text = json.dumps(
        {
            "version": 1,
            "variants": {"exported": {"path": "m.onnx", "optimization": "r.yml"} | {key: path}
                         if key != "fixtures" else {"path": "m.onnx"}},
            "fixtures": path if key == "fixtures" else "cases",
        }
    )  # fmt: skip
    error = refusal(root, text)
    assert "leaves the deployment's folder" in error.what
    assert error.where == ("$.fixtures" if key == "fixtures" else f"$.variants.exported.{key}")


def test_a_path_is_relative_even_where_it_leads_inside(tmp_path: Path) -> None:
    """The next machine keeps the repository somewhere else."""
    text = MINIMAL.replace("m.onnx", str(tmp_path / "m.onnx"))
    assert "leaves the deployment's folder" in refusal(tmp_path, text).what


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    """With its place, before anything asks the system for it."""
    error = refusal(tmp_path, MINIMAL.replace("m.onnx", "m" * 256))
    assert "more than 255 bytes" in error.what
    assert error.where == "$.variants.exported.path"


def test_links_in_a_circle_are_left_to_whoever_opens_them(tmp_path: Path) -> None:
    """The config names a path inside its folder; that there is no file, the reader says."""
    (tmp_path / "m.onnx").symlink_to("m.onnx")
    assert load_deployment(written(tmp_path, MINIMAL)).variants[0].path == tmp_path / "m.onnx"


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    """A model may lie in a folder of its own."""
    (tmp_path / "real").mkdir()
    (tmp_path / "m.onnx").symlink_to(tmp_path / "real" / "m.onnx")
    assert load_deployment(written(tmp_path, MINIMAL)).variants[0].path == tmp_path / "m.onnx"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            MINIMAL.replace("m.onnx}", "m.onnx}, int8: {path: q.onnx, from: exprted}"),
            "$.variants.int8.from",
        ),
        (with_target("{variants: [exprted]}"), "$.targets.cpu.variants"),
    ],
)
def test_an_unknown_variant_is_named_with_the_likely_one(
    tmp_path: Path, text: str, where: str
) -> None:
    """In a chain and in a target."""
    error = refusal(tmp_path, text)
    assert error.what == "unknown variant 'exprted'"
    assert (error.where, error.remedy) == (where, "did you mean 'exported'?")


def test_an_unknown_variant_without_a_likely_one_lists_what_there_is(tmp_path: Path) -> None:
    """The reader sees the choice."""
    assert refusal(tmp_path, with_target("{variants: [zzz]}")).remedy == "defined: exported"


@pytest.mark.parametrize(
    ("cpu", "gpu", "reference"),
    [("false", "false", "cpu"), ("true", "false", "cpu"), ("false", "true", "gpu")],
)
def test_one_target_is_the_reference(tmp_path: Path, cpu: str, gpu: str, reference: str) -> None:
    """The one that says so, else the first."""
    loaded = load_deployment(written(tmp_path, two_targets(cpu, gpu)))
    assert loaded.reference_target.name == reference


def two_targets(cpu: str, gpu: str) -> str:
    """Return a config whose two targets say whether they are the reference."""
    return MINIMAL + f"targets: {{cpu: {{reference: {cpu}}}, gpu: {{reference: {gpu}}}}}\n"


def test_two_references_are_refused(tmp_path: Path) -> None:
    """Nobody could tell what a third target is compared with."""
    error = refusal(tmp_path, two_targets("true", "true"))
    assert error.what == "2 targets are the reference: cpu, gpu"


def test_a_variant_knows_what_it_was_made_from(tmp_path: Path) -> None:
    """The nearest first."""
    more = "m.onnx}, b: {path: b.onnx, from: exported}, c: {path: c.onnx, from: b}"
    loaded = load_deployment(written(tmp_path, MINIMAL.replace("m.onnx}", more)))
    chains = {v.name: [near.name for near in loaded.made_from(v)] for v in loaded.variants}
    assert chains == {"exported": [], "b": ["exported"], "c": ["b", "exported"]}


@pytest.mark.parametrize(
    "option",
    [
        "trt_engine_decryption_lib_path",
        "trt_engine_decryption_enable",
        "trt_engine_cache_path",
        "trt_extra_plugin_lib_paths",
        "trt_dump_subgraphs",
        "trt_onnx_model_folder_path",
        "custom_libs",
        "dump_tensors",
        "weights_dir",
        "key_file",
        "decryption",
        "profile_file_prefix",
        "profiling_file_path",
        "cache_dir",
        "CACHE_DIR",
        "backend_path",
        "qnn_context_cache_path",
        "load_config_File",
        "model_PATH",
        "with space",
        "",
    ],
)
def test_provider_options_that_touch_files_or_code_are_refused(tmp_path: Path, option: str) -> None:
    """What a pull request may set must not make a runner read, write or load."""
    words = "{provider_options: {" + json.dumps(option) + ': "1"}}'
    assert "does not match" in refusal(tmp_path, with_target(words)).what


@pytest.mark.parametrize("option", ["device_id", "arena_extend_strategy", "trt_fp16_enable"])
def test_harmless_provider_options_are_taken(tmp_path: Path, option: str) -> None:
    """The list refuses kinds of names, not providers."""
    text = with_target("{provider_options: {" + option + ': "1"}}')
    assert load_deployment(written(tmp_path, text)).targets[0].provider_options == {option: "1"}


@pytest.mark.parametrize(
    "words",
    [
        "profile_file_prefix: x",
        "enable_profiling: true",
        "optimized_model_filepath: x",
        "register_custom_ops_library: x",
        "log_severity_level: 0",
        "config_entries: {session.load_model_format: ORT}",
        "config_entries: {session.optimized_model_external_initializers_file_name: x}",
        "config_entries: {session.model_external_initializers_file_folder_path: /}",
        "config_entries: {ep.context_enable: '1'}",
        "config_entries: {ep.context_file_path: x}",
        "config_entries: {session.save_model_format: ORT}",
        "config_entries: {session.set_denormal_as_zero: 1}",
        "graph_optimization_level: all",
        "intra_op_num_threads: -1",
        "intra_op_num_threads: true",
    ],
)
def test_session_options_that_touch_files_or_code_are_refused(tmp_path: Path, words: str) -> None:
    """Only what is listed is taken, with values of its own type."""
    refusal(tmp_path, with_target(f"{{session_options: {{{words}}}}}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exported:", '"exported\\n":'),
        ("m.onnx", '"m.onnx\\n"'),
        ("m.onnx", '"a\\tb.onnx"'),
        ("m.onnx", '""'),
        ("fixtures: cases", 'fixtures: "cases\\n"'),
        ("fixtures: cases", 'fixtures: cases\ndeployment: "x\\n"'),
        ("fixtures: cases", "fixtures: cases\ndeployment: ../x"),
        ("fixtures: cases", "fixtures: cases\ndeployment: -x"),
        ("fixtures: cases", "fixtures: cases\ndeployment: 2026"),
        ("fixtures: cases", 'fixtures: cases\nrelease: {log: "branch:x\\n"}'),
        ("fixtures: cases", "fixtures: cases\nrelease: {log: branch:-x}"),
        ("fixtures: cases", "fixtures: cases\nrelease: {log: 'ftp:x'}"),
        ("fixtures: cases", 'fixtures: cases\ntargets: {cpu: {provider: "X\\n"}}'),
        ("fixtures: cases", "fixtures: cases\ntargets: {cpu: {variants: []}}"),
        ("fixtures: cases", "fixtures: cases\ntargets: {cpu: {variants: [exported, exported]}}"),
        ("fixtures: cases", "fixtures: cases\ntargets: {}"),
        ("{exported: {path: m.onnx}}", "{}"),
        ("{exported: {path: m.onnx}}", "[m.onnx]"),
        ("version: 1", "version: '1'"),
        ("version: 1", "version: true"),
    ],
)
def test_values_of_the_wrong_form_are_refused(tmp_path: Path, old: str, new: str) -> None:
    """Control characters and a newline at the end above all."""
    assert old in MINIMAL
    assert "problem" in refusal(tmp_path, MINIMAL.replace(old, new)).what


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    """A config of half a megabyte is not repeated in its own error."""
    error = refusal(tmp_path, f"{MINIMAL}policy: {{repeat: '{'x' * 500_000}'}}\n")
    assert len(str(error)) < 1000


@pytest.mark.parametrize("target", ["/dev/zero", "../elsewhere.yml", "/etc/passwd"])
def test_a_config_that_is_a_file_of_the_machine_is_refused(tmp_path: Path, target: str) -> None:
    """Messages about its keys would show what is in it, and a device has no end."""
    (tmp_path / "elsewhere.yml").write_text(MINIMAL, encoding="utf-8")
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "ci-parity.yml").symlink_to(target)
    with pytest.raises(ConfigError, match="a link that leaves its folder"):
        load_deployment(folder / "ci-parity.yml")


def test_a_config_may_be_a_link_to_another_one_beside_it(tmp_path: Path) -> None:
    """Two names for one file of the repository."""
    path = written(tmp_path, MINIMAL)
    (tmp_path / "other.yml").symlink_to(path.name)
    assert load_deployment(tmp_path / "other.yml").variants[0].name == "exported"


def test_an_endless_config_is_not_read_to_its_end(tmp_path: Path) -> None:
    """No more than a config may have."""
    path = tmp_path / "ci-parity.yml"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load_deployment(path)


@pytest.mark.parametrize("make", ["absent", "folder", "latin", "circle"])
def test_an_unreadable_config_is_refused(tmp_path: Path, make: str) -> None:
    """No file, a folder, a link to itself, or bytes that are no UTF-8."""
    path = tmp_path / "ci-parity.yml"
    if make == "folder":
        path.mkdir()
    if make == "circle":
        path.symlink_to(path.name)
    if make == "latin":
        path.write_bytes(b"version: \xe9")
    with pytest.raises(ConfigError, match="cannot read the config"):
        load_deployment(path)


def test_parts_given_on_the_command_line_obey_the_same_rules() -> None:
    """A target and a policy, each with its defaults."""
    assert target("candidate", {"runtime": "current"}) == Target(name="candidate")
    assert policy({}).repeat == 1
    with pytest.raises(ConfigError, match="unknown key 'provder'; did you mean 'provider'"):
        target("candidate", {"provder": "X"})
    with pytest.raises(ConfigError, match="0 is less than the minimum"):
        policy({"repeat": 0})


def test_a_part_is_not_changed_by_its_defaults() -> None:
    """What was given stays as it was given."""
    words = {"latency": {"pairs": 3}}
    policy(words)
    assert words == {"latency": {"pairs": 3}}
    assert schema()["$defs"]["policy"]["properties"]["latency"]["default"] == {}


def test_a_deployment_is_built_without_a_file(tmp_path: Path) -> None:
    """As discovery does, with its own word for where it comes from."""
    value = {"version": 1, "variants": {"v": {"path": "m.onnx"}}, "fixtures": "."}
    found = build(value, root=tmp_path, origin="models (discovered)")
    assert (found.origin, found.fixtures) == ("models (discovered)", tmp_path)


# The config that `init` writes.


@given(
    st.text(min_size=1, max_size=30) | st.sampled_from(["2026", "1e5", "yes", "null", "1.5", "~"]),
    st.lists(st.text(max_size=30), max_size=3),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_starter_config_loads(tmp_path: Path, model: str, ports: list[str]) -> None:
    """Whatever the model and its inputs are called."""
    text = starter_config(
        Starter(
            deployment=model, variants=[("exported", "models/m.onnx", "")], fixtures="fixtures/m",
            runtime="onnxruntime==1.32.0", ports={"inputs": ports},
        )
    )  # fmt: skip
    found = load_deployment(written(tmp_path, text))
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", found.name)
    assert found.policy == policy({})
    assert found.targets == (Target(name="cpu", runtime="onnxruntime==1.32.0"),)


@given(st.text(st.characters(min_codepoint=0x20, codec="utf-8"), min_size=1, max_size=30))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_starter_config_keeps_any_path(tmp_path: Path, name: str) -> None:
    """Quotes, colons, emoji and invisible characters in a path come back as they were."""
    path = "models/" + name.replace("/", "_")
    text = starter_config(Starter(deployment="m", variants=[("exported", path, "")], fixtures=path))
    found = load_deployment(written(tmp_path, text))
    assert found.variants[0].path == tmp_path / path
    assert found.fixtures == tmp_path / path


def test_the_starter_config_describes_the_model(tmp_path: Path) -> None:
    """Its inputs and outputs stand in comments, one line each."""
    ports = {"inputs": ["x: float32 [batch, 3]", "evil\nversion: 2"], "outputs": ["y: int64 [1]"]}
    text = starter_config(
        Starter(
            deployment="m", variants=[("exported", "m.onnx", "")], fixtures="cases", ports=ports
        )
    )
    assert "#   inputs: x: float32 [batch, 3]\n" in text
    assert "#   inputs: evil version: 2\n" in text
    assert "#   outputs: y: int64 [1]\n" in text
    assert load_deployment(written(tmp_path, text)).name == "m"


def test_the_starter_config_takes_all_that_is_known(tmp_path: Path) -> None:
    """Variants, the file that pins the runtime, another provider, labels and a log."""
    (tmp_path / "requirements.txt").write_text("onnxruntime-gpu==1.31.1\n", encoding="utf-8")
    text = starter_config(
        Starter(
            deployment="m", variants=[("exported", "m.onnx", ""), ("int8", "q.onnx", "exported")],
            fixtures="cases", runtime="onnxruntime-gpu==1.31.1", requires="requirements.txt",
            target="gpu", provider="CUDAExecutionProvider", runs_on=("self-hosted", "a100"),
            generated=True, log="branch:log",
        )
    )  # fmt: skip
    found = load_deployment(written(tmp_path, text))
    assert [(v.name, v.made_from) for v in found.variants] == [
        ("exported", ""),
        ("int8", "exported"),
    ]
    (target,) = found.targets
    assert (target.name, target.runtime) == ("gpu", "onnxruntime-gpu==1.31.1")
    assert (target.provider, target.runs_on) == ("CUDAExecutionProvider", ("self-hosted", "a100"))
    assert found.release.log == "branch:log"
    assert "only real inputs" in text
