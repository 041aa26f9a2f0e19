//! Which key files are read, and which are written over.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{Folder, acquired, fresh, leases, released, run, soon, text, tool, tool_for};

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_key_file_that_others_can_read_is_refused() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let key = folder.path("key");
    acquired(&database, "a", &key, &[]).await;
    for mode in [0o640, 0o604, 0o660, 0o644] {
        set_mode(&key, mode);
        for task in ["renew", "release"] {
            let ran = run(tool_for(&database, &[task, "--key", text(&key)])).await;
            assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{mode:o}: {ran:?}");
            assert!(ran.talk.contains(&format!("its mode is {mode:o}")), "{ran:?}");
        }
    }
    assert!(manager.get("a").await.unwrap().is_some() && key.exists());
    set_mode(&key, 0o400);
    assert_eq!(released(&database, &key).await.exit, 0);
}

#[tokio::test]
async fn what_is_no_key_file_is_refused() {
    let database = fresh().await;
    let folder = Folder::new();
    let key = folder.path("key");
    acquired(&database, "a", &key, &[]).await;
    let link = folder.path("link");
    symlink(&key, &link).unwrap();
    let garbage = folder.path("garbage");
    std::fs::write(&garbage, "s3cr3t-word").unwrap();
    set_mode(&garbage, 0o600);
    for (path, why) in [
        (&link, "it is a symbolic link"),
        (&garbage, "this is not a key"),
        (&folder.path(""), "it is not a regular file"),
    ] {
        let ran = released(&database, path).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{ran:?}");
        assert!(ran.talk.contains(why) && !ran.talk.contains("s3cr3t"), "{ran:?}");
    }
    let ran = run(tool_for(&database, &["renew", "--key", text(&folder.path("none"))])).await;
    assert_eq!(ran.exit, 64, "{ran:?}");
    assert!(ran.talk.contains("there is no such key file"), "{ran:?}");
    assert_eq!(released(&database, &key).await.exit, 0);
}

#[tokio::test]
async fn a_key_says_where_its_lease_is() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let key = folder.path("key");
    acquired(&database, "a", &key, &[]).await;
    let at = |arguments: &[&str]| {
        let mut command = tool(arguments);
        command.env("MONGODB_URI", mongo_lease_testbed::Server::shared().uri());
        command
    };
    let release = ["release", "--key", text(&key)];
    let other = run(at(&[&release[..], &["--collection", "others"]].concat())).await;
    assert_eq!(other.exit, 64, "{other:?}");
    assert!(other.talk.contains("--collection \"locks\", and not for \"others\""), "{other:?}");
    let mut from_environment = at(&release);
    from_environment.env("MONGO_LEASE_DB", "elsewhere");
    let other = run(from_environment).await;
    assert_eq!(other.exit, 64, "{other:?}");
    assert!(other.talk.contains("\"elsewhere\"; it comes from MONGO_LEASE_DB"), "{other:?}");
    assert!(manager.get("a").await.unwrap().is_some() && key.exists(), "nothing was done");
    // Neither the connection string nor an option names the database here.
    let ran = run(at(&release)).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, "\"a\" is released\n"), "{ran:?}");
}

#[tokio::test]
async fn no_file_is_written_over_but_an_old_key_of_the_lease() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let other = folder.path("other");
    acquired(&database, "other", &other, &[]).await;
    let garbage = folder.path("garbage");
    std::fs::write(&garbage, "precious").unwrap();
    let link = folder.path("link");
    symlink(folder.path("nowhere"), &link).unwrap();
    for (path, why) in [
        (&other, "the key of another lease, \"other\""),
        (&garbage, "it is there already"),
        (&link, "it is not a regular file"),
    ] {
        let before = std::fs::read(path).ok();
        let ran = run(tool_for(&database, &["acquire", "a", "--key", text(path)])).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{ran:?}");
        assert!(ran.talk.contains(why), "{ran:?}");
        assert_eq!(std::fs::read(path).ok(), before);
    }
    assert!(manager.get("a").await.unwrap().is_none());

    // As `mktemp` makes it.
    let key = folder.path("key");
    std::fs::write(&key, "").unwrap();
    set_mode(&key, 0o644);
    acquired(&database, "a", &key, &["--ttl", "1s"]).await;
    let first = std::fs::read(&key).unwrap();
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    soon("it expires", async { while manager.get("a").await.unwrap().is_some() {} }).await;
    acquired(&database, "a", &key, &[]).await;
    assert_ne!(std::fs::read(&key).unwrap(), first);
    assert_eq!(released(&database, &key).await.exit, 0);
}
