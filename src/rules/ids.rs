//! The identities of managers, calls and grants: texts in documents, each of which begins with the one before.
//!
//! | identity | text |
//! | --- | --- |
//! | manager | fresh randomness: `m` |
//! | call | its manager, and fresh randomness: `m-c` |
//! | grant | its call, and the number of the attempt: `m-c.1`; sent again in pieces: `m-c.1.1` |
//! | grant of a resume | `m-c.0` |

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One manager. The ids of its calls begin with it, and so do values that no caller chose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ManagerId(Arc<str>);

/// One acquire call, or one resume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId(Arc<str>);

/// One grant: a later grant of the same name has another id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GrantId(Box<str>);

/// The end of a grant id that a resume has written. Attempts are numbered from 1 on.
const RESUMED: &str = ".0";

impl ManagerId {
    /// `randomness` is of this manager alone.
    pub(crate) fn new(randomness: String) -> ManagerId {
        ManagerId(randomness.into())
    }

    /// A call of this manager. `randomness` is of this call alone.
    pub(crate) fn call(&self, randomness: &str) -> CallId {
        CallId(format!("{}-{randomness}", self.0).into())
    }

    /// The range of texts that begin with the id of one of its calls.
    pub(crate) fn calls(&self) -> Range<String> {
        // The character after the hyphen is the full stop.
        format!("{}-", self.0)..format!("{}.", self.0)
    }

    /// Whether a value was made by this manager.
    pub(crate) fn has_made(&self, value: &str) -> bool {
        value.starts_with(&*self.0)
    }
}

impl CallId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The grant that this attempt may get.
    pub(crate) fn grant(&self, attempt: u32) -> GrantId {
        GrantId(format!("{}.{attempt}", self.0).into())
    }

    /// The grant that this attempt may get when it was resent so often.
    pub(crate) fn resent_grant(&self, attempt: u32, resends: u32) -> GrantId {
        match resends {
            0 => self.grant(attempt),
            resends => GrantId(format!("{}.{attempt}.{resends}", self.0).into()),
        }
    }

    /// The grant that a resume with this id makes of the one that it resumes.
    pub(crate) fn resumed_grant(&self) -> GrantId {
        GrantId(format!("{}{RESUMED}", self.0).into())
    }

    /// Whether this grant is one of its own.
    pub(crate) fn has(&self, grant: &GrantId) -> bool {
        let grants = self.grants();
        (&*grants.start..&*grants.end).contains(&grant.as_str())
    }

    /// The range of the ids of its grants.
    pub(crate) fn grants(&self) -> Range<String> {
        // The character after the full stop is the slash.
        format!("{}.", self.0)..format!("{}/", self.0)
    }
}

impl GrantId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The call whose attempt was granted. A text of another form is taken as a call's.
    pub(crate) fn call(&self) -> CallId {
        CallId(self.0.rsplit_once('.').map_or(&*self.0, |(call, _)| call).into())
    }

    /// Whether a resume has written it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.0.ends_with(RESUMED)
    }
}

impl From<&str> for CallId {
    fn from(text: &str) -> CallId {
        CallId(text.into())
    }
}

impl From<&str> for GrantId {
    fn from(text: &str) -> GrantId {
        GrantId(text.into())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl PartialEq<str> for GrantId {
    fn eq(&self, text: &str) -> bool {
        &*self.0 == text
    }
}
