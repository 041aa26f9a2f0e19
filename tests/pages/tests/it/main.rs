//! The pictures of the pages, the documentation as docs.rs builds it, the front pages in a registry, the public
//! interface, and the alert rules and the dashboard: one test binary, a module a concern.

mod built;
mod checker;
mod interface;
mod observe;
mod pictures;
mod promtool;
mod registry;
mod versions;
