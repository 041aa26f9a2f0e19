//! The comparison of one random sequence, on a real server.

use std::sync::Arc;

use crate::bson::{Bson, DateTime, Document as BsonDocument, doc};
use crate::format::SHARED_VALUE;
use crate::rules::permits::Permits;
use crate::spec::permits::{self as spec_permits, AdmitRequest, PermitProtections, Share};
use crate::spec::{Element, Expiry};
use mongo_lease_core_tests::Chance;
use mongo_lease_testbed::Seed;

use super::documents;
use super::effects::latest;
use super::results::result;
use super::steps::Permitted;
use crate::commands::permits::{
    Admit, DeleteLastHolder, FastAdmit, ReleaseAndAdmit, ReleasePermit, ReleaseScope, RenewHolders,
};
use crate::commands::release::ReleaseTarget;
use crate::commands::renew::RenewalTarget;
use crate::commands::tests::agreement::compare::{Difference, StepResult};
use crate::commands::tests::agreement::queue;
use crate::commands::tests::agreement::real::{
    COLLECTION, Real, Replied, duration, key_of, target,
};
use crate::commands::tests::agreement::requests::request_for;
use crate::commands::tests::agreement::short::answer;
use crate::commands::tests::agreement::small::{Document, Promoted, Small, Value};
use crate::commands::tests::agreement::steps::{Answer, HOUR, first_attempt};
use crate::commands::tests::agreement::texts::text;
use crate::commands::tests::{fresh_values, reading};

/// How many steps a sequence has.
const STEPS: i64 = 24;

/// Compares one sequence, on a name of its own, and returns the result of each step.
pub(super) async fn compare(
    real: &Real,
    protections: &impl PermitProtections,
    name: &str,
    seed: u64,
) -> Result<Vec<StepResult>, Difference> {
    let mut chance = Chance::new(seed);
    let mut document: Option<Document> = None;
    let mut results = Vec::new();
    let mut taken: Vec<Permitted> = Vec::new();
    let mut newest_token = None;
    for sent in 1..=STEPS {
        let step = Permitted::choose(&mut chance, document.as_ref(), real.now());
        taken.push(step.clone());
        let before = document;
        let (after, expected) =
            step.clone().in_the_spec(before.clone(), real.now(), sent, protections);
        let context = || format!("{}={seed}: {taken:#?}, before {before:#?}", Seed::VARIABLE);
        let differs = |what, text: String| {
            Difference::new(step.command(), what, format!("{text}: {}", context()))
        };
        let (answer, token) = match real.permit(name, &step, sent).await {
            Ok(replied) => replied,
            Err(cause) => return Err(differs("reply", format!("{cause:?}"))),
        };
        let found = real.document(name).await;
        let after = after.map(|after| real.with_recheck(after, before.as_ref(), found.as_ref()));
        if answer != expected {
            return Err(differs("answer", format!("{answer:?} is not {expected:?}")));
        }
        if !real.is_same(&found, &after) {
            return Err(differs("document", format!("{found:#?} is not {after:#?}")));
        }
        if token.is_some() && newest_token >= token {
            return Err(differs("token", format!("{token:?} is not after {newest_token:?}")));
        }
        newest_token = token.or(newest_token);
        results.push((step.name(), result(&step, answer, before.as_ref(), after.as_ref())));
        document = after;
    }
    Ok(results)
}

fn permits_of(share: Share) -> Permits {
    let number = |number: i64| u32::try_from(number).expect("a valid share");
    Permits::new(number(share.permits), number(share.limit)).expect("a valid share")
}

impl Real {
    /// The specification's document, with the server's recheck where the end is as late as before.
    ///
    /// The specification's time stands still. On the server, a holder that was admitted or renewed by a later step ends
    /// later by the time between both, and its release makes the end earlier.
    fn with_recheck(
        &self,
        after: Document,
        before: Option<&Document>,
        found: Option<&Document>,
    ) -> Document {
        let end = |document: &Document| match document.expiry {
            Expiry::At(at) => Some(self.rounded(at)),
            Expiry::Absent | Expiry::Damaged => None,
        };
        let lasts_as_long = before.is_some_and(|before| end(before) == end(&after));
        let head = after.queue.entries().next().map(|entry| Promoted::Recheck { id: entry.id });
        let told = found.and_then(|found| found.promoted).filter(|_| lasts_as_long);
        let is_of_head = told.is_some() && told == head && after.is_in_shared_use();
        Document { promoted: if is_of_head { told } else { after.promoted }, ..after }
    }

