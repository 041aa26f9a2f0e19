//! Imports between files, by `crate::`, `super::` and nested modules: they go down, without a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::{files_below, is_code, rank};

/// The modules by their paths (`batch::releases`), each with its code.
type Modules = BTreeMap<String, String>;
/// Which modules each module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The folders of crates, and how many files of each import something at the least.
const CRATES: [(&str, usize); 12] = [
    ("src", 50),
    ("core/src", 35),
    ("memory/src", 1),
    ("benches/src", 8),
    ("benches/measure/src", 0),
    ("benches/peers/src", 12),
    ("cli/src", 20),
    ("cli/tests/it", 10),
    ("migrations/src", 2),
    ("tests/it", 60),
    ("tests/tools", 5),
    ("tests/testbed/src", 10),
];

#[test]
fn no_file_imports_itself_through_others() {
    let mut found = Vec::new();
    for (folder, least) in CRATES {
        let imports = imports_of(&modules(folder, Tests::Left));
        if imports.len() < least {
            found.push(format!("{folder}: only {} files import something", imports.len()));
        }
        found.extend(circle(&imports).map(|circle| format!("{folder}: {}", circle.join(" > "))));
    }
    assert!(found.is_empty(), "circles, or imports that are not read:\n{}", found.join("\n"));
}

#[test]
fn imports_go_down_only() {
    let modules = modules("src", Tests::Kept);
    let rank_of = |path: &str| {
        let room = path.split("::").next().and_then(rank);
        room.unwrap_or_else(|| panic!("{path}: not in the table of modules"))
    };
    let mut found = Vec::new();
    for module in modules.keys() {
        rank_of(module);
    }
    for (module, imported) in imports_of(&modules) {
        let up = imported.into_iter().filter(|other| rank_of(other) < rank_of(&module));
        found.extend(up.map(|other| format!("{module} imports {other}")));
    }
    assert!(found.is_empty(), "imports that go up:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let circle_of = |modules: &[(&str, &str)]| {
        let named = modules.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned()));
        circle(&imports_of(&Modules::from_iter(named)))
    };
    let plain = [("a", "use crate::b::B;"), ("b", "use crate::c::d::{D, e};"), ("c", "")];
    let below =
        |text: &str| circle_of(&[plain.as_slice(), &[("c::d", text), ("c::e", "")]].concat());
    assert_eq!(below("use super::e::E;"), None);
    for text in [
        "use crate::a::A;",
        "use super::super::a::A;",
        "use crate::{c::e, a::{A, Aa as Ab}};",
        "use crate::{\n    c::e,\n    a::A,\n};",
        "fn f() -> crate::a::A {}",
        "fn f() { super::super::a::f() }",
    ] {
        assert!(below(text).is_some_and(|circle| circle.len() == 4), "{text}");
    }
    // A parent that re-exports a child's items does not depend on it; one that uses them does.
    let family = |parent: &str| circle_of(&[("p", parent), ("p::q", "use super::P;")]);
    assert_eq!(family("mod q;\npub use q::Q;\npub(crate) use self::q::R;"), None);
    assert!(family("mod q;\nuse q::Q;").is_some());
    assert!(family("mod q;\nfn f() { self::q::f() }").is_some());
}

/// Whether the unit tests of a crate count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tests {
    Kept,
    Left,
}

/// The modules below a crate's folder, without the crate's root.
fn modules(folder: &str, tests: Tests) -> Modules {
    let mut modules = Modules::new();
    for (path, text) in files_below(folder) {
        if tests == Tests::Left && path.contains("tests") {
            continue;
        }
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let code = match tests {
            Tests::Kept => &text,
            Tests::Left => text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default(),
        };
        let lines = code.lines().filter(|line| is_code(line));
        let code = lines.map(|line| line.split(" // ").next().unwrap_or_default());
        modules.insert(module, code.collect::<Vec<_>>().join("\n"));
    }
    modules.remove("lib");
    modules.remove("main");
    modules
}

fn imports_of(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (module, code) in modules {
        for path in paths(module, code) {
            if let Some(other) = resolve(modules, module, &path)
                && other != *module
            {
                imports.entry(module.clone()).or_default().insert(other);
            }
        }
    }
    imports
}

