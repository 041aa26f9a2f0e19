//! The record of the sequences that find the controls: the number of each control's first sequence with a difference.
//!
//! A run begins with that sequence, because many controls take a hundred sequences to be found. The record only says
//! where to look: a control whose recorded sequence shows no difference is searched for from the first sequence on. The
//! test then fails, with [`HOW_TO`] if there is another sequence, because stale records make each later run slow.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;

/// The environment variable that makes a run search from the first sequence on, and write the record anew.
const VARIABLE: &str = "MONGO_LEASE_CONTROLS";
/// The command that does so.
pub(super) const HOW_TO: &str =
    "MONGO_LEASE_CONTROLS=record cargo test -p mongo-lease-core --lib agreement::controls";

/// Tests run side by side, and there is one file.
static FILE: Mutex<()> = Mutex::new(());

/// The numbers of the sequences, from 1, by the names of the controls.
pub(super) type Record = BTreeMap<String, u64>;

pub(super) fn is_written_anew() -> bool {
    std::env::var(VARIABLE).is_ok_and(|value| value == "record")
}

pub(super) fn read() -> Record {
    let _file = FILE.lock().expect("no test panics with the file");
    parsed()
}

/// Enters these numbers, and takes out controls that there are no longer.
pub(super) fn write(found: Record, is_control: impl Fn(&str) -> bool) {
    let _file = FILE.lock().expect("no test panics with the file");
    let mut record = parsed();
    record.extend(found);
    let mut text = String::new();
    for (control, number) in record.into_iter().filter(|(control, _)| is_control(control)) {
        writeln!(text, "{number:4} {control}").expect("a text");
    }
    std::fs::write(path(), text).expect("a folder of sources");
}

fn parsed() -> Record {
    let text = std::fs::read_to_string(path()).expect("a record");
    let line = |line: &str| {
        let (number, control) = line.trim_start().split_once(' ').expect("a number and a name");
        (control.to_owned(), number.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}

fn path() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("src/commands/tests/agreement/first_differences.txt")
}
