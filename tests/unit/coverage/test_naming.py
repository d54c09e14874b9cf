"""Names for signatures: short, apart, and with what a listing does not show."""

from dataclasses import replace

from ci_parity.coverage.naming import names_of, operator_of
from ci_parity.records.coverage import Port, Signature

X = Port(kind="tensor", dtype="float32", shape=("n", "n"))
SIZES = Port(kind="tensor", dtype="int64", shape=("n",))
RESHAPE = Signature(
    domain="", op_type="Reshape", since_version=14, attributes=(), defaults=("allowzero",),
    inputs=(X, SIZES), outputs=(X,),
)  # fmt: skip
ZERO = replace(RESHAPE, attributes=(("allowzero", "1"),), defaults=())
CONV = Signature(
    domain="", op_type="Conv", since_version=11,
    attributes=(("group", "1"), ("kernel_shape", "[3,3]"), ("strides", "[1,1]")),
    defaults=("pads",), inputs=(X, X), outputs=(X,),
)  # fmt: skip


def named(*signatures: Signature) -> list[str]:
    """Return the names of some signatures."""
    found = names_of(signatures)
    return [found[signature] for signature in signatures]


def test_an_only_signature_is_its_operator() -> None:
    """With its domain where that is not ONNX's own."""
    assert named(RESHAPE) == ["Reshape"]
    assert named(replace(RESHAPE, domain="com.acme")) == ["com.acme.Reshape"]
    assert operator_of(replace(RESHAPE, domain="ai.onnx")) == "Reshape"


def test_what_is_set_against_the_default_is_named() -> None:
    """Even where nothing else needs telling apart; what is spelled out as the default is not."""
    assert named(ZERO) == ["Reshape allowzero=1"]
    spelled = replace(RESHAPE, attributes=(("allowzero", "0"),), defaults=())
    assert named(spelled) == ["Reshape"]


def test_only_what_differs_is_named() -> None:
    """Of two convolutions with one stride, the kernel alone; a constant by its input."""
    other = replace(
        CONV,
        attributes=(("group", "1"), ("kernel_shape", "[1,1]"), ("strides", "[1,1]")),
    )
    assert named(CONV, other) == ["Conv kernel_shape=[3,3]", "Conv kernel_shape=[1,1]"]
    flat = replace(RESHAPE, constants=((1, "[-1]"),))
    pair = replace(RESHAPE, constants=((1, '["n",-1]'),))
    assert named(flat, pair) == ["Reshape input1=[-1]", 'Reshape input1=["n",-1]']


def test_types_and_shapes_tell_apart_what_attributes_do_not() -> None:
    """As few of them as do."""
    half = replace(RESHAPE, inputs=(replace(X, dtype="float16"), SIZES))
    assert named(RESHAPE, half) == ["Reshape float32", "Reshape float16"]
    one = replace(RESHAPE, inputs=(replace(X, shape=("1", "n")), SIZES))
    assert named(RESHAPE, one) == ["Reshape [n,n]", "Reshape [1,n]"]
    open_ = replace(RESHAPE, outputs=(replace(X, dynamic=True),))
    assert named(RESHAPE, open_) == ["Reshape out0:static", "Reshape out0:dynamic"]


def test_ports_behind_the_first_are_labelled() -> None:
    """So that a word is not taken for the first input's."""
    half = replace(RESHAPE, outputs=(replace(X, dtype="float16"),))
    assert named(RESHAPE, half) == ["Reshape out0:float32", "Reshape out0:float16"]
    more = replace(RESHAPE, inputs=(X, SIZES, SIZES))
    assert named(RESHAPE, more) == ["Reshape 2 inputs", "Reshape 3 inputs"]


def test_a_tensor_is_named_by_type_shape_and_digest() -> None:
    """Its values are nobody's reading."""
    filled = replace(
        RESHAPE, op_type="ConstantOfShape",
        attributes=(("value", '{"dtype":"int64","sha256":"af5570f5a181","shape":[1]}'),),
    )  # fmt: skip
    other = replace(filled, attributes=())
    assert named(filled, other) == [
        "ConstantOfShape value=int64[1]#af5570", "ConstantOfShape",
    ]  # fmt: skip


def test_an_element_type_is_named() -> None:
    """Not by its number."""
    cast = replace(RESHAPE, op_type="Cast", attributes=(("to", "10"),), defaults=())
    other = replace(cast, attributes=(("to", "7"),))
    assert named(cast, other) == ["Cast to=float16", "Cast to=int64"]


def test_no_two_names_are_equal() -> None:
    """However long and alike the values are."""
    texts = [f'"{"x" * 40}{at}"' for at in range(3)]
    alike = [replace(RESHAPE, attributes=(("equation", text),)) for text in texts]
    names = named(*alike)
    assert len(set(names)) == 3
    assert all(len(name) < 60 for name in names)
