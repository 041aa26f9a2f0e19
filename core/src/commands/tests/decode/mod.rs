//! Examples of the meaning of replies. `fuzz` compares each decoder with what the bytes show, whatever they are.

mod admissions;
mod fast_acquire;
mod indexes;
mod replies;
mod watch;

use crate::bson::doc;
use crate::rules::outcome::{MAYBE_APPLIED, Outcome, REFUSED};
use crate::spec::EndScope;

use super::{SENT, TOKEN, renewed, target, values};
use crate::commands::probe::Hello;
use crate::commands::release::{End, GrantMatch};
use crate::commands::renew_holders::RenewHolders;
use crate::commands::{Command, DecodeError, StatementError};

pub(super) use admissions::admitted;
pub(super) use watch::{fields, replacement, update};

/// A statement that the server refuses alone is known not to be applied; others of the same command may have been.
#[test]
fn a_refused_statement_tells_whether_others_may_be_applied() {
    let error = doc! { "index": 0, "code": 121, "errmsg": "invalid" };
    let reply = doc! { "writeErrors": [error], "n": 0 };
    let end = |count| {
        let targets = vec![target(GrantMatch::Any); count];
        End { targets, scope: EndScope::Anywhere, values: values() }.decode(&reply, SENT).err()
    };
    let renew = RenewHolders { grants: vec![renewed()] }.decode(&reply, SENT).err();
    let others_may_be = Outcome { maybe_applied: true, ..REFUSED };
    for (cause, wanted) in [(end(1), REFUSED), (end(2), others_may_be), (renew, MAYBE_APPLIED)] {
        let Some(DecodeError::Write { outcome, .. }) = cause else { panic!("{cause:?}") };
        assert_eq!(outcome, wanted);
    }
}

/// MongoDB 4.4 says 9.
#[test]
fn a_server_before_4_4_is_refused() {
    for (version, is_fine) in [(8, false), (9, true), (21, true)] {
        let reply = doc! { "maxWireVersion": version, "setName": "rs", "operationTime": TOKEN };
        let topology = Hello.decode(&reply, SENT);
        assert_eq!(topology.is_ok(), is_fine, "{version}: {topology:?}");
    }
}

#[test]
fn an_error_of_a_reply_has_the_servers_words() {
    let source = StatementError { code: 121, message: "invalid".to_owned() };
    assert_eq!(DecodeError::Write { source, outcome: REFUSED }.to_string(), "invalid");
    assert_eq!(DecodeError::Reply("odd".to_owned()).to_string(), "odd");
    assert_eq!(DecodeError::Unsupported("old".to_owned()).to_string(), "old");
}
