/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page that the asymmetric VM's plugin, its guest module and the host share, as C. The meaning of
 * every field is documented in abi/src/lib.rs, which is the same layout; a test of that crate compares
 * all sizes and offsets.
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

/* Asks the plugin to publish the executing vCPU's counters up to this very instruction. */
#define AMP_PUBLISH_NOP ".byte 0x0f, 0x1f, 0x84, 0x00, 0x62, 0x69, 0x61, 0x73"

/* Index into amp_vcpu.events, and config of the perf event. */
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
	__u32 enable; /* the guest writes 1: the model and virtual time start */
	__u32 state;
	__u64 virtual_ns;
	__u64 reserved[28];
} __attribute__((aligned(256)));

struct amp_vcpu {
	__u64 events[AMP_NR_EVENTS];
	__u64 branch_misses;
	__u64 l2_hits;
	__u64 llc_hits;
	__u64 model_ns;
	__u64 remote_misses;
	__u64 queued_ns;
	__u64 reserved[4];
	__u32 mips_milli;	 /* nominal, or capped by the host while the guest runs */
	__u32 wanted_mips_milli; /* cpufreq: what the guest asks for; 0: nothing */
	__u32 reserved2[30];
} __attribute__((aligned(256)));

struct amp_shared {
	struct amp_header header;
	struct amp_vcpu vcpus[AMP_MAX_VCPUS];
};

#endif
