//! Refused inputs of scx_bias: the message, the exit code, and an unchanged system afterwards.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Scenario};

/// Each case has a name, the expected exit code, and the command. Standard error goes to
/// $OUT/NAME.err.
const CASES: &str = r#"
try() {
  name=$1; want=$2; shift 2
  timeout 60 "$@" >$OUT/$name.out 2>$OUT/$name.err </dev/null
  echo "$name $want $?" >>$OUT/codes
}
dir=/run/refusals; mkdir -p $dir; cd $dir
mkfifo fifo; mkdir folder; truncate -s 1G large; printf '{' >malformed; printf '{"version": 9, "cpus": []}' >future
printf '{"version": 1, "cpus": [{"cpu": 99, "cost_permille": [1000, 1000, 1000]}]}' >elsewhere
printf 'no-such-key = 1\n' >config
try unknown_flag 2 $BIAS --no-such-flag
for file in fifo folder large malformed future elsewhere absent; do
  try capacity_$file 2 $BIAS --capacity-file $file
done
for file in fifo folder large malformed config absent; do
  try config_$file 2 $BIAS --config $file
done
try slice 2 $BIAS --slice-us 1
try rights 3 setpriv --reuid 65534 --clear-groups $BIAS
try check_rights 3 setpriv --reuid 65534 --clear-groups $BIAS check
$BIAS >$OUT/first.out 2>$OUT/first.err &
first=$!
for i in $(seq 600); do [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break; sleep 0.1; done
cat /sys/kernel/sched_ext/state >$OUT/while
try second 4 $BIAS
cat /sys/kernel/sched_ext/state >$OUT/still
kill -INT $first; wait $first; echo "first 0 $?" >>$OUT/codes
cat /sys/kernel/sched_ext/state >$OUT/state
"#;

#[test]
fn bad_input_gets_one_line_and_its_exit_code() {
    let results = Scenario::plain("6.12", "SYM", 5, "").run(CASES);
    let mut expect = Expectations::default();
    let codes = results.text("codes");
    expect.at_least("cases", codes.lines().count() as f64, 19.0);
    for line in codes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, want, code] = words[..] else { continue };
        expect.holds(&format!("{name}: exit code {code}, {want} is right"), code == want);
        if name == "first" || name == "check_rights" {
            continue;
        }
        let error = results.text(&format!("{name}.err"));
        // The parser of the command line adds its usage. Every other error is one line.
        let lines = error.lines().filter(|line| !line.is_empty()).count();
        expect.holds(&format!("{name}: says why: {error:?}"), lines == 1 || error.contains("--help"));
        expect.holds(&format!("{name}: no panic"), !error.contains("panicked"));
    }
    for (file, state) in [("while", "enabled"), ("still", "enabled"), ("state", "disabled")] {
        expect.holds(&format!("sched_ext is {state} ({file})"), results.text(file).trim() == state);
    }
    expect.judge();
}

/// Check that scx_bias names the reason before the verifier reports an incomprehensible error.
/// Debian's 7.2.12 describes its kernel functions wrongly, so no scheduler that calls them can
/// load.
#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn a_kernel_with_malformed_type_information_is_named() {
    let results = Scenario::plain("7.2", "SYM", 5, "").run(
        "set +e
$BIAS check --json >$OUT/check.json; echo $? >$OUT/check.code
$BIAS >$OUT/load.out 2>$OUT/load.err; echo $? >$OUT/load.code
cat /sys/kernel/sched_ext/state >$OUT/state
exit 0",
    );
    let mut expect = Expectations::default();
    expect.holds("check ends with 3", results.text("check.code").trim() == "3");
    let check = results.json("check").to_string();
    expect.holds(&format!("check says malformed: {check}"), check.contains("malformed BTF"));
    expect.holds("loading ends with 3", results.text("load.code").trim() == "3");
    let error = results.text("load.err");
    expect.holds(
        &format!("loading says where to look: {error:?}"),
        error.contains("malformed") || error.contains("scx_bias check"),
    );
    expect.holds("nothing was loaded", results.text("state").trim() == "disabled");
    expect.judge();
}
