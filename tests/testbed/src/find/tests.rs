use super::table::WHEELS;
use super::*;

fn nowhere() -> Surroundings {
    Surroundings { named: None, path: None, cache: None, wheel: None }
}

#[test]
fn the_requirement_pins_version_and_hash() {
    for wheel in WHEELS {
        let text = wheel.requirement();
        let (package, hash) = text.trim_end().split_once(" --hash=sha256:").unwrap();
        assert_eq!(package.split("==").count(), 2, "{package} has one exact version");
        assert_eq!(hash.len(), 64);
        assert!(hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
    }
}

#[test]
fn every_machine_has_one_row() {
    assert_eq!(Wheel::of("linux", "x86_64").unwrap().server, "6.0.5");
    assert_eq!(Wheel::of("macos", "aarch64").unwrap().server, "7.0.28");
    assert_ne!(Wheel::of("macos", "aarch64"), Wheel::of("macos", "x86_64"));
    assert_eq!(Wheel::of("linux", "s390x"), None);
}

#[test]
fn the_readme_names_each_wheel_and_its_server() {
    let page = include_str!("../../README.md");
    for wheel in WHEELS {
        let rows = page.lines().filter(|line| line.starts_with("| "));
        let mut rows = rows.filter(|row| row.contains(&format!("`{}`", wheel.package)));
        assert!(rows.any(|row| row.contains(&format!("| {} |", wheel.server))), "{wheel:?}");
    }
}

#[test]
fn a_wrong_path_in_the_environment_is_an_error() {
    let around = Surroundings { named: Some("no/such/mongod".into()), ..nowhere() };
    let message = around.search().unwrap_err().to_string();
    assert!(message.contains("MONGO_LEASE_MONGOD is no/such/mongod"), "{message}");
}

#[test]
fn when_nothing_is_found_the_message_lists_what_was_tried() {
    let message = nowhere().search().unwrap_err().to_string();
    for part in ["MONGO_LEASE_MONGOD: not set", "PATH: has no mongod", "no wheel for", "docker"] {
        assert!(message.contains(part), "{part} is missing in: {message}");
    }
}

#[test]
fn the_path_comes_before_the_cache() {
    let folder = env::temp_dir().join(crate::random::name("mongo-lease-find-"));
    let wheel = Wheel::of("linux", "x86_64");
    let cached = folder.join("mongod-6.0.5");
    let installed = folder.join("bin");
    for place in [&cached, &installed] {
        std::fs::create_dir_all(place).unwrap();
        std::fs::write(place.join("mongod"), "").unwrap();
        let run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.join("mongod"), run).unwrap();
    }
    let around = |path: Option<&PathBuf>| Surroundings {
        path: path.map(|path| path.clone().into_os_string()),
        cache: Some(folder.clone()),
        wheel,
        ..nowhere()
    };
    assert_eq!(around(Some(&installed)).search().unwrap(), installed.join("mongod"));
    assert_eq!(around(None).search().unwrap(), cached.join("mongod"));
    std::fs::remove_dir_all(folder).unwrap();
}
