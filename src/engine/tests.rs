//! The error of a build whose dry run has failed.

use mongodb::error::{CommandError, ErrorKind};

use super::refused_dry_run;
use crate::error::Error;
use crate::failure::driver_failure;

#[test]
fn a_server_that_refuses_the_commands_is_unsupported_unless_it_denies_access() {
    const UNAUTHORIZED: i32 = 13;
    const FAILED_TO_PARSE: i32 = 9;
    const INTERRUPTED: i32 = 11_601;
    for (code, is_unsupported) in
        [(FAILED_TO_PARSE, true), (UNAUTHORIZED, false), (INTERRUPTED, false)]
    {
        let error = serde_json::json!({ "code": code, "codeName": "", "errmsg": "" });
        let error: CommandError = serde_json::from_value(error).expect("the driver's form");
        let error = refused_dry_run(driver_failure(ErrorKind::Command(error).into()));
        assert_eq!(matches!(error, Error::Unsupported { .. }), is_unsupported, "{code}: {error}");
    }
}
