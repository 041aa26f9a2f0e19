//! The pictures of the pages in `docs/`, as SVG.
//!
//! `cargo run -p mongo-lease-pages` writes them. Their background is opaque, so a page may be light or dark.

mod hand_off;
mod life;
mod picture;

pub use picture::Picture;

/// Each picture, with the name of its file in `docs/`.
#[must_use]
pub fn pictures() -> [(&'static str, Picture); 2] {
    [("life-of-a-lease.svg", life::draw()), ("hand-off.svg", hand_off::draw())]
}
