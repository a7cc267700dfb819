//! Runs commands in the asymmetric VM.
