//! The service as its clients see it: separate processes, over HTTP, against a real server.

mod client;
mod crowd;
mod endpoints;
mod ends;
mod nested;
mod service;
