"""Conversion tools of the corpus and of int8 and float16 copies, each in a scratch environment.

Run in such an environment it converts one model with one tool; imported, it builds them.

    python calibration_tools.py TOOL SOURCE RESULT OPTIONS [INPUTS.npz …]
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# The versions that the corpus was observed with, and what they run on.
PACKAGES: Mapping[str, Sequence[str]] = {
    "onnxscript.rewrite 0.7.0": ("onnxscript==0.7.0", "onnx-ir==1.1.0", "onnx==1.23.2"),
    "onnxsim 0.6.5": ("onnxsim==0.6.5", "onnx==1.19.1", "onnxruntime==1.19.2", "rich"),
    "onnxoptimizer 0.4.2": ("onnxoptimizer==0.4.2", "onnx==1.19.1"),
    "onnx.version_converter 1.23.2": ("onnx==1.23.2",),
    "ort.quantize_static 1.19.2": ("onnxruntime==1.19.2", "onnx==1.16.2", "sympy", "numpy<2"),
    "ort.quantize_static 1.32.0": ("onnxruntime==1.32.0", "onnx==1.23.2", "sympy"),
    "ort.quantize_dynamic 1.32.0": ("onnxruntime==1.32.0", "onnx==1.23.2", "sympy"),
    "float16 1.16.0": ("onnxconverter-common==1.16.0", "onnx==1.23.2", "protobuf", "packaging"),
}
NUMPY = "numpy==2.2.6"


class Tools:
    """The environments of tools, built once each in a folder of this run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def convert(
        self, tool: str, source: Path, result: Path, options: Mapping[str, Any],
        inputs: Sequence[Path] = (),
    ) -> str:  # fmt: skip
        """Convert a model and return why that was not possible, empty where it was."""
        from ci_parity.base import process

        python = self._python(tool)
        words = [str(source), str(result), json.dumps(dict(options)), *map(str, inputs)]
        command = [str(python), "-I", __file__, tool, *words]
        done = process.run(command, env=process.worker_environment(), timeout_s=600)
        return done.last_words if done.returncode or not result.exists() else ""

    def _python(self, tool: str) -> Path:
        import uv

        from ci_parity.base import process

        packages = PACKAGES[tool]
        numpy = [] if any(name.startswith("numpy") for name in packages) else [NUMPY]
        place = self.folder / tool.replace(" ", "-")
        python = place / "bin" / "python"
        if not python.exists():
            install = ["pip", "install", "--only-binary", ":all:", "--python", str(python)]
            for words in (["venv", "--python", sys.executable, str(place)], [*install, *packages]):
                extra = numpy if words[0] == "pip" else []
                command = [uv.find_uv_bin(), "--quiet", "--no-config", *words, *extra]
                environment = process.packaging_environment()
                done = process.run(command, env=environment, timeout_s=900)
                if done.returncode:
                    sys.exit(f"cannot build the environment of {tool}: {done.last_words}")
        return python


def quantize_static(source: str, result: str, options: dict[str, Any], inputs: list[str]) -> None:
    """Quantize with the inputs as calibration data."""
    import numpy as np
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.items = iter([dict(np.load(path)) for path in inputs])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.items, None)

    if "quant_format" in options:
        options["quant_format"] = quantization.QuantFormat[options["quant_format"]]
    quantization.quantize_static(source, result, Reader(), **options)


def quantize_dynamic(source: str, result: str, options: dict[str, Any], _: list[str]) -> None:
    """Quantize the weights; activations are quantized as the model runs."""
    from onnxruntime import quantization

    quantization.quantize_dynamic(source, result, **options)


def transformed(model: Any, tool: str, options: dict[str, Any]) -> Any:  # noqa: ANN401 - models
    """Return a model as one of the tools without data rewrites it."""
    match tool:
        case "onnxsim":
            import onnxsim

            return onnxsim.simplify(model, check_n=0)[0]
        case "onnxoptimizer":
            import onnxoptimizer

            return onnxoptimizer.optimize(model)
        case "onnxscript.rewrite":
            import onnxscript.rewriter

            return onnxscript.rewriter.rewrite(model)
        case "float16":
            from onnxconverter_common import float16

            return float16.convert_float_to_float16(model, **options)
        case _:
            from onnx import version_converter

            return version_converter.convert_version(model, options["target"])


def main() -> None:
    """Convert."""
    tool, source, result, options, *inputs = sys.argv[1:]
    name = tool.partition(" ")[0]
    quantizing: dict[str, Callable[[str, str, dict[str, Any], list[str]], None]] = {
        "ort.quantize_static": quantize_static, "ort.quantize_dynamic": quantize_dynamic,
    }  # fmt: skip
    if name in quantizing:
        quantizing[name](source, result, json.loads(options), inputs)
        return
    import onnx

    onnx.save(transformed(onnx.load(source), name, json.loads(options)), result)


if __name__ == "__main__":
    main()
