//! The pictures of the pages in `docs/`, as SVG, and the library's front page in a registry.
//!
//! `cargo run -p mongo-lease-pages` writes both. The pictures' background is opaque, so a page may be light or dark.

mod hand_off;
mod life;
pub mod packages;
mod picture;
pub mod registry;

pub use picture::Picture;

/// Each picture, with the name of its file in `docs/`.
#[must_use]
pub fn pictures() -> [(&'static str, Picture); 2] {
    [("life-of-a-lease.svg", life::draw()), ("hand-off.svg", hand_off::draw())]
}
