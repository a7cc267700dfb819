//! The agent of scx_bias: calibration, loading, statistics.
