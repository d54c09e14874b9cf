"""What a deployment's preprocessing pipeline is: facts for its identities, files for its bundle.

The pipeline's own file counts with what it says, not with its bytes; the files that it names count
with theirs, and an entry point with everything it imports from the repository. Nothing is executed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.records.facts import ABSENT, Facts, fact

if TYPE_CHECKING:
    from ci_parity.detect.scripts import Script
    from ci_parity.preprocess.model import Pipeline


def pipeline_of(preprocess: Path | None, root: Path) -> "Pipeline | None":
    """Return the pipeline that a deployment's config names, None where it names none.

    Raises:
        ConfigError: the file is missing or wrong, or names one outside the deployment.
    """
    if preprocess is None:
        return None
    from ci_parity.preprocess.load import load_pipeline

    return load_pipeline(preprocess, root=root)


def facts_of_pipeline(pipeline: "Pipeline | None", root: Path) -> Facts | None:
    """Return what makes a pipeline another one, None without one.

    An entry point's own modules count with their bytes, beside the files that the pipeline names.

    Raises:
        EvidenceError: a file that it depends on cannot be read.
    """
    if pipeline is None:
        return None
    from ci_parity.preprocess.execute import facts
    from ci_parity.preprocess.model import EntryPipeline

    found = dict(facts(pipeline))
    if isinstance(pipeline.kind, EntryPipeline):
        imported = _imported(pipeline.root / pipeline.kind.script, root)
        found |= {f"import.{script.path}": script.digest or ABSENT for script in imported}
    return {key: fact(value) for key, value in found.items()}


def files_of_pipeline(pipeline: "Pipeline | None", root: Path) -> tuple[tuple[Path, str], ...]:
    """Return every file of a pipeline with its role in a bundle, its own file first."""
    if pipeline is None:
        return ()
    from ci_parity.preprocess.model import EntryPipeline, TextPipeline

    kind = pipeline.kind
    tokenizer = pipeline.root / kind.tokenizer if isinstance(kind, TextPipeline) else None
    found = {p: "tokenizer" if p == tokenizer else "preprocess" for p in pipeline.files}
    if isinstance(kind, EntryPipeline):
        for script in _imported(pipeline.root / kind.script, root):
            found.setdefault(root / script.path, "preprocess")
    return tuple(found.items())


def is_code(pipeline: "Pipeline") -> bool:
    """Whether a pipeline is a function of the repository."""
    from ci_parity.preprocess.model import EntryPipeline

    return isinstance(pipeline.kind, EntryPipeline)


def _imported(script: Path, root: Path) -> "tuple[Script, ...]":
    """Return a script and the modules of the repository that it imports."""
    from ci_parity.detect.scripts import find_scripts
    from ci_parity.stages.bundle_paths import relative

    return find_scripts(["python", relative(script, root)], root)
