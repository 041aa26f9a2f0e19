//! The pictures of the pages, and the documentation as docs.rs builds it: one test binary, a module a concern.

mod built;
mod checker;
mod pictures;
