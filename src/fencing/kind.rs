//! The two kinds of fence: one that keeps one token, and one that keeps two, for a resource that readers share.

use mongodb::bson::{Bson, Document, doc};

use crate::token::Token;

/// The token of the newest holder that has written, of either kind.
const SEEN: &str = "seen";
/// The token of the newest exclusive holder that has written.
const EXCLUSIVE: &str = "exclusive";

/// The kind of a fence, and who passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceKind {
    /// One token, in the field itself.
    One,
    /// Two tokens, in a document in the field; the write is of an exclusive holder.
    OfExclusive,
    /// The same; the write is of a holder that others hold beside.
    OfShare,
}

impl FenceKind {
    /// The path of the token that refuses the write, where it is newer.
    pub(super) fn bound(self, field: &str) -> String {
        match self {
            FenceKind::One => field.to_owned(),
            FenceKind::OfExclusive => format!("{field}.{SEEN}"),
            FenceKind::OfShare => format!("{field}.{EXCLUSIVE}"),
        }
    }

    /// The conditions under which the token may be written. All must hold.
    ///
    /// An array would match by any of its elements, and a dotted path by the elements of any array on its way. So
    /// arrays refuse the token, as do other values that are no tokens.
    pub(super) fn accepting(self, token: Token, field: &str) -> Vec<Document> {
        let bound = self.bound(field);
        let not_newer = |path: &str| doc! { path: { "$lte": Bson::from(token) } };
        let is_none = |path: &str| doc! { path: Bson::Null };
        let mut conditions = vec![doc! { "$or": [not_newer(&bound), is_none(&bound)] }];
        let mut paths = vec![bound];
        match self {
            FenceKind::One => {}
            FenceKind::OfExclusive => {
                let other = format!("{field}.{EXCLUSIVE}");
                conditions.push(doc! { "$or": [not_newer(&other), is_none(&other)] });
                paths.push(other);
            }
            FenceKind::OfShare => {
                let other = format!("{field}.{SEEN}");
                let is_token = doc! { &other: { "$type": "timestamp" } };
                conditions.push(doc! { "$or": [is_token, is_none(&other)] });
                paths.push(other);
            }
        }
        if self != FenceKind::One {
            // The token of the other kind of fence refuses.
            let is_new = doc! { field: { "$exists": false } };
            conditions.push(doc! { "$or": [is_new, { field: { "$type": "object" } }] });
        }
        let parents = field.match_indices('.').map(|(end, _)| field[..end].to_owned());
        let mut without_array: Vec<String> = parents.chain([field.to_owned()]).collect();
        without_array.extend(paths.into_iter().filter(|path| path != field));
        let is_no_array = |path: String| doc! { path: { "$not": { "$type": "array" } } };
        conditions.extend(without_array.into_iter().map(is_no_array));
        conditions
    }

    pub(super) fn operator(self, token: Token, field: &str) -> (&'static str, Document) {
        match self {
            FenceKind::One => ("$set", doc! { field: token }),
            FenceKind::OfExclusive => ("$set", doc! { field: both(token) }),
            FenceKind::OfShare => ("$max", doc! { format!("{field}.{SEEN}"): token }),
        }
    }

    /// The last stage of a pipeline, which stores the token.
    pub(super) fn stage(self, token: Token, field: &str) -> Document {
        match self {
            FenceKind::One => doc! { "$set": { field: token } },
            // An object would be merged with what is there.
            FenceKind::OfExclusive => doc! { "$set": { field: { "$literal": both(token) } } },
            FenceKind::OfShare => {
                let seen = format!("{field}.{SEEN}");
                let greatest = doc! { "$max": [format!("${seen}"), token] };
                doc! { "$set": { seen: greatest } }
            }
        }
    }

    /// Whether the last stage of a pipeline stores all that the fence keeps, whatever the stages before it remove.
    pub(super) fn stores_all(self) -> bool {
        self != FenceKind::OfShare
    }
}

fn both(token: Token) -> Document {
    doc! { SEEN: token, EXCLUSIVE: token }
}
