//! Writes the pictures in `docs/`, and the library's front page in a registry.

use mongo_lease_pages::packages::{packages, root};
use mongo_lease_pages::registry::front_page;

fn main() -> std::io::Result<()> {
    let docs = root().join("docs");
    for (file, picture) in mongo_lease_pages::pictures() {
        std::fs::write(docs.join(file), picture.svg())?;
    }
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let folder = root().join("registry");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("README.md");
    // Cargo lists the files of no package whose front page is missing.
    std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
    std::fs::write(file, front_page(&readme, &packages()))
}
