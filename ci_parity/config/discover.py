"""The deployment of a repository that has no config: models in the ONNX test layout.

A folder with `model.onnx` beside `test_data_set_*` folders, or beside a `fixtures.yml`, is a
deployment of one variant. The runtime is what the repository's lock or requirements pin, else the
one at hand.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.errors import ConfigError
from ci_parity.config import CONFIG_NAME
from ci_parity.config.load import build, load_deployment
from ci_parity.config.model import Deployment
from ci_parity.config.pinned import pinned_runtime

_SKIPPED = {"node_modules", "__pycache__", "venv", "site-packages"}
_MAX_FOLDERS = 20_000
_NEXT_STEP = f"""\
put the model in the ONNX test layout, or write a config:
      models/mymodel/model.onnx
      models/mymodel/test_data_set_0/input_0.pb, output_0.pb
    ci-parity init     writes {CONFIG_NAME}, a workflow and first fixtures for what it finds
    ci-parity fixtures import --model path/to/model.onnx --out fixtures/mymodel inputs.npz"""


def find_deployment(root: Path, config: str = "") -> Deployment:
    """Return the deployment of a repository: from `config`, from ci-parity.yml, or discovered.

    Raises:
        ConfigError: the config is wrong, or there is neither a config nor a model with fixtures.
    """
    named = root / (config or CONFIG_NAME)
    if named.is_file():
        return load_deployment(named)
    if config:
        raise ConfigError(f"no such config file: {config}", where=str(root))
    folders = sorted(_test_layouts(root))
    if not folders:
        raise ConfigError(
            f"no {CONFIG_NAME} and no model with fixtures", where=str(root), remedy=_NEXT_STEP
        )
    if len(folders) > 1:
        names = ", ".join(folder.relative_to(root).as_posix() for folder in folders[:5])
        raise ConfigError(
            f"{len(folders)} models with fixtures and no {CONFIG_NAME} to say which: {names}",
            where=str(root),
            remedy=f"run `ci-parity init {folders[0].relative_to(root).as_posix()}/model.onnx`, "
            "or pass --config",
        )
    return _deployment(root, folders[0])


def _deployment(root: Path, folder: Path) -> Deployment:
    relative = folder.relative_to(root).as_posix()
    name = re.sub(r"[^A-Za-z0-9._-]", "-", folder.resolve().name).lstrip("._-")[:64] or "model"
    value = {
        "version": 1,
        "deployment": name,
        "variants": {"exported": {"path": f"{relative}/model.onnx"}},
        "targets": {"cpu": {"runtime": pinned_runtime(root)}},
        "fixtures": relative,
    }
    return build(value, root=root, origin=f"{relative} (discovered)")


def _test_layouts(root: Path) -> Iterator[Path]:
    for count, (folder, children, files) in enumerate(os.walk(root)):
        if count > _MAX_FOLDERS:
            raise ConfigError(
                f"gave up looking for models after {_MAX_FOLDERS} folders",
                where=str(root),
                remedy="write a ci-parity.yml: `ci-parity init path/to/model.onnx`",
            )
        has_cases = any(child.startswith("test_data_set_") for child in children)
        if "model.onnx" in files and (has_cases or "fixtures.yml" in files):
            yield Path(folder)
        children[:] = sorted(c for c in children if not c.startswith(".") and c not in _SKIPPED)
