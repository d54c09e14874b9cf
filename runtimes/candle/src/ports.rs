//! The inputs and outputs of a model, as its file declares them.

use std::collections::HashSet;

use candle_onnx::onnx::tensor_proto::DataType;
use candle_onnx::onnx::tensor_shape_proto::dimension::Value as Size;
use candle_onnx::onnx::type_proto::Value as Kind;
use candle_onnx::onnx::{GraphProto, TensorShapeProto, ValueInfoProto};
use serde::Serialize;
use serde_json::{json, Value};

use crate::Result;

/// An input or output: its name, ONNX's element type, and sizes, symbols or null for unknown ones.
#[derive(Serialize)]
pub struct Port {
    pub name: String,
    pub dtype: String,
    shape: Vec<Value>,
}

/// Returns the inputs that must be given: those that no weight fills.
pub fn inputs(graph: &GraphProto) -> Result<Vec<Port>> {
    let filled: HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
    let given = graph.input.iter().filter(|input| !filled.contains(input.name.as_str()));
    given.map(port).collect()
}

/// Returns the outputs.
pub fn outputs(graph: &GraphProto) -> Result<Vec<Port>> {
    graph.output.iter().map(port).collect()
}

/// Puts ports into the order that was asked for, if any was.
pub fn ordered(mut ports: Vec<Port>, names: &[String]) -> Result<Vec<Port>> {
    if names.is_empty() {
        return Ok(ports);
    }
    let take = |name: &String| {
        let index = ports.iter().position(|port| port.name == *name);
        let index = index.ok_or_else(|| format!("the model has no {name:?}, or no second one"))?;
        Ok(ports.swap_remove(index))
    };
    names.iter().map(take).collect()
}

fn port(info: &ValueInfoProto) -> Result<Port> {
    let name = info.name.clone();
    let Some(Kind::TensorType(tensor)) = info.r#type.as_ref().and_then(|t| t.value.as_ref()) else {
        return Err(format!("{name:?} is not declared as a tensor; Candle has tensors").into());
    };
    let code = tensor.elem_type;
    let dtype = DataType::try_from(code).map_err(|_| {
        format!("{name:?} has element type {code}, which candle-onnx does not know")
    })?;
    Ok(Port { name, dtype: name_of(dtype), shape: tensor.shape.as_ref().map_or(vec![], sizes) })
}

fn name_of(dtype: DataType) -> String {
    match dtype {
        DataType::Float => "float32".into(),
        DataType::Double => "float64".into(),
        other => other.as_str_name().to_lowercase(),
    }
}

fn sizes(shape: &TensorShapeProto) -> Vec<Value> {
    let size = |value: &Option<Size>| match value {
        Some(Size::DimValue(size)) if *size >= 0 => json!(size),
        Some(Size::DimParam(symbol)) if !symbol.is_empty() => json!(symbol),
        _ => Value::Null,
    };
    shape.dim.iter().map(|dim| size(&dim.value)).collect()
}
