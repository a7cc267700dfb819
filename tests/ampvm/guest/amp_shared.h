/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * The page that the asymmetric VM's plugin, its guest module and the host
 * share, as C. abi/src/layout.rs has the same layout and documents every field.
 * A test of that crate compares all sizes and offsets.
 */
#ifndef AMP_SHARED_H
#define AMP_SHARED_H

#include <linux/types.h>

#define AMP_PAGE_BYTES (1 << 20)
#define AMP_MAGIC      0x76706d6173616962ULL /* "biasampv" */
#define AMP_VERSION    2
#define AMP_MAX_VCPUS  64
#define AMP_PCI_VENDOR 0x1af4
#define AMP_PCI_DEVICE 0x1110

/*
 * Request that the plugin publish the counters of the executing vCPU, exactly
 * up to this instruction.
 */
#define AMP_PUBLISH_NOP ".byte 0x0f, 0x1f, 0x84, 0x00, 0x62, 0x69, 0x61, 0x73"

/* Index into amp_vcpu.counters, and config of the perf event. */
enum amp_event {
	AMP_INSTRUCTIONS = 0,
	AMP_CYCLES = 1,
	AMP_STALL_EXTERNAL = 2,
	AMP_STALL_INTERNAL = 3,
	AMP_LLC_MISSES = 4,
	AMP_TRANSFERS = 5,
	AMP_NR_EVENTS = 6,
};

struct amp_header {
	__u64 magic;
	__u32 version;
	__u32 nr_vcpus;
	__u32 enable; /* the guest writes 1 to start model and virtual time */
	__u32 state;
	__u64 virtual_ns;
	__u64 reserved[28];
} __attribute__((aligned(256)));

struct amp_vcpu {
	__u64 counters[12]; /* the first ones are those of enum amp_event */
	__u64 reserved[4];
	/* The nominal speed, or the host's cap while the guest runs. */
	__u32 mips_milli;
	/* The speed that the guest's cpufreq driver requests; 0: none. */
	__u32 wanted_mips_milli;
	__u32 reserved2[30];
} __attribute__((aligned(256)));

struct amp_shared {
	struct amp_header header;
	struct amp_vcpu vcpus[AMP_MAX_VCPUS];
};

#endif
