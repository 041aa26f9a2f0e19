//! The database of a case, through the two clients of the driver that the sides use.

use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_measure::Outcome;
use tokio::sync::OnceCell;

/// Each server of the benchmark has one database that counts.
const NAME: &str = "benches";

/// The database through each client. A client is made when a side first needs it, for it also monitors the server.
pub(crate) struct Databases {
    uri: String,
    /// With the driver's default options.
    by_default: OnceCell<Database>,
    /// Without retryable writes.
    plain: OnceCell<Database>,
}

impl Databases {
    pub(crate) fn at(uri: &str) -> Databases {
        let (by_default, plain) = (OnceCell::new(), OnceCell::new());
        Databases { uri: uri.to_owned(), by_default, plain }
    }

    /// The database through a client with the driver's default options.
    pub(crate) async fn by_default(&self) -> Outcome<&Database> {
        self.by_default.get_or_try_init(|| self.reach(None)).await
    }

    /// The database through a client without retryable writes, for which the server keeps no record of each write.
    pub(crate) async fn plain(&self) -> Outcome<&Database> {
        self.plain.get_or_try_init(|| self.reach(Some(false))).await
    }

    async fn reach(&self, retry_writes: Option<bool>) -> Outcome<Database> {
        let mut options = ClientOptions::parse(&self.uri).await?;
        options.retry_writes = retry_writes;
        Ok(Client::with_options(options)?.database(NAME))
    }
}
