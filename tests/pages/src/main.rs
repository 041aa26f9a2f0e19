//! Writes the pictures into `docs/`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (file, picture) in mongo_lease_pages::pictures() {
        std::fs::write(docs.join(file), picture.svg())?;
    }
    Ok(())
}
