//! Width and words that all parts of the text share.

use bias_policy::table::Class;

/// Width of the output [columns].
pub(super) const WIDTH: u16 = 80;

/// Return the name of a class.
pub(super) const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Fast => "fast",
        Class::Slow => "slow",
    }
}
