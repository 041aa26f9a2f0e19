//! The pictures of the pages, the front pages in a registry, and the alert rules and the dashboard: one test binary, a
//! module a concern.

mod observe;
mod pictures;
mod promtool;
mod registry;
mod versions;
