//! Lifeline: reports when the last of some processes has ended.
//!
//! It is a named pipe, which a command opens for writing and all its children inherit. It ends for its reader when the
//! last of them has ended, in any way.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use mongo_lease_testbed::command;
use tokio::sync::oneshot;

use super::tool::soon;

/// The reader's end.
pub(crate) struct Lifeline {
    path: PathBuf,
    ended: oneshot::Receiver<SystemTime>,
}

impl Lifeline {
    /// A new one. Its end waits for every process that writes to `path`.
    pub(crate) fn new() -> Lifeline {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mongo-lease-lifeline-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = command("mkfifo").arg(&path).status().expect("mkfifo is there");
        assert!(made.success(), "{made}");
        let (sender, ended) = oneshot::channel();
        let for_thread = path.clone();
        // A thread, and not the runtime's: opening waits for a writer, and cannot be cancelled.
        std::thread::spawn(move || {
            let mut pipe = File::open(&for_thread).expect("the pipe is there");
            let mut nothing = Vec::new();
            pipe.read_to_end(&mut nothing).expect("it can be read");
            let _gone = sender.send(SystemTime::now());
        });
        Lifeline { path, ended }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// When the last of the processes ended.
    pub(crate) async fn end(&mut self) -> SystemTime {
        soon("the last process ends", &mut self.ended).await.expect("the reader is there")
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
