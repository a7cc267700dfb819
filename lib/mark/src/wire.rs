// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Messages between a marked process and the agent of scx_bias, one exchange per process.
//!
//! The process sends the address of its table of hints, whose layout `bias/hint.h` defines. The
//! agent answers with a status and the classes of the CPUs, and keeps the connection, which ends
//! with the process or the agent.

/// Socket of the agent.
pub const PATH: &str = "/run/scx_bias-marks/socket";
/// Words of a table.
pub const SLOTS: usize = 1024;
/// CPUs that an answer describes.
pub const MAX_CPUS: usize = 1024;
/// Length of a request [bytes].
pub const REQUEST_BYTES: usize = 16;
/// Length of an answer [bytes].
pub const ANSWER_BYTES: usize = 1 + MAX_CPUS;

/// Magic number and version of a request.
const MAGIC: u32 = 0x6d61_7201;

/// Answer of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Hints count from now on.
    Accepted,
    /// Too many processes have marks.
    Full,
    /// The process is in another pid namespace than the agent.
    Namespace,
    /// The request is not understood.
    Unknown,
}

/// A request: the pid of the process, as it knows it, and the address of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The pid.
    pub pid: u32,
    /// The address.
    pub table: u64,
}

impl Request {
    /// Return the bytes of the request.
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.table.to_ne_bytes());
        bytes
    }

    /// Return the request in these bytes. None if they hold another message.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let table = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
        (word(0)? == MAGIC && table.is_multiple_of(4)).then_some(Request { pid: word(4)?, table })
    }
}

/// Return the bytes of an answer. `slow` lists the slow CPUs.
pub fn answer(status: Status, slow: impl IntoIterator<Item = u32>) -> [u8; ANSWER_BYTES] {
    let mut bytes = [0; ANSWER_BYTES];
    bytes[0] = status as u8;
    for cpu in slow {
        if let Some(byte) = bytes.get_mut(1 + cpu as usize) {
            *byte = 1;
        }
    }
    bytes
}

/// Return the status, and for each CPU true if it is slow.
pub fn decode_answer(bytes: &[u8; ANSWER_BYTES]) -> (Status, impl Iterator<Item = bool> + '_) {
    let status = match bytes[0] {
        0 => Status::Accepted,
        1 => Status::Full,
        2 => Status::Namespace,
        _ => Status::Unknown,
    };
    (status, bytes[1..].iter().map(|byte| *byte == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_and_answers_survive_the_wire(
            pid in any::<u32>(), table in any::<u64>(), cpu in 0..2 * MAX_CPUS as u32
        ) {
            let request = Request { pid, table: table & !3 };
            prop_assert_eq!(Request::decode(&request.encode()), Some(request));
            let bytes = answer(Status::Full, [cpu]);
            let (status, slow) = decode_answer(&bytes);
            prop_assert_eq!(status, Status::Full);
            let slow: Vec<usize> = slow.enumerate().filter(|(_, slow)| *slow).map(|(at, _)| at).collect();
            prop_assert_eq!(slow, if (cpu as usize) < MAX_CPUS { vec![cpu as usize] } else { vec![] });
        }

        #[test]
        fn other_bytes_are_not_a_request(bytes in any::<[u8; REQUEST_BYTES]>()) {
            prop_assume!(bytes[..4] != MAGIC.to_ne_bytes());
            prop_assert_eq!(Request::decode(&bytes), None);
        }
    }
}
