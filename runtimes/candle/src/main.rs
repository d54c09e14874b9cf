//! ONNX models on Candle, for CI Parity: the runner protocol, version 1, on candle-onnx.
//!
//! One JSON object a line on standard input, one answer a line on standard output, tensors as files
//! (docs/runner-protocol.md). It judges nothing, and casts nothing that Candle does not cast.

mod external;
mod model;
mod ports;
mod requests;
mod tensors;
mod worker;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use worker::Worker;

/// What went wrong, as a text for the answer.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[cfg(target_endian = "big")]
compile_error!("tensors are read as the little-endian bytes they travel as");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended =
        set_threads(&arguments).and_then(|()| serve(io::stdin().lock(), io::stdout().lock()));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("candle-parity-runner: {error}");
            ExitCode::from(2)
        }
    }
}

/// Takes `--threads N`; Candle and rayon read the number from a variable, once.
fn set_threads(arguments: &[String]) -> Result<()> {
    let number = match arguments {
        [] => return Ok(()),
        [flag, number] if flag == "--threads" => number,
        _ => return Err("usage: candle-parity-runner [--threads N]".into()),
    };
    if !number.parse::<u16>().is_ok_and(|number| number > 0) {
        return Err(format!("--threads takes a number from 1 on, not {number:?}").into());
    }
    std::env::set_var("RAYON_NUM_THREADS", number);
    Ok(())
}

/// Answers requests until `close` or the end of input.
fn serve(mut input: impl BufRead, mut output: impl Write) -> Result<()> {
    let mut worker = Worker::default();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let (answer, closes) = worker.answer(&line);
        writeln!(output, "{answer}")?;
        output.flush()?;
        if closes {
            break;
        }
        line.clear();
    }
    Ok(())
}
