//! Tensors as files of raw little-endian elements, and the records that describe them.

use std::fs;
use std::path::{Component, Path};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::Result;

/// ONNX's names of the element types that Candle computes with.
const TYPES: [(&str, DType); 10] = [
    ("uint8", DType::U8),
    ("uint32", DType::U32),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("bfloat16", DType::BF16),
    ("float16", DType::F16),
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("float8e4m3fn", DType::F8E4M3),
];
/// Candle has no truth values: it keeps them as bytes of 0 and 1.
const BOOL: &str = "bool";

/// A value of a request or an answer.
#[derive(Deserialize, Serialize)]
pub struct Record {
    pub name: String,
    pub kind: String,
    #[serde(default)]
    pub dtype: String,
    #[serde(default)]
    pub shape: Vec<usize>,
    #[serde(default)]
    pub file: String,
}

/// An output of a run: all that tells two runs apart.
#[derive(PartialEq)]
pub struct Output {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Output {
    /// Reads a tensor out of Candle; `declared` is the element type that the model has.
    pub fn new(name: &str, tensor: &Tensor, declared: &str) -> Result<Self> {
        let mut bytes = Vec::new();
        tensor.write_bytes(&mut bytes)?;
        let dtype = match tensor.dtype() {
            DType::U8 if declared == BOOL && bytes.iter().all(|byte| *byte <= 1) => BOOL,
            dtype => name_of(dtype)?,
        };
        Ok(Self { name: name.into(), dtype, shape: tensor.dims().into(), bytes })
    }
}

/// Reads an input from its file.
pub fn read(record: &Record, folder: &Path) -> Result<Tensor> {
    let name = &record.name;
    if record.kind != "tensor" {
        return Err(
            format!("input {name:?} is of kind {:?}; Candle has tensors", record.kind).into()
        );
    }
    let dtype = type_of(&record.dtype)
        .ok_or_else(|| format!("input {name:?} is {}, which Candle does not have", record.dtype))?;
    let elements = record.shape.iter().try_fold(1_usize, |size, dim| size.checked_mul(*dim));
    let size = elements.and_then(|count| count.checked_mul(dtype.size_in_bytes()));
    check_plain(&record.file)?;
    let path = folder.join(&record.file);
    let found = fs::metadata(&path).map_err(|error| format!("input {name:?}: {error}"))?;
    if !found.is_file() || Some(found.len()) != size.map(|size| size as u64) {
        let (shape, dtype) = (&record.shape, &record.dtype);
        return Err(format!("input {name:?} is no file of {dtype} {shape:?}").into());
    }
    let bytes = fs::read(&path).map_err(|error| format!("input {name:?}: {error}"))?;
    Ok(Tensor::from_raw_buffer(&bytes, dtype, &record.shape, &Device::Cpu)?)
}

/// Writes the outputs of one run and returns their records.
pub fn write(outputs: &[Output], folder: &Path, stem: &str) -> Result<Vec<Record>> {
    let mut records = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        let file = format!("{stem}_o{index}.bin");
        fs::write(folder.join(&file), &output.bytes)
            .map_err(|error| format!("output {:?} cannot be written: {error}", output.name))?;
        records.push(Record {
            name: output.name.clone(),
            kind: "tensor".into(),
            dtype: output.dtype.into(),
            shape: output.shape.clone(),
            file,
        });
    }
    Ok(records)
}

/// Refuses a name that is more than a name: a path could leave the folder of the request.
pub fn check_plain(name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name && !name.contains('\\') => Ok(()),
        _ => Err(format!("{name:?} is no plain file name").into()),
    }
}

fn type_of(name: &str) -> Option<DType> {
    let known = TYPES.iter().find(|(known, _)| *known == name);
    known.map(|(_, dtype)| *dtype).or((name == BOOL).then_some(DType::U8))
}

fn name_of(dtype: DType) -> Result<&'static str> {
    let known = TYPES.iter().find(|(_, known)| *known == dtype);
    Ok(known.ok_or_else(|| format!("Candle's {dtype:?} has no name in ONNX"))?.0)
}