    /// Runs a step. The error is that of the decoder.
    async fn permit(&self, name: &str, step: &Permitted, sent: i64) -> Replied {
        let nobody = self.nobodys_value(name).await;
        let matched = match step {
            Permitted::Admit(request) => return self.admit(name, request, sent).await,
            Permitted::FastAdmit(request) => return self.fast_admit(name, request, sent).await,
            Permitted::Other(step) => return self.take(name, step, sent).await,
            Permitted::Renew { keys } => {
                let target = |&(key, lasts): &(_, i64)| RenewalTarget {
                    key: key_of(name, key, &nobody).into(),
                    lasts: duration(lasts),
                };
                let grants = keys.iter().map(target).collect();
                self.run(&RenewHolders { grants }, sent).await?.matched > 0
            }
            Permitted::ReleaseAndAdmit { value, which, scope } => {
                let target: ReleaseTarget = target(name, (*value, &nobody), *which);
                let scope = match scope {
                    spec_permits::ReleaseScope::Grant => ReleaseScope::Grant,
                    spec_permits::ReleaseScope::GrantOrEntry => ReleaseScope::GrantOrEntry,
                };
                let command = ReleaseAndAdmit { target, scope, values: fresh_values() };
                self.run(&command, sent).await?.count > 0
            }
            Permitted::ReleasePermit { key } => {
                let key = key_of(name, *key, &nobody);
                self.run(&ReleasePermit { key, values: fresh_values() }, sent).await?.count > 0
            }
            Permitted::DeleteLastHolder { key } => {
                let key = key_of(name, *key, &nobody);
                self.run(&DeleteLastHolder { key }, sent).await?.count > 0
            }
            Permitted::WriteHolders { .. }
            | Permitted::WriteNoHolders { .. }
            | Permitted::WriteShares { .. } => {
                self.write_permits(name, step).await;
                return Ok((Answer::Done, None));
            }
        };
        Ok((Answer::Matched(matched), None))
    }

    async fn admit(&self, name: &str, request: &AdmitRequest<Small>, sent: i64) -> Replied {
        let command = Admit {
            request: request_for(name, &request.acquire),
            permits: permits_of(request.share),
            attempt: u32::from(request.acquire.id.attempt),
        };
        Ok(answer(self.run(&command, sent).await?))
    }

    async fn fast_admit(&self, name: &str, request: &AdmitRequest<Small>, sent: i64) -> Replied {
        let acquire = first_attempt(request.acquire, sent);
        let command = FastAdmit {
            request: Arc::clone(&request_for(name, &acquire)),
            permits: permits_of(request.share),
            attempt: u32::from(acquire.id.attempt),
        };
        Ok(answer(self.run(&command, sent).await?))
    }

    /// Writes to the document, if there is one.
    async fn write_permits(&self, name: &str, step: &Permitted) {
        let collection = self.database.collection::<BsonDocument>(COLLECTION);
        let change = match step {
            Permitted::WriteHolders { holders, top } => {
                let at = |millis| Bson::from(DateTime::from_millis(millis));
                let until = match top {
                    Some(Expiry::At(hours)) => at(self.began + hours * HOUR),
                    Some(Expiry::Damaged) => "2999".into(),
                    Some(Expiry::Absent) => Bson::Null,
                    None => at(latest(holders, self.began)),
                };
                doc! {
                    "value": SHARED_VALUE,
                    "expiresAt": until,
                    "holders": documents::written(holders, self.began),
                }
            }
            Permitted::WriteNoHolders { form } => doc! { "holders": no_list(*form) },
            Permitted::WriteShares { queue: puts, shares } => {
                let found = collection.find_one(doc! { "name": name }).await.unwrap();
                let queue = match puts {
                    Some(puts) => Some(queue::written(puts, self.began).into()),
                    None => found.and_then(|mut found| found.remove("queue")),
                };
                let Some(Bson::Array(mut elements)) = queue else {
                    return;
                };
                for (element, share) in elements.iter_mut().zip(shares.iter().cycle()) {
                    // A corrupt element stays as it is.
                    let is_entry = matches!(reading::element::<Small>(element), Element::Entry(_));
                    let Some(entry) = element.as_document_mut().filter(|_| is_entry) else {
                        continue;
                    };
                    match share {
                        Some(share) => {
                            entry.insert("permits", share.permits);
                            entry.insert("limit", share.limit);
                        }
                        None => {
                            entry.remove("permits");
                            entry.remove("limit");
                        }
                    }
                }
                doc! { "queue": elements }
            }
            Permitted::Admit(_)
            | Permitted::FastAdmit(_)
            | Permitted::Renew { .. }
            | Permitted::ReleaseAndAdmit { .. }
            | Permitted::ReleasePermit { .. }
            | Permitted::DeleteLastHolder { .. }
            | Permitted::Other(_) => unreachable!("{step:?}"),
        };
        let filter = doc! { "name": name };
        collection.update_one(filter, doc! { "$set": change }).await.unwrap();
    }
}

/// Holders that are no list. Paths into them lead to values all the same.
fn no_list(form: usize) -> Bson {
    let [first, second] = [0, 1].map(|value| {
        let id = format!("call1.{}", 3 + value);
        doc! { "value": text(Value(value)), "id": id }.into()
    });
    let values: [Bson; 4] = ["holders".into(), 7.into(), first, second];
    values[form % values.len()].clone()
}
