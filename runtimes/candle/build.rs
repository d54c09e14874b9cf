//! Tells the program which releases of Candle it is built with, and for which machine.

use std::{env, fs, path::Path};

fn main() {
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let path = Path::new(&folder).join("Cargo.lock");
    let lock = fs::read_to_string(&path).expect("Cargo.lock is committed");
    for name in ["candle-core", "candle-onnx"] {
        let variable = name.replace('-', "_").to_uppercase();
        println!("cargo:rustc-env={variable}_VERSION={}", version(&lock, name));
    }
    let target = env::var("TARGET").expect("cargo sets it");
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    println!("cargo:rustc-env=BUILT_FOR={target} {features}");
    println!("cargo:rerun-if-changed={}", path.display());
}

/// Returns the version that Cargo.lock has of a package.
fn version<'a>(lock: &'a str, name: &str) -> &'a str {
    let start = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = lock.split_once(&start).expect("a dependency is in Cargo.lock");
    rest.split('"').next().expect("split gives one part at least")
}
