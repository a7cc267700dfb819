// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Function names and parameters in a kernel's BTF.
//!
//! # Problem
//! A program that calls a kernel function loads only if the kernel's BTF lists it with the
//! parameters that the program was built for. Otherwise loading fails with a message that few users
//! understand.
//!
//! # Approach
//! libbpf parses and checks the BTF (`/sys/kernel/btf/vmlinux`, some megabytes). One walk over its
//! types indexes the functions, because libbpf finds a name only in the first type that has it.
//!
//! # Invariants
//! No input causes a panic or an endless loop.
//!
//! # Limits
//! Only base BTF is read, which vmlinux has. Split BTF of modules is not.

use libbpf_rs::btf::types::{Func, FuncProto, Fwd, Ptr, Struct};
use libbpf_rs::btf::{BtfKind, BtfType, TypeId};
use libbpf_rs::set_print;
use std::collections::HashMap;
use std::path::Path;

/// Qualifiers and typedefs that are followed in a row. Damaged BTF may have a circle of them.
const MAX_QUALIFIERS: usize = 16;

/// A kernel's functions.
#[derive(Debug)]
pub struct Btf {
    types: libbpf_rs::btf::Btf<'static>,
    /// Type of each function by name.
    functions: HashMap<String, TypeId>,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name, as far as it is UTF-8.
    pub name: String,
    /// Name of the structure that it points to; empty for anything else.
    pub points_to: String,
}

impl Btf {
    /// Read the BTF in a file.
    ///
    /// # Errors
    /// The file cannot be read or is not valid BTF.
    pub fn read(path: &Path) -> libbpf_rs::Result<Self> {
        // The caller reports the error. libbpf would print it as well.
        let before = set_print(None);
        let types = libbpf_rs::btf::Btf::from_path(path);
        set_print(before);
        let types = types?;
        let functions = types.type_by_kind::<Func<'_>>();
        let functions = functions
            .filter_map(|function| Some((function.name()?.to_str()?.to_owned(), function.type_id())));
        let functions = functions.collect();
        Ok(Self { types, functions })
    }

    /// Return the parameters of a function; None when the kernel has no function of that name.
    #[must_use]
    pub fn params(&self, function: &str) -> Option<Vec<Param>> {
        let function: Func<'_> = self.types.type_by_id(*self.functions.get(function)?)?;
        let prototype = FuncProto::try_from(function.next_type()?).ok()?;
        let params = prototype.iter().map(|param| {
            let name = param.name.unwrap_or_default().to_string_lossy().into_owned();
            Param { name, points_to: self.pointee(param.ty).unwrap_or_default() }
        });
        Some(params.collect())
    }

    /// Return true if the kernel has a function of that name.
    #[must_use]
    pub fn has(&self, function: &str) -> bool {
        self.functions.contains_key(function)
    }

    /// Iterate over the names of all functions that are UTF-8, in no particular order.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Return the name of the structure that a type points to.
    fn pointee(&self, id: TypeId) -> Option<String> {
        let pointer = Ptr::try_from(unqualified(self.types.type_by_id(id)?)?).ok()?;
        let to = unqualified(pointer.next_type()?)?;
        let is_structure = Struct::try_from(to).is_ok() || Fwd::try_from(to).is_ok();
        is_structure.then(|| to.name().unwrap_or_default().to_string_lossy().into_owned())
    }
}

/// Return the type that qualifiers and typedefs lead to; None for too many of them.
fn unqualified(mut of: BtfType<'_>) -> Option<BtfType<'_>> {
    use BtfKind::{Const, Restrict, TypeTag, Typedef, Volatile};
    for _ in 0..MAX_QUALIFIERS {
        if !matches!(of.kind(), Const | Restrict | TypeTag | Typedef | Volatile) {
            return Some(of);
        }
        of = of.next_type()?;
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAGIC: u16 = 0xeb9f;
    const KIND_PTR: u32 = 2;
    const KIND_STRUCT: u32 = 4;
    const KIND_FUNC: u32 = 12;
    const KIND_FUNC_PROTO: u32 = 13;

    /// Read BTF from memory.
    pub fn parse(data: &[u8]) -> libbpf_rs::Result<Btf> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), data).unwrap();
        Btf::read(file.path())
    }

    /// Build BTF with the given functions, each with its parameters as (name, structure pointed to
    /// or "").
    pub fn build(functions: &[(&str, &[(&str, &str)])]) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut types: Vec<u8> = Vec::new();
        let mut count = 0u32;
        let mut string = |text: &str| {
            let at = strings.len() as u32;
            strings.extend(text.as_bytes());
            strings.push(0);
            at
        };
        let mut add = |words: &[u32]| {
            types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            count += 1;
            count
        };
        let int = add(&[0, 1 << 24, 4, 0]);
        for (name, params) in functions {
            let mut proto = vec![0, (KIND_FUNC_PROTO << 24) | params.len() as u32, int];
            for (param, target) in *params {
                let ty = if target.is_empty() {
                    int
                } else {
                    let of = add(&[string(target), KIND_STRUCT << 24, 8]);
                    let constant = add(&[0, 10 << 24, of]);
                    add(&[0, KIND_PTR << 24, constant])
                };
                proto.extend([string(param), ty]);
            }
            let proto = add(&proto);
            add(&[string(name), KIND_FUNC << 24, proto]);
        }
        let header = [
            u32::from(MAGIC) | (1 << 16),
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        let mut data: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
        data.extend(types);
        data.extend(strings);
        data
    }

    #[test]
    fn finds_functions_and_the_structures_of_their_parameters() {
        let data = build(&[("one", &[]), ("kick", &[("cpu", ""), ("aux", "bpf_prog_aux")])]);
        let btf = parse(&data).unwrap();
        assert!(btf.has("one") && !btf.has("on") && !btf.has("two"));
        let params = btf.params("kick").unwrap();
        assert_eq!(params[0], Param { name: "cpu".into(), points_to: String::new() });
        assert_eq!(params[1], Param { name: "aux".into(), points_to: "bpf_prog_aux".into() });
        assert_eq!(btf.params("two"), None);
    }

    #[test]
    fn refuses_invalid_btf() {
        assert!(parse(b"").is_err() && parse(&[0; 64]).is_err());
        assert!(Btf::read(Path::new("/nonexistent")).is_err());
        let data = build(&[("one", &[])]);
        assert!(parse(&data[..data.len() - 1]).is_err());
    }

    #[test]
    fn a_qualifier_of_itself_ends_the_search() {
        let mut data = build(&[("one", &[("p", "s")])]);
        // After the header, an int and a structure: the constant, type 3, and what it qualifies.
        data[24 + 16 + 12 + 8] = 3;
        let params = parse(&data).unwrap().params("one").unwrap();
        assert_eq!(params[0].points_to, "");
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..200, byte: u8, cut in 0usize..40) {
            let mut data = build(&[("one", &[("p", "s"), ("q", "")]), ("two", &[("aux", "bpf_prog_aux")])]);
            let at = at % data.len();
            data[at] = byte;
            data.truncate(data.len() - cut);
            if let Ok(btf) = parse(&data) {
                let names: Vec<String> = btf.functions().map(str::to_owned).collect();
                for name in names {
                    let _ = btf.params(&name);
                }
            }
        }
    }
}
