//! Tables for the rules. They need no server and no clock.

mod attempts;
mod holder;
mod texts;
mod timing;
