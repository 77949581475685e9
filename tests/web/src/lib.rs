//! polywarp in a browser: what `tests/web/index.html` calls, and `cargo xtask web` runs in headless Chromium.
//!
//! Three stages, each on a WebGPU device of its own, each giving JSON: `kernels` has the browser compile every kernel
//! that the harness can ask for, `checks` tests what is different on the web, `conformance` runs the harness. They are
//! apart so that a kernel the browser refuses is told by its own message, and not by a device that fails later.

#![cfg(target_arch = "wasm32")]

mod checks;
mod kernels;

use js_sys::Function;
use kernels::Depth;
use polywarp::harness::{self, Level, Progress, Selection};
use polywarp::wgpu::{FeatureChoice, LimitChoice, Options, WgpuBackend, adapters_async};
use polywarp::{Device, Error};
use serde::Serialize;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn console_error(text: &str);
}

/// Has panics say where they were before they end the program.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| console_error(&panic.to_string())));
}

/// A device on the browser's adapter.
async fn open(options: Options) -> Result<WgpuBackend, Error> {
    // Never an empty list: no adapter is an error.
    adapters_async().await?[0].open_async(options).await
}

fn failed(error: Error) -> JsError {
    JsError::new(&error.to_string())
}

fn json(value: &impl Serialize) -> Result<String, JsError> {
    serde_json::to_string(value).map_err(|error| JsError::new(&error.to_string()))
}

/// Calls `tell(done, total, text)`. What the page does with it is its own affair.
fn progress(tell: &Function, done: usize, total: usize, text: &str) {
    let _ = tell.call3(&JsValue::NULL, &done.into(), &total.into(), &text.into());
}

/// What the device says of itself: JSON of `polywarp::DeviceInfo`.
#[wasm_bindgen]
pub async fn describe() -> Result<String, JsError> {
    let device = Device::new(open(Options::default()).await.map_err(failed)?);
    json(device.info())
}

/// Has the browser compile every kernel of the harness, to a pipeline if `deep`: JSON of [`kernels::Compiled`].
#[wasm_bindgen(js_name = kernels)]
pub async fn compile_kernels(level: &str, deep: bool, tell: Function) -> Result<String, JsError> {
    let backend = open(Options::default()).await.map_err(failed)?;
    let depth = if deep { Depth::Pipeline } else { Depth::Module };
    let tell = |done, total, name: &str| progress(&tell, done, total, name);
    json(&kernels::compile(&backend, parse(level)?, depth, &tell).await)
}

/// Tests what is different on the web: JSON of [`checks::Checked`].
#[wasm_bindgen(js_name = checks)]
pub async fn run_checks(tell: Function) -> Result<String, JsError> {
    json(&checks::run(&|done, total, name| progress(&tell, done, total, name)).await.map_err(failed)?)
}

/// Runs the harness, with all that the adapter has or with what WebGPU guarantees everywhere: JSON of
/// `polywarp::harness::Report`.
#[wasm_bindgen]
pub async fn conformance(level: &str, filter: &str, poorest: bool, page: Function) -> Result<String, JsError> {
    let least = Options { limits: LimitChoice::WebGpuDefaults, features: FeatureChoice::None, ..Options::default() };
    let device = Device::new(open(if poorest { least } else { Options::default() }).await.map_err(failed)?);
    let filter = Some(filter.to_owned()).filter(|filter| !filter.is_empty());
    let selection = Selection { filter, ..Selection::level(parse(level)?) };
    let mut tell = |at: &Progress<'_>| {
        progress(&page, at.done as usize, at.total as usize, at.name);
    };
    json(&harness::run_async(&device, &selection, &mut tell).await)
}

fn parse(level: &str) -> Result<Level, JsError> {
    match level {
        "quick" => Ok(Level::Quick),
        "full" => Ok(Level::Full),
        _ => Err(JsError::new(&format!("level {level:?} is neither quick nor full"))),
    }
}
