//! Fenced writes: the caller's filter and update, merged with the condition on the token and its storing.

use mongo_lease_core::bson::{Bson, Document};
use mongodb::options::UpdateModifications;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{bytes, option_document, token};
use crate::error::Error;
use crate::failed::Fault;
use crate::fence::{Fence, FenceKind, check_field, check_upsert};
use crate::token::Token;

/// A fenced write. Its filter and its update are complete.
#[wasm_bindgen]
pub struct FencedWrite {
    fence: Fence,
    filter: Document,
    update: UpdateModifications,
}

#[wasm_bindgen]
impl FencedWrite {
    /// Merges both. `update` is the only field of its document, because it may be a list.
    #[wasm_bindgen(constructor)]
    pub fn new(
        filter: &[u8],
        update: &[u8],
        field: String,
        token: u64,
        is_upsert: bool,
    ) -> Result<FencedWrite, Fault> {
        check_field(&field)?;
        let filter = option_document("filter", filter)?;
        let mut update = option_document("update", update)?;
        let refused = || Error::invalid_option("update", "must be a document or a list of stages");
        let update = match update.remove("update") {
            Some(Bson::Document(update)) => UpdateModifications::Document(update),
            Some(Bson::Array(stages)) => {
                let stages = stages.into_iter().map(|stage| match stage {
                    Bson::Document(stage) => Ok(stage),
                    _ => Err(refused()),
                });
                UpdateModifications::Pipeline(stages.collect::<Result<_, Error>>()?)
            }
            _ => return Err(refused().into()),
        };
        if is_upsert {
            check_upsert(&field, &filter)?;
        }
        let fence = Fence { kind: FenceKind::One, token: Token::from_u64(token), field };
        let update = fence.update(update)?;
        Ok(FencedWrite { fence, filter, update })
    }

    /// The filter and the update that are sent.
    pub fn merged(&self) -> Vec<u8> {
        let update = match &self.update {
            UpdateModifications::Document(update) => Bson::from(update.clone()),
            UpdateModifications::Pipeline(stages) => Bson::from(stages.clone()),
            _ => Bson::Null,
        };
        let filter = self.fence.filter(self.filter.clone());
        let parts = [("filter".to_owned(), filter.into()), ("update".to_owned(), update)];
        bytes(&Document::from_iter(parts))
    }

    /// The filter for a document that matches the caller's and refuses the token.
    pub fn refusing(&self) -> Vec<u8> {
        bytes(&self.fence.refusing(self.filter.clone()))
    }

    /// The token in this document, which has refused the write.
    #[wasm_bindgen(js_name = tokenIn)]
    pub fn token_in(&self, found: &[u8]) -> Option<u64> {
        let mut value = Bson::Document(option_document("filter", found).ok()?);
        for part in self.fence.bound().split('.') {
            let Bson::Document(mut inner) = value else { return None };
            value = inner.remove(part)?;
        }
        if let Bson::Timestamp(at) = value { Some(token(at)) } else { None }
    }
}
