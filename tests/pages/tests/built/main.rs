//! The documentation as docs.rs builds it, and the public interface: what takes a build of its own.

mod checker;
mod interface;
mod links;
