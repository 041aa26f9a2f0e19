//! Maps and sets by a hash that is fast, and the same in each run: nobody chooses the texts of a history to make them
//! collide.

use foldhash::fast::FixedState;

/// A map.
pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;
/// A map whose entries have an order: that of their keys, once it is sorted.
pub type OrderedMap<K, V> = indexmap::IndexMap<K, V, FixedState>;
/// A set.
pub type Set<K> = std::collections::HashSet<K, FixedState>;
