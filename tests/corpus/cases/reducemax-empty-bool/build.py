"""ReduceMax of no booleans is an error, where the standard gives false."""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as H, numpy_helper as N

f32 = np.float32


def vi(name, dtype, shape):
    return H.make_tensor_value_info(name, dtype, shape)


def sc(value, dtype=f32):
    return np.array(value, dtype)


def model(nodes, ins, outs, inits=(), opset=13, ir=8, extra=()):
    graph = H.make_graph(list(nodes), "g", ins, outs, [N.from_array(a, n) for n, a in inits])
    opsets = [H.make_opsetid("", opset)] + [H.make_opsetid(d, v) for d, v in extra]
    m = H.make_model(graph, opset_imports=opsets, producer_name="parity-corpus")
    m.ir_version = ir
    return m


def build():
    feeds = {"x": np.zeros((2, 0, 4), bool), "axes": np.array([1], np.int64)}
    node = H.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=1, name="max")
    ins = [vi("x", T.BOOL, [2, 0, 4]), vi("axes", T.INT64, [1])]
    return model([node], ins, [vi("y", T.BOOL, [2, 1, 4])], opset=20, ir=9), feeds


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    m, feeds = build()
    (out / "model.onnx").write_bytes(m.SerializeToString(deterministic=True))
    np.savez_compressed(out / "inputs.npz", **feeds)
