//! The questions that the thread of the socket passes on to the main thread, and the answers.

use crate::bpf::Stats;
use crate::bpf::TaskReport;
use crate::control::reply::Reply;
use crate::control::status::StatusReport;
use crate::optin::{CgroupRequest, CgroupsReport};
use crate::options::reload::ReloadReport;
use crate::swaps::SwapsReport;

/// Question of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Stats,
    Status,
    Tasks,
    Cgroups(CgroupRequest),
    Reload,
    /// The swaps from this number on.
    Swaps(u64),
}

/// Answer to a question.
pub(crate) enum Answer {
    Stats(Stats),
    Status(Box<StatusReport>),
    Tasks(Result<Vec<TaskReport>, String>),
    Cgroups(Reply<CgroupsReport>),
    Reload(Reply<ReloadReport>),
    Swaps(Box<SwapsReport>),
}
