//! Pure policy of scx_bias: the C headers bound, and what only the agent decides.