/// All paths that a module names: in `use` statements, and in the middle of its code.
fn paths(module: &str, code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut rest = String::new();
    for (number, piece) in code.split(';').enumerate() {
        let (visible, tree) = piece.split_once("use ").unwrap_or(("no import", ""));
        match visible.trim_start() {
            visible @ ("" | "pub " | "pub(crate) " | "pub(super) ") => {
                let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
                let is_shown = !visible.is_empty();
                paths.extend(expanded(&tree).into_iter().filter(|path| {
                    let path = path.trim_start_matches("self::");
                    let is_child = !path.starts_with("crate::") && !path.starts_with("super::");
                    !(is_shown && is_child)
                }));
            }
            _ => {
                rest.push_str(if number > 0 { ";" } else { "" });
                rest.push_str(piece);
            }
        }
    }
    for head in ["crate::", "super::", "self::"] {
        for (at, _) in rest.match_indices(head) {
            let before = rest[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || "_:".contains(letter)) {
                continue;
            }
            let is_of_path = |letter: &char| letter.is_alphanumeric() || "_:".contains(*letter);
            paths.push(rest[at..].chars().take_while(is_of_path).collect());
        }
    }
    // `use q::Q` names a child where there is one; else another crate.
    paths.into_iter().map(|path| path.replace("self::", &format!("crate::{module}::"))).collect()
}

/// The paths of a `use` tree, one for each name.
fn expanded(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("there is one").push(letter),
        }
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&format!("{}{part}", head.trim()))).collect()
}

/// The module in which a path of this module ends: its longest prefix that is one.
fn resolve(modules: &Modules, module: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut full: Vec<&str> = module.split("::").collect();
    match parts[0] {
        "crate" => {
            full.clear();
            parts.remove(0);
        }
        "super" => {
            while parts.first() == Some(&"super") {
                full.pop();
                parts.remove(0);
            }
        }
        _ => {}
    }
    full.extend(parts);
    (1..=full.len()).rev().map(|end| full[..end].join("::")).find(|it| modules.contains_key(it))
}

/// A path from a module back to itself, if there is one.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut left = imports.clone();
    let mut known = usize::MAX;
    // A module that imports none of those that are left is in no circle.
    while left.len() < known {
        known = left.len();
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|_, imported| !imported.is_disjoint(&names));
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let mut imported = left[way.last().expect("somewhere")].iter();
        let next = imported.find(|name| left.contains_key(*name)).expect("it is left");
        let begin = way.iter().position(|module| module == next);
        way.push(next.clone());
        if let Some(begin) = begin {
            return Some(way.split_off(begin));
        }
    }
}

/// How many floors the rooms of `src` may have: a room stands above all that it imports.
const FLOORS_MAX: usize = 12;

#[test]
fn the_house_has_few_floors() {
    let mut rooms = Imports::new();
    for (module, imported) in imports_of(&modules("src", Tests::Left)) {
        let room = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
        let own = room(&module);
        let others = imported.iter().map(|other| room(other)).filter(|other| *other != own);
        rooms.entry(own.clone()).or_default().extend(others);
    }
    rooms.remove("lib");
    let floors = rooms.keys().map(|name| floor(&rooms, name, rooms.len())).max();
    let floors = floors.unwrap_or_default();
    assert!((5..=FLOORS_MAX).contains(&floors), "{floors} floors");
}

/// With at most so many rooms left, this one included: on a circle they run out.
fn floor(rooms: &Imports, room: &str, left: usize) -> usize {
    assert!(left > 0, "{room} stands on a circle of rooms");
    let below = rooms.get(room).into_iter().flatten();
    1 + below.map(|other| floor(rooms, other, left - 1)).max().unwrap_or_default()
}

#[test]
#[should_panic(expected = "stands on a circle of rooms")]
fn a_circle_of_rooms_is_told() {
    let rooms = Imports::from([
        ("hall".to_owned(), ["cellar".to_owned()].into()),
        ("cellar".to_owned(), ["hall".to_owned()].into()),
    ]);
    let _ = floor(&rooms, "hall", rooms.len());
}
