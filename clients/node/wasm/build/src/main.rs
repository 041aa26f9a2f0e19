//! Makes the JavaScript around the compiled module: `mongo-lease-node-build MODULE.wasm FOLDER`.
//!
//! It is what the command line of wasm-bindgen does, from a crate of the same pinned version: nothing has to be
//! installed, and nothing can be of another version.

use std::error::Error;
use std::path::PathBuf;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(module), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("give the compiled module, and the folder to write to".into());
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).out_name("core").typescript(true).nodejs(true)?;
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.generate(folder)?;
    Ok(())
}
