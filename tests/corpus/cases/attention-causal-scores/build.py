"""Attention gives the lowest float for -inf among the scores that a causal mask leaves out."""
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
    node = H.make_node("Attention", ["q", "k", "v"], ["y", "", "", "scores"], name="attention",
                       is_causal=1, qk_matmul_output_mode=2)
    ins = [vi(name, T.FLOAT, [1, 1, 2, 2]) for name in "qkv"]
    outs = [vi(name, T.FLOAT, [1, 1, 2, 2]) for name in ("y", "scores")]
    return model([node], ins, outs, opset=23, ir=11), {"q": q, "k": q / 2, "v": q}


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    m, feeds = build()
    (out / "model.onnx").write_bytes(m.SerializeToString(deterministic=True))
    np.savez_compressed(out / "inputs.npz", **feeds)
