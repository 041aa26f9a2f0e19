//! Reads leases: one, or many.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use mongo_lease_core::commands::{GetLease, Page};
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{NamePattern, PAGE, PATTERN_BYTES_MAX, glob_regex};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::check_name;
use crate::retry;

pub(crate) async fn get(engine: &Engine, name: &str) -> Result<Option<LeaseInfo>> {
    check_name(name)?;
    engine.check_open()?;
    let look = GetLease { name: name.to_owned() };
    let seen = retry::run(&engine.runner, look, engine.policy()).await?.reply;
    let mut info = seen.into_iter().next().map(|seen| seen.info).filter(LeaseInfo::is_held);
    if let Some(info) = &mut info {
        engine.recognize(info);
    }
    Ok(info)
}

/// A listing of leases. Narrow it down, then turn it into a stream.
///
/// # Examples
/// ```no_run
/// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
/// use futures_util::TryStreamExt;
///
/// let mut jobs = std::pin::pin!(leases.list().glob("job:*").stream()?);
/// while let Some(lease) = jobs.try_next().await? {
///     println!("{lease}");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is listed until it is turned into a stream"]
#[derive(Clone)]
pub struct List {
    engine: Arc<Engine>,
    pattern: NamePattern,
    owner: Option<String>,
    with_free: bool,
}

impl List {
    pub(crate) fn new(engine: Arc<Engine>) -> List {
        List { engine, pattern: NamePattern::All, owner: None, with_free: false }
    }

    /// Lists only names that begin with this prefix. Replaces any other pattern.
    pub fn prefix(mut self, prefix: impl Into<String>) -> List {
        self.pattern = NamePattern::Prefix(prefix.into());
        self
    }

    /// Lists only names that match this pattern as a whole. Replaces any other pattern.
    ///
    /// `*` stands for any characters or none, `?` for one character, and `\` removes the special meaning of the next
    /// character. Every other character stands for itself.
    pub fn glob(mut self, pattern: impl Into<String>) -> List {
        self.pattern = NamePattern::Glob(pattern.into());
        self
    }

    /// The regular expression of a pattern of [`List::glob`], for queries and change streams of your own. Give it to
    /// `$regex` with `$options: "s"`, because a name may contain a line break.
    ///
    /// # Examples
    /// ```
    /// use mongo_lease::List;
    ///
    /// assert_eq!(List::glob_regex("job:*"), r"^job\:.*\z");
    /// ```
    #[must_use]
    pub fn glob_regex(pattern: &str) -> String {
        glob_regex(pattern)
    }

    /// Lists only leases of this owner, in its displayed form: `label@host:pid`. A lease in
    /// [several hold](LeaseInfo::shared) is listed if this owner is among its holders.
    pub fn held_by(mut self, owner: impl Into<String>) -> List {
        self.owner = Some(owner.into());
        self
    }

    /// Also lists leases that have expired, if their documents have not been removed yet.
    pub fn with_free(mut self) -> List {
        self.with_free = true;
        self
    }

    /// Streams the leases in the order of their names.
    ///
    /// The stream reads 100 leases at a time and keeps no cursor open. It is not a snapshot: a lease that is granted or
    /// ends meanwhile may be missing or present. No lease appears twice.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a pattern of more than 1,024 bytes or with a NUL character. The stream ends with an
    /// [`Error::MongoDb`] or [`Error::Unknown`] if the database does not answer.
    ///
    /// # Cancel safety
    /// Dropping the stream has no other effect.
    pub fn stream(self) -> Result<impl Stream<Item = Result<LeaseInfo>> + Send + use<>> {
        if let Some(pattern) = self.pattern.text()
            && (pattern.len() > PATTERN_BYTES_MAX || pattern.contains('\0'))
        {
            let reason =
                format!("must have at most {PATTERN_BYTES_MAX} bytes and no NUL character");
            return Err(Error::invalid_option("pattern", reason));
        }
        let (with_free, owner) = (self.with_free, self.owner.clone());
        let pages = stream::try_unfold(Some(None), move |after: Option<Option<String>>| {
            let list = self.clone();
            async move {
                let Some(after) = after else {
                    return Ok::<_, Error>(None);
                };
                let page = list.page(after).await?;
                // A page may be short because its documents are large: only an empty page is the last.
                let next = page.last().map(|last| Some(last.name.clone()));
                Ok(Some((page, next)))
            }
        });
        let leases = futures_util::TryStreamExt::map_ok(pages, move |page: Vec<LeaseInfo>| {
            let owner = owner.clone();
            let is_listed = move |info: &LeaseInfo| {
                (with_free || info.is_held()) && is_of(info, owner.as_deref())
            };
            stream::iter(page.into_iter().filter(is_listed).map(Ok))
        });
        Ok(futures_util::TryStreamExt::try_flatten(leases))
    }

    async fn page(&self, after: Option<String>) -> Result<Vec<LeaseInfo>> {
        self.engine.check_open()?;
        let (pattern, owner) = (self.pattern.clone(), self.owner.clone());
        let page = Page { pattern, owner, after, limit: PAGE };
        let seen = retry::run(&self.engine.runner, page, self.engine.policy()).await?.reply;
        let mut page: Vec<_> = seen.into_iter().map(|seen| seen.info).collect();
        for info in &mut page {
            self.engine.recognize(info);
        }
        Ok(page)
    }
}

/// Whether the owner holds it. The server has found the owner, but may have found a holder that has expired.
fn is_of(info: &LeaseInfo, owner: Option<&str>) -> bool {
    let Some(owner) = owner.filter(|_| info.shared) else {
        return true;
    };
    info.holders.iter().any(|holder| holder.owner.as_deref() == Some(owner))
}

#[cfg(test)]
mod tests {
    use mongo_lease_core::format::SHARED_VALUE;
    use mongo_lease_core::info::{LeaseHolder, LeaseInfo, LeaseState};

    use super::is_of;

    /// A lease with this value and with these owners among its holders.
    fn held(value: &str, owners: &[&str]) -> LeaseInfo {
        let holder = |owner: &&str| {
            let mut holder = LeaseHolder::without_grant("v".to_owned(), 1, 5, 2, 1);
            holder.owner = Some((*owner).to_owned());
            holder
        };
        let (name, value) = ("a".to_owned(), Some(value.to_owned()));
        let mut info = LeaseInfo::without_grant(name, value, LeaseState::Held, Some(2), Some(1));
        info.set_holders(owners.iter().map(holder).collect());
        info
    }

    #[test]
    fn a_lease_that_several_hold_is_of_those_who_hold_it_still() {
        let shared = |owners: &[&str]| held(SHARED_VALUE, owners);
        for (info, owner, wanted) in [
            (shared(&["a@web:1"]), Some("a@web:1"), true),
            (shared(&["a@web:1", "b@web:2"]), Some("b@web:2"), true),
            (shared(&["a@web:1"]), Some("b@web:2"), false),
            (shared(&["a@web:1"]), None, true),
            // The server has compared the owner of an exclusive lease.
            (held("v", &[]), Some("a@web:1"), true),
        ] {
            assert_eq!(is_of(&info, owner), wanted, "{owner:?}: {info:?}");
        }
    }
}
