"""The worker for tract, copied into any environment.

It speaks the worker protocol through `wire.py` and imports only NumPy and tract. tract runs on the
CPU here, with one thread. It keeps no names of outputs that one node has several of: they come with
the request. A model that it cannot compile with symbolic dimensions is compiled for the shapes of
each case.

Runs on Python 3.8 and later, NumPy 1.21 and later, tract 0.23 and later: older
packages read every output as float32.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import wire

# tract's names for element types that have another name in ONNX.
ONNX_NAMES = {
    "f16": "float16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
# The type of tract's own symbolic integers, which leave it only once they are numbers.
SYMBOLIC = "tdim"
# How it says that it has no such operator, whatever the shapes.
LACKING = "Unimplemented("


class Tract(wire.Runtime):
    """tract, through its Python package."""

    name = "tract"

    def hello(self) -> dict[str, Any]:
        """Say which version this is."""
        import tract

        return {"version": tract.version(), "providers": [wire.CPU_PROVIDER, "CPU"]}

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Load the model and compile it, for any shape where tract can."""
        threads = wire.options_of(self.name, request, "intra_op_num_threads")
        if threads.get("intra_op_num_threads", 1) > 1:
            raise ValueError("tract runs on one thread: ask for intra_op_num_threads 1")
        provider = wire.on_cpu(self.name, request)
        return Loaded(request["model"], provider, request.get("output_names", []))


class Loaded(wire.Model):
    """A model, compiled for any shape or for those it has met."""

    def __init__(self, path: str, provider: str, names: list[str]) -> None:
        self.path = path
        self.providers = [provider]
        inference = said(load, path)
        count = inference.output_count()
        own = [inference.output_name(index) for index in range(count)]
        if len(set(own)) < count and not names:
            raise ValueError(f"tract has lost the names of the outputs {own}: send output_names")
        if names and len(names) != count:
            raise ValueError(f"tract finds {count} outputs where the model has {len(names)}")
        self.inputs = [
            port(inference.input_name(index), inference.input_fact(index))
            for index in range(inference.input_count())
        ]
        facts = [inference.output_fact(index) for index in range(count)]
        self.outputs = [port(name, fact) for name, fact in zip(names or own, facts)]
        self.compiled: dict[Any, Any] = {}
        self.symbolic = self.compile_symbolic(inference)

    def compile_symbolic(self, inference: Any) -> Any:
        """Return the model compiled for any shape, None where tract cannot or keeps symbols."""
        try:
            runnable = said(runnable_of, inference)
        except RuntimeError as error:
            whole = all(known(entry["shape"]) and entry["dtype"] for entry in self.inputs)
            if whole or LACKING in str(error):
                raise
            return None
        kept = any(SYMBOLIC in str(fact) for fact in runnable.output_facts())
        return None if kept else runnable

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Return what runs and the arrays in tract's order; tract crashes where one is missing."""
        wire.check_feeds(self.inputs, feeds)
        arrays = [feeds[entry["name"]] for entry in self.inputs]
        for entry, value in zip(self.inputs, arrays):
            if not hasattr(value, "dtype") or wire.dtype_of(value) not in TAKEN:
                words = f"tract takes no input such as {entry['name']!r} through Python"
                raise wire.NotCarriedError(words)
        if self.symbolic is not None:
            return self.symbolic, arrays
        key = tuple((value.dtype.name, value.shape) for value in arrays)
        if key not in self.compiled:
            self.compiled[key] = said(compiled_for, self.path, arrays)
        return self.compiled[key], arrays

    def infer(self, prepared: Any) -> Any:
        """Run once, with a fresh state."""
        runnable, arrays = prepared
        return said(runnable.run, arrays)

    def values(self, result: Any) -> list[Any]:
        """Return the outputs as arrays."""
        return [said(array, value) for value in result]


TAKEN = {"bool", *ONNX_NAMES.values()}


def load(path: str) -> Any:
    """Load an ONNX file."""
    import tract

    return tract.onnx().load(path)


def runnable_of(inference: Any) -> Any:
    """Optimize a loaded model and make it run."""
    return inference.into_model().into_runnable()


def compiled_for(path: str, arrays: list[Any]) -> Any:
    """Load the model again and compile it for the shapes and types of these arrays."""
    tract_names = {onnx: name for name, onnx in ONNX_NAMES.items()}
    inference = load(path)
    for index, value in enumerate(arrays):
        dtype = wire.dtype_of(value)
        fact = ",".join([*map(str, value.shape), tract_names.get(dtype, dtype)])
        inference.set_input_fact(index, fact)
    return runnable_of(inference)


def array(value: Any) -> Any:
    """Return tract's tensor as an array; its symbolic integers as int64, as ONNX has them."""
    import tract

    try:
        return value.to_numpy()
    except tract.TractError:
        return value.convert_to(tract.DatumType.I64).to_numpy()


def port(name: str, fact: Any) -> dict[str, Any]:
    """Describe an input or output from what tract prints, such as `batch,3,f32` or `..,?`."""
    *sizes, kind = str(fact.dump()).split(",")
    dtype = "" if "?" in kind else ONNX_NAMES.get(kind, kind)
    shape = [int(size) if size.isdigit() else size for size in sizes]
    return {"name": name, "type": str(fact.dump()), "dtype": dtype, "shape": shape}


def known(shape: list[Any]) -> bool:
    """Whether all sizes are numbers."""
    return all(isinstance(size, int) for size in shape)


def said(function: Any, *arguments: Any) -> Any:
    """Call tract; its errors become one line without the stack of its own code."""
    import tract

    try:
        return function(*arguments)
    except tract.TractError as error:
        words = str(error).partition("Stack backtrace")[0]
        raise RuntimeError(" ".join(words.split())) from None


if __name__ == "__main__":
    wire.serve(Tract())
