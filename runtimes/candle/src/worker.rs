//! The verbs, and the model they act on. An error or a panic of a library is an answer.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use candle_core::Tensor;
use serde_json::{from_slice, from_value, json, Value};

use crate::model::Model;
use crate::requests::{Case, Load, Run, Time};
use crate::tensors::{self, Output};
use crate::Result;

const VERBS: [&str; 5] = ["hello", "load", "run", "time", "close"];
const PROVIDERS: [&str; 2] = ["CPUExecutionProvider", "CPU"];
/// Candle prints whole nodes, weights included; an answer has its limits.
const ERROR_CHARS: usize = 2000;

/// The loaded model, and the provider it was asked for under.
#[derive(Default)]
pub struct Worker {
    loaded: Option<(Model, String)>,
}

impl Worker {
    /// Answers one line; says whether it was the last.
    pub fn answer(&mut self, line: &[u8]) -> (Value, bool) {
        let request: Value = match from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                return (refusal(Value::Null, &format!("no JSON object: {error}")), false)
            }
        };
        let (id, verb) = (request["id"].clone(), request["verb"].clone());
        let done = catch_unwind(AssertUnwindSafe(|| self.act(&verb, request)))
            .unwrap_or_else(|panic| Err(format!("panic: {}", words(&*panic)).into()));
        match done {
            Ok(mut answer) => {
                answer["id"] = id;
                answer["ok"] = json!(true);
                (answer, verb == "close")
            }
            Err(error) => (refusal(id, &error.to_string()), false),
        }
    }

    fn act(&mut self, verb: &Value, request: Value) -> Result<Value> {
        match verb.as_str() {
            Some("hello") => Ok(hello()),
            Some("load") => self.load(from_value(request)?),
            Some("run") => self.run(from_value(request)?),
            Some("time") => self.time(from_value(request)?),
            Some("close") => Ok(json!({})),
            _ => Err(format!("unknown verb {verb}").into()),
        }
    }

    /// Loads a model; one that fails to load leaves the one before it, unless that was let go.
    fn load(&mut self, request: Load) -> Result<Value> {
        if request.release {
            self.loaded = None;
        }
        check_options(&request)?;
        let start = Instant::now();
        let model = Model::open(&request.model, &request.input_names, &request.output_names)?;
        let answer = json!({
            "load_ms": milliseconds(start.elapsed()), "providers": [request.provider],
            "inputs": model.inputs, "outputs": model.outputs,
        });
        self.loaded = Some((model, request.provider));
        Ok(answer)
    }

    /// Runs one case; reports further runs only where their bytes differ from the first.
    fn run(&mut self, request: Run) -> Result<Value> {
        let (model, provider, feeds) = self.prepared(&request.case)?;
        tensors::check_plain(&request.stem)?;
        let start = Instant::now();
        let results = model.infer(&feeds)?;
        let duration_ms = milliseconds(start.elapsed());
        let first = model.values(&results)?;
        let write = |outputs: &[Output], stem: &str| tensors::write(outputs, &request.folder, stem);
        let outputs = write(&first, &request.stem)?;
        let mut repeats = Vec::new();
        for index in 1..request.repeat {
            let again = model.values(&model.infer(&feeds)?)?;
            if again != first {
                repeats.push(write(&again, &format!("{}_r{index}", request.stem))?);
            }
        }
        let answer = json!({
            "outputs": outputs, "repeats": repeats, "duration_ms": duration_ms,
            "providers": [provider],
        });
        if request.release {
            self.loaded = None;
        }
        Ok(answer)
    }

    /// Times one block of runs.
    fn time(&self, request: Time) -> Result<Value> {
        let (model, _, feeds) = self.prepared(&request.case)?;
        let least = Duration::try_from_secs_f64(request.min_ms / 1e3)?;
        let begin = Instant::now();
        let mut samples = Vec::new();
        while samples.len() < request.iterations || begin.elapsed() < least {
            let start = Instant::now();
            model.infer(&feeds)?;
            // A clock may be too coarse to see a run; no run takes no time.
            samples.push(start.elapsed().as_nanos().max(1) as u64);
        }
        Ok(json!({ "samples_ns": samples }))
    }

    fn prepared(&self, case: &Case) -> Result<(&Model, &str, HashMap<String, Tensor>)> {
        let (model, provider) = self.loaded.as_ref().ok_or("no model is loaded")?;
        let feeds = model.feeds(&case.inputs, &case.input_folder)?;
        Ok((model, provider, feeds))
    }
}

fn hello() -> Value {
    let build = format!("candle-core {} for {}", env!("CANDLE_CORE_VERSION"), env!("BUILT_FOR"));
    json!({
        "protocol": 1, "runtime": "candle-onnx", "version": env!("CANDLE_ONNX_VERSION"),
        "build": build, "python": "", "providers": PROVIDERS[..1], "verbs": VERBS,
    })
}

/// Refuses what candle-onnx would not heed: it has the CPU alone, and no options.
fn check_options(request: &Load) -> Result<()> {
    if !PROVIDERS.contains(&request.provider.as_str()) {
        let (provider, known) = (&request.provider, PROVIDERS[0]);
        return Err(format!("candle-onnx has no provider {provider:?}: ask for {known}").into());
    }
    let options = request.session_options.keys().chain(request.provider_options.keys());
    match options.into_iter().next() {
        Some(name) => Err(format!("candle-onnx has no option {name:?}; it takes none").into()),
        None => Ok(()),
    }
}

fn refusal(id: Value, error: &str) -> Value {
    let error: String = error.chars().take(ERROR_CHARS).collect();
    json!({ "id": id, "ok": false, "error": error })
}

/// Returns what a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
