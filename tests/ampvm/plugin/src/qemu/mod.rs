//! The interface to QEMU: its plugin callbacks, and the functions of libc from which it takes its
//! clocks.
//!
//! | module | content |
//! |---|---|
//! | `api` | differences between versions of the plugin interface |
//! | `install` | start of the plugin |
//! | `adapters` | translation, quanta, and the life of vCPUs |
//! | `callbacks` | accesses and branches, the sources of stalls |
//! | `inline` | counters that generated code updates |
//! | `interpose` | clocks, poll, and condition variables of QEMU |
//! | `thread` | parts of host threads, and their clock |
//! | `ticks` | the guest's time stamp counter |
//! | `devices` | whether the guest may wait for the host |

mod adapters;
mod api;
mod callbacks;
mod devices;
mod inline;
mod install;
mod interpose;
mod thread;
mod ticks;
