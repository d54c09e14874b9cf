"""Gather of strings on an axis before the last keeps the first of each row, and leaves the others empty."""
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
    feeds = {"x": np.array([["a", "b"], ["c", "d"], ["e", "f"]]), "indices": np.array([0, 2], np.int64)}
    node = H.make_node("Gather", ["x", "indices"], ["y"], axis=0, name="gather")
    ins = [vi("x", T.STRING, [3, 2]), vi("indices", T.INT64, [2])]
    return model([node], ins, [vi("y", T.STRING, [2, 2])]), feeds


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    m, feeds = build()
    (out / "model.onnx").write_bytes(m.SerializeToString(deterministic=True))
    np.savez_compressed(out / "inputs.npz", **feeds)
