//! The program behind `bias-bench sim`.

fn main() -> std::process::ExitCode {
    bias_sim::command::main(std::env::args_os()).into()
}
