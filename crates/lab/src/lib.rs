//! Load generator, origin server and the published experiments.
//!
//! The three tools that traffic runs through ([`origin`], [`inject`], [`relay`]) stand on a few small modules:
//! [`poll`] and [`net`] (sockets), [`http`] and [`body`] (messages), [`pattern`] (verifiable content), [`host`] and
//! [`sys`] (this machine). Everything that judges stands on the tools.

pub mod body;
pub mod cli;
pub mod compare;
pub mod doctor;
pub mod experiments;
pub mod host;
pub mod http;
pub mod inject;
pub mod integrity;
pub mod measure;
pub mod net;
pub mod netns;
pub mod origin;
pub mod pattern;
pub mod poll;
pub mod process;
pub mod relay;
pub mod report;
pub mod stand;
pub mod stats;
pub mod sys;
pub mod syscalls;
pub mod units;
