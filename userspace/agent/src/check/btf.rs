//! Function names and parameters in a kernel's BTF.
//!
//! # Problem
//! A program that calls a kernel function loads only if the kernel's BTF lists it with the
//! parameters that the program was built for. Otherwise loading fails with a message that few users
//! understand.
//!
//! # Approach
//! One walk over the raw BTF (`/sys/kernel/btf/vmlinux`, some megabytes) records where each type
//! starts. Names and parameters are found from there. The data is not trusted: every offset and
//! count is checked against its size.
//!
//! # Invariants
//! No input makes the walk read outside the data, loop for ever or panic.
//!
//! # Limits
//! Only base BTF is read, which vmlinux has. Split BTF of modules is not.

use std::collections::HashMap;

const MAGIC: u16 = 0xeb9f;
const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_FWD: u32 = 7;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
/// Kinds that only qualify another type: typedef, volatile, const, restrict, type tag.
const KINDS_QUALIFYING: [u32; 5] = [8, 9, 10, 11, 18];

/// A kernel's functions.
#[derive(Debug)]
pub struct Btf<'a> {
    data: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type in `data`; type ids start at 1.
    types: Vec<u32>,
    /// Type id of each function by name.
    functions: HashMap<&'a [u8], u32>,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name, as far as it is UTF-8.
    pub name: String,
    /// Name of the structure that it points to; empty for anything else.
    pub points_to: String,
}

/// The data is not valid BTF, with the offset of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the BTF is damaged at byte {0}")]
pub struct Damaged(usize);

impl<'a> Btf<'a> {
    /// Parse the types.
    ///
    /// # Errors
    /// [`Damaged`] when the data ends early, has no BTF header or holds an unknown kind.
    pub fn parse(data: &'a [u8]) -> Result<Self, Damaged> {
        let word = |at: usize| word(data, at).ok_or(Damaged(at));
        if word(0)? & 0xffff != u32::from(MAGIC) {
            return Err(Damaged(0));
        }
        let header = word(4)? as usize;
        let section = |offset: usize, length: usize| {
            let from = header.checked_add(word(offset)? as usize).ok_or(Damaged(offset))?;
            let to = from.checked_add(word(length)? as usize).ok_or(Damaged(length))?;
            if to <= data.len() { Ok((from, to)) } else { Err(Damaged(data.len())) }
        };
        let (mut at, end) = section(8, 12)?;
        let (strings_from, strings_to) = section(16, 20)?;
        let strings = data.get(strings_from..strings_to).ok_or(Damaged(strings_from))?;
        let mut btf = Self { data, strings, types: Vec::new(), functions: HashMap::new() };
        while at < end {
            let info = word(at + 4)?;
            btf.types.push(u32::try_from(at).map_err(|_| Damaged(at))?);
            if kind(info) == KIND_FUNC {
                btf.functions.insert(btf.string(word(at)?), btf.types.len() as u32);
            }
            let extra = extra_bytes(kind(info), (info & 0xffff) as usize).ok_or(Damaged(at))?;
            at = at + 12 + extra;
        }
        Ok(btf)
    }

    /// Return the parameters of a function; None when the kernel has no function of that name.
    #[must_use]
    pub fn params(&self, function: &str) -> Option<Vec<Param>> {
        let func = self.at(*self.functions.get(function.as_bytes())?)?;
        let proto = self.at(word(self.data, func + 8)?)?;
        let info = word(self.data, proto + 4)?;
        if kind(info) != KIND_FUNC_PROTO {
            return None;
        }
        let count = (info & 0xffff) as usize;
        (0..count).map(|index| self.param(proto + 12 + index * 8)).collect()
    }

    /// Return true if the kernel has a function of that name.
    #[must_use]
    pub fn has(&self, function: &str) -> bool {
        self.functions.contains_key(function.as_bytes())
    }

    /// Iterate over the names of all functions that are UTF-8, in no particular order.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().filter_map(|name| std::str::from_utf8(name).ok())
    }

    fn param(&self, at: usize) -> Option<Param> {
        let text = |offset| String::from_utf8_lossy(self.string(offset)).into_owned();
        let name = text(word(self.data, at)?);
        let points_to = self.pointee(word(self.data, at + 4)?).map(text).unwrap_or_default();
        Some(Param { name, points_to })
    }

    /// Return the name offset of the structure that a type points to.
    fn pointee(&self, id: u32) -> Option<u32> {
        let mut at = self.at(id)?;
        let mut through_pointer = false;
        // Qualifiers may nest. The bound stops a cycle of types.
        for _ in 0..16 {
            let this = kind(word(self.data, at + 4)?);
            if this == KIND_STRUCT || this == KIND_FWD {
                return through_pointer.then_some(word(self.data, at)?);
            }
            let pointer = this == KIND_PTR && !through_pointer;
            if !pointer && !KINDS_QUALIFYING.contains(&this) {
                return None;
            }
            through_pointer |= pointer;
            at = self.at(word(self.data, at + 8)?)?;
        }
        None
    }

    /// Return the offset of a type.
    fn at(&self, id: u32) -> Option<usize> {
        Some(*self.types.get((id as usize).checked_sub(1)?)? as usize)
    }

    fn string(&self, offset: u32) -> &'a [u8] {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        rest.get(..length).unwrap_or_default()
    }
}

const fn kind(info: u32) -> u32 {
    (info >> 24) & 0x1f
}

/// Return the bytes after the common part of a type with `count` members; None for an unknown kind.
fn extra_bytes(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn finds_functions_and_what_their_parameters_point_to() {
        let data = build(&[("one", &[]), ("kick", &[("cpu", ""), ("aux", "bpf_prog_aux")])]);
        let btf = Btf::parse(&data).unwrap();
        assert!(btf.has("one") && !btf.has("on") && !btf.has("two"));
        let params = btf.params("kick").unwrap();
        assert_eq!(params[0], Param { name: "cpu".into(), points_to: String::new() });
        assert_eq!(params[1], Param { name: "aux".into(), points_to: "bpf_prog_aux".into() });
        assert_eq!(btf.params("two"), None);
    }

    #[test]
    fn refuses_what_is_not_btf() {
        assert_eq!(Btf::parse(b"").unwrap_err(), Damaged(0));
        assert_eq!(Btf::parse(&[0; 64]).unwrap_err(), Damaged(0));
        let data = build(&[("one", &[])]);
        assert!(Btf::parse(&data[..data.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..200, byte: u8, cut in 0usize..40) {
            let mut data = build(&[("one", &[("p", "s"), ("q", "")]), ("two", &[("aux", "bpf_prog_aux")])]);
            let at = at % data.len();
            data[at] = byte;
            data.truncate(data.len() - cut);
            if let Ok(btf) = Btf::parse(&data) {
                let names: Vec<String> = btf.functions().map(str::to_owned).collect();
                for name in names {
                    let _ = btf.params(&name);
                }
            }
        }
    }
}
