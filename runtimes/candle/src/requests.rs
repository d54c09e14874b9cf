//! Requests as they come in. Keys that are not here are ignored, so that the protocol can grow.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::tensors::Record;

/// Load a model.
#[derive(Deserialize)]
pub struct Load {
    pub model: PathBuf,
    pub provider: String,
    #[serde(default)]
    pub provider_options: Map<String, Value>,
    #[serde(default)]
    pub session_options: Map<String, Value>,
    #[serde(default)]
    pub input_names: Vec<String>,
    #[serde(default)]
    pub output_names: Vec<String>,
    #[serde(default)]
    pub release: bool,
}

/// The inputs of a case.
#[derive(Deserialize)]
pub struct Case {
    pub inputs: Vec<Record>,
    pub input_folder: PathBuf,
}

/// Run a case, `repeat` times.
#[derive(Deserialize)]
pub struct Run {
    #[serde(flatten)]
    pub case: Case,
    pub folder: PathBuf,
    pub stem: String,
    #[serde(default = "once")]
    pub repeat: usize,
    #[serde(default)]
    pub release: bool,
}

/// Time a case: at least `iterations` runs and at least `min_ms` milliseconds.
#[derive(Deserialize)]
pub struct Time {
    #[serde(flatten)]
    pub case: Case,
    pub min_ms: f64,
    pub iterations: usize,
}

fn once() -> usize {
    1
}
