//! bias-bench: workloads with known behaviour, and the comparison of schedulers.

fn main() -> std::process::ExitCode {
    bias_bench::cli::main()
}
