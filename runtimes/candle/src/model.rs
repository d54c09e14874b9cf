//! A model as candle-onnx runs it: node by node from the file's own graph, on the CPU.

use std::collections::HashMap;
use std::path::Path;

use candle_core::Tensor;
use candle_onnx::onnx::ModelProto;

use crate::ports::{self, Port};
use crate::tensors::{self, Output, Record};
use crate::{external, Result};

/// A loaded model; its ports are in the order that was asked for.
pub struct Model {
    proto: ModelProto,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Model {
    /// Reads a model and the weights beside it; empty names ask for the model's own order.
    pub fn open(path: &Path, input_names: &[String], output_names: &[String]) -> Result<Self> {
        let mut proto = candle_onnx::read_file(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let graph = proto.graph.as_mut().ok_or("the file has no graph: it is no ONNX model")?;
        external::read(graph, path.parent().unwrap_or(Path::new("")))?;
        let inputs = ports::ordered(ports::inputs(graph)?, input_names)?;
        let outputs = ports::ordered(ports::outputs(graph)?, output_names)?;
        Ok(Self { proto, inputs, outputs })
    }

    /// Reads the inputs of a case; refuses what the model does not take.
    ///
    /// candle-onnx ignores names that it does not know, overwrites those of weights, and checks
    /// the type of an input only where the model has its shape.
    pub fn feeds(&self, records: &[Record], folder: &Path) -> Result<HashMap<String, Tensor>> {
        let mut feeds = HashMap::new();
        for record in records {
            let name = &record.name;
            let port = self.inputs.iter().find(|port| port.name == *name);
            let port = port.ok_or_else(|| format!("the model takes no input {name:?}"))?;
            if record.kind == "tensor" && record.dtype != port.dtype {
                let (given, has) = (&record.dtype, &port.dtype);
                return Err(format!("input {name:?} is {given}, the model has {has}").into());
            }
            if feeds.insert(name.clone(), tensors::read(record, folder)?).is_some() {
                return Err(format!("input {name:?} is given twice").into());
            }
        }
        match self.inputs.iter().find(|port| !feeds.contains_key(&port.name)) {
            Some(missing) => Err(format!("input {:?} is missing", missing.name).into()),
            None => Ok(feeds),
        }
    }

    /// Runs once. This and nothing else is timed.
    pub fn infer(&self, feeds: &HashMap<String, Tensor>) -> Result<HashMap<String, Tensor>> {
        Ok(candle_onnx::simple_eval(&self.proto, feeds.clone())?)
    }

    /// Returns the outputs of a run in the order of `outputs`.
    pub fn values(&self, results: &HashMap<String, Tensor>) -> Result<Vec<Output>> {
        let value = |port: &Port| {
            let tensor = results.get(&port.name);
            let tensor = tensor.ok_or_else(|| format!("Candle gave no {:?}", port.name))?;
            Output::new(&port.name, tensor, &port.dtype)
        };
        self.outputs.iter().map(value).collect()
    }
}
