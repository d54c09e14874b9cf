//! Weights that lie beside a model: candle-onnx does not read them.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use candle_onnx::onnx::tensor_proto::DataLocation;
use candle_onnx::onnx::{GraphProto, TensorProto};

use crate::Result;

/// Fills in the initializers that lie in files below the model's folder.
pub fn read(graph: &mut GraphProto, folder: &Path) -> Result<()> {
    for tensor in &mut graph.initializer {
        if tensor.data_location() == DataLocation::External {
            tensor.raw_data = bytes(tensor, folder)
                .map_err(|error| format!("weight {:?}: {error}", tensor.name))?;
            tensor.set_data_location(DataLocation::Default);
        }
    }
    Ok(())
}

fn bytes(tensor: &TensorProto, folder: &Path) -> Result<Vec<u8>> {
    let entry = |key: &str| tensor.external_data.iter().find(|entry| entry.key == key);
    let number = |key: &str| entry(key).map(|entry| entry.value.parse::<u64>()).transpose();
    let location = &entry("location").ok_or("its file has no name")?.value;
    let path = fs::canonicalize(folder.join(location))?;
    if !path.starts_with(fs::canonicalize(folder)?) || !path.is_file() {
        return Err(format!("{location:?} is no file below the model's folder").into());
    }
    let size = fs::metadata(&path)?.len();
    let offset = number("offset")?.unwrap_or(0);
    let length = number("length")?.unwrap_or(size.saturating_sub(offset));
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(format!("{location:?} is too short").into());
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
