//! A bound on waiting for what must happen: a test fails, and never hangs.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::change_stream::ChangeStream;
use mongo_lease::mongodb::change_stream::event::{ChangeStreamEvent, OperationType};

/// What the future gives, which must be there in half a minute.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    let outcome = tokio::time::timeout(Duration::from_secs(30), future).await;
    outcome.expect("it happens within half a minute")
}

/// Waits until somebody has written so.
pub(crate) async fn written(
    changes: &mut ChangeStream<ChangeStreamEvent<Document>>,
    how: OperationType,
) {
    soon(async {
        while changes.next().await.expect("the stream goes on").unwrap().operation_type != how {}
    })
    .await;
}
