//! The C policy headers as bindgen sees them. Names and meanings are documented in `lib/include/bias/*.h`.

#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code)]
#![allow(unsafe_op_in_unsafe_fn, clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
