//! QEMU TCG plugin that gives every vCPU its own speed and stalls.
