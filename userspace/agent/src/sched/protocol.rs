//! The questions that the thread of the socket passes on to the main thread, and the answers.

use super::reload::ReloadReport;
use super::reply::Reply;
use super::report::TaskReport;
use super::stats::Stats;
use super::status::StatusReport;
use crate::optin::{CgroupRequest, CgroupsReport};
use crate::swaps::SwapsReport;

/// Question of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Stats,
    Status,
    Tasks,
    Cgroups(CgroupRequest),
    Reload,
    /// The swaps from this number on.
    Swaps(u64),
}

/// Answer to a question.
pub(super) enum Answer {
    Stats(Stats),
    Status(Box<StatusReport>),
    Tasks(Result<Vec<TaskReport>, String>),
    Cgroups(Reply<CgroupsReport>),
    Reload(Reply<ReloadReport>),
    Swaps(Box<SwapsReport>),
}
