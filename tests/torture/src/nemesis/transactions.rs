//! Transactions on leases' documents: they block every other write to these, and all later statements of its command.

use mongo_lease::mongodb::ClientSession;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::error::Error;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target, some};
use crate::cluster::{COLLECTION, Cluster, Failed, PATIENCE};

/// A transaction writes to some of the leases' documents, stays open for a while, and is aborted.
pub(super) async fn hold_up(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let (most, pause) = (random.random_range(1..6), some(random, 300..3_000));
    let begun = tokio::time::timeout(PATIENCE, begin(&target.cluster, primary, most)).await;
    // During another fault this may fail, and a worker's own transaction may have been quicker.
    let (blocked, session) = match begun {
        Ok(Ok((session, blocked))) => (blocked, Some(session)),
        Ok(Err(_)) | Err(_) => (0, None),
    };
    let detail = format!("{blocked} documents for {pause:?}");
    let fault = target.began(Nemesis::Transaction, detail);
    if let Some(mut session) = session {
        tokio::time::sleep(pause).await;
        // Where the member is not primary any more, the transaction has ended with that.
        let _ended = tokio::time::timeout(PATIENCE, session.abort_transaction()).await;
    }
    target.ended(fault);
    Ok(())
}

async fn begin(cluster: &Cluster, member: usize, most: i64) -> Result<(ClientSession, u64), Error> {
    let sample = doc! {
        "aggregate": COLLECTION,
        "pipeline": [{ "$sample": { "size": most } }, { "$project": { "_id": 1 } }],
        "cursor": {},
    };
    let reply = cluster.database(member).run_command(sample).await?;
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.into_iter().flatten().filter_map(Bson::as_document);
    let ids: Vec<Bson> = documents.filter_map(|document| document.get("_id").cloned()).collect();
    let mut session = cluster.direct(member).start_session().await?;
    session.start_transaction().await?;
    let leases = cluster.database(member).collection::<Document>(COLLECTION);
    let (those, touch) = (doc! { "_id": { "$in": ids } }, doc! { "$set": { "touched": true } });
    let touched = leases.update_many(those, touch).session(&mut session).await?;
    Ok((session, touched.modified_count))
}
