"""Attention refuses a mask that is shorter than the keys, which the standard pads with -inf."""
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
    q = np.array([[[[1, 2], [3, 4]]]], f32)
    feeds = {"q": q, "k": np.arange(6, dtype=f32).reshape(1, 1, 3, 2) / 4,
             "v": np.arange(6, dtype=f32).reshape(1, 1, 3, 2), "mask": np.zeros((2, 2), f32),
             "count": np.array([2], np.int64)}
    node = H.make_node("Attention", ["q", "k", "v", "mask", "", "", "count"], ["y"],
                       name="attention")
    ins = [vi("q", T.FLOAT, [1, 1, 2, 2]), vi("k", T.FLOAT, [1, 1, 3, 2]),
           vi("v", T.FLOAT, [1, 1, 3, 2]), vi("mask", T.FLOAT, [2, 2]), vi("count", T.INT64, [1])]
    return model([node], ins, [vi("y", T.FLOAT, [1, 1, 2, 2])], opset=24, ir=12), feeds


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    m, feeds = build()
    (out / "model.onnx").write_bytes(m.SerializeToString(deterministic=True))
    np.savez_compressed(out / "inputs.npz", **feeds)
