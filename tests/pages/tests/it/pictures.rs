//! The pictures in `docs/` are what the program draws, and can be read.

use std::fs;

use mongo_lease_pages::pictures;

use mongo_lease_pages::packages::root;

#[test]
fn each_picture_is_as_the_program_draws_it() {
    for (file, picture) in pictures() {
        let path = root().join("docs").join(file);
        let found = fs::read_to_string(&path).unwrap_or_default();
        let is_same = found == picture.svg();
        assert!(is_same, "{}: run `cargo run -p mongo-lease-pages`", path.display());
    }
}

#[test]
fn each_picture_is_shown_on_a_page() {
    let docs = fs::read_dir(root().join("docs")).expect("the pages");
    let pages = docs.map(|entry| entry.expect("an entry").path());
    let pages: String = pages
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| fs::read_to_string(path).expect("a page"))
        .collect();
    for (file, _) in pictures() {
        assert!(pages.contains(&format!("]({file})")), "no page shows {file}");
    }
}

#[test]
fn no_two_texts_of_a_picture_overlap() {
    const LINE: f64 = 17.0;
    for (file, picture) in pictures() {
        let (width, height) = picture.extent();
        let labels = picture.labels();
        assert!(labels.len() > 20, "{file}: {} texts", labels.len());
        for (number, label) in labels.iter().enumerate() {
            let is_inside = label.left >= 0.0 && label.right <= width && label.base <= height - 8.0;
            assert!(is_inside, "{file}: {label:?} leaves the picture");
            for other in &labels[number + 1..] {
                let is_apart = label.right <= other.left
                    || other.right <= label.left
                    || (label.base - other.base).abs() >= LINE;
                assert!(is_apart, "{file}: {label:?} and {other:?} overlap");
            }
        }
    }
}
