//! The pictures of the pages, the documentation as docs.rs builds it, and the alert rules and the dashboard: one test
//! binary, a module a concern.

mod built;
mod checker;
mod observe;
mod pictures;
mod promtool;
