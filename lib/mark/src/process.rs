// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Messages to the user, and the build ID of the running program, which the linker made from its
//! contents.

use std::ffi::{c_int, c_void};
use std::io::Write as _;

use nix::libc::{PT_NOTE, dl_iterate_phdr, dl_phdr_info, size_t};

/// Type of the note that holds a build ID.
const NT_GNU_BUILD_ID: u32 = 3;

/// Print one line on standard error, if it is open.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "libbias_mark: {line}");
}

/// Return the build ID of this process's program in hexadecimal digits. Empty if it has none.
pub fn own_build_id() -> String {
    let mut found = String::new();
    // SAFETY: the callback has the required type, and `found` outlives the call.
    unsafe { dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// Search the notes of the first object, which is the program, and stop.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid description, and the caller passed a String.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<String>()) };
    if info.dlpi_phdr.is_null() {
        return 1;
    }
    // SAFETY: the program has that many headers there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|header| header.p_type == PT_NOTE) {
        let start = (info.dlpi_addr as usize + header.p_vaddr as usize) as *const u8;
        // SAFETY: the segment is mapped, as its header says.
        let notes = unsafe { std::slice::from_raw_parts(start, header.p_memsz as usize) };
        if let Some(id) = build_id(notes) {
            *found = id.iter().map(|byte| format!("{byte:02x}")).collect();
            break;
        }
    }
    1
}

/// Return the build ID among the notes of a segment.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let word = |at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let (name_size, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = 12 + name_size.next_multiple_of(4);
        let content = notes.get(start..start.checked_add(size)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return Some(content);
        }
        notes = notes.get(start + size.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [name.len() as u32, content.len() as u32, kind] {
            bytes.extend(word.to_ne_bytes());
        }
        for part in [name, content] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let notes = [note(1, b"Linux\0", b"12345"), note(3, b"GNU\0", &[0xab, 0xcd]), note(5, b"", b"")];
        assert_eq!(build_id(&notes.concat()), Some([0xab, 0xcd].as_slice()));
        assert_eq!(build_id(&notes[0]), None);
    }

    #[test]
    fn this_program_has_a_build_id() {
        let id = own_build_id();
        assert!(id.len() >= 16 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
    }

    proptest! {
        #[test]
        fn malformed_notes_do_not_panic(notes in prop::collection::vec(any::<u8>(), 0..64)) {
            build_id(&notes);
        }
    }
}
